// The report's plots: one cursor and one range of time for all of them, and for the track.
"use strict";

const { panels, track } = JSON.parse(document.getElementById("data").textContent);
const HEIGHT = 180;
const plots = [];
const sync = uPlot.sync("time");

function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return Array.from(new Kind(bytes.buffer), (v) => (Number.isFinite(v) ? v : null));
}

function makeTable(part) {
  const columns = [unpack(part.t, Float64Array), ...part.lines.map((line) => unpack(line.y, Float32Array))];
  if (part.bound !== null) {
    const bound = unpack(part.bound, Float32Array);
    columns.push(bound, bound.map((v) => (v === null ? null : -v)));
  }
  return columns;
}

function makeCrosses(plot, i) {
  const { ctx } = plot;
  const size = 3 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = plot.series[i].stroke(plot, i);
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  const [from, to] = plot.series[i].idxs;
  for (let k = from; k <= to; k++) {
    const value = plot.data[i][k];
    if (value === null || value === undefined) continue;
    const x = plot.valToPos(plot.data[0][k], "x", true);
    const y = plot.valToPos(value, "y", true);
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x - size, y + size);
    ctx.lineTo(x + size, y - size);
  }
  ctx.stroke();
  ctx.restore();
  return null;
}

// An hour has a million: what would be at the same place is drawn once.
function makePoints(plot, i) {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  const size = 3 * devicePixelRatio;
  const drawn = new Uint8Array((width + 1) * (height + 1));
  ctx.save();
  ctx.fillStyle = plot.series[i].stroke(plot, i);
  const [from, to] = plot.series[i].idxs;
  for (let k = from; k <= to; k++) {
    const value = plot.data[i][k];
    if (value === null || value === undefined) continue;
    const x = Math.round(plot.valToPos(plot.data[0][k], "x", true) - left);
    const y = Math.round(plot.valToPos(value, "y", true) - top);
    if (x < 0 || y < 0 || x > width || y > height || drawn[y * (width + 1) + x]) continue;
    drawn[y * (width + 1) + x] = 1;
    ctx.fillRect(left + x - size / 2, top + y - size / 2, size, size);
  }
  ctx.restore();
  return null;
}

function describe(line) {
  const series = { label: line.label, stroke: line.color, width: line.width, dash: line.dash, points: { show: false } };
  if (line.kind === "points") return { ...series, paths: makePoints };
  if (line.kind === "crosses") return { ...series, paths: makeCrosses };
  return series;
}

function show(value) {
  return value === null || value === undefined ? "–" : Number(value.toPrecision(5)).toString();
}

let moving = false;
function follow(plot, key) {
  if (key !== "x" || moving) return;
  moving = true;
  const { min, max } = plot.scales.x;
  for (const other of plots) if (other !== plot) other.setScale("x", { min, max });
  moving = false;
}

function makePanel(panel, element) {
  const tables = panel.parts.map(makeTable);
  // Lines of runs with other times are put on common ones; what is missing only for that is no hole.
  const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
  const series = [{ label: "time, s", value: (_, v) => show(v) }];
  const bands = [];
  for (const part of panel.parts) {
    for (const line of part.lines) series.push({ ...describe(line), value: (_, v) => show(v) });
    if (part.bound === null) continue;
    bands.push({ series: [series.length, series.length + 1], fill: "#9fc1e680" });
    const edge = { stroke: "#9fc1e6", width: 0.5, points: { show: false }, value: (_, v) => show(v) };
    series.push({ ...edge, label: "3 σ of the filter" }, { ...edge, label: "−3 σ" });
  }
  const axis = { stroke: "#66717e", grid: { stroke: "#e8ebee", width: 1 }, ticks: { show: false } };
  const plot = new uPlot({
    title: " ",
    width: Math.max(element.clientWidth, 200),
    height: HEIGHT,
    cursor: { sync: { key: sync.key }, drag: { x: true, y: false } },
    scales: {
      x: { time: false },
      y: panel.log ? { distr: 3 } : panel.limits === null ? {} : { range: panel.limits },
    },
    axes: [{ ...axis, size: 28 }, { ...axis, size: 58 }],
    series,
    bands,
    hooks: { setScale: [follow], setCursor: [(p) => p.cursor.event && mark(p.posToVal(p.cursor.left, "x"))] },
  }, data, element);
  const title = plot.root.querySelector(".u-title");
  title.textContent = panel.title;
  if (panel.note) title.appendChild(Object.assign(document.createElement("small"), { textContent: panel.note }));
  sync.sub(plot);
  plots.push(plot);
  new ResizeObserver(() => plot.setSize({ width: Math.max(element.clientWidth, 200), height: HEIGHT })).observe(element);
}

// -- the track ----------------------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const SCALE_WIDTH = 120;
let mark = () => {};

function add(parent, name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return parent.appendChild(element);
}

// The largest of 1, 2, 5, 10, … that is not above a value.
function roundDown(value) {
  const power = Math.floor(Math.log10(value));
  return [5, 2, 1].map((digit) => Number(`${digit}e${power}`)).find((rounded) => rounded <= value);
}

function drawTrack(lines, holder) {
  const drawn = lines.map((line) => ({ ...line, x: unpack(line.x, Float64Array), y: unpack(line.y, Float64Array), t: line.t && unpack(line.t, Float64Array) }));
  const xs = drawn.flatMap((line) => [...line.x]);
  const ys = drawn.flatMap((line) => [...line.y]);
  const lowest = (v) => v.reduce((a, b) => Math.min(a, b), Infinity);
  const [left, right, bottom, top] = [lowest(xs), -lowest(xs.map((v) => -v)), lowest(ys), -lowest(ys.map((v) => -v))];
  const margin = 0.05 * Math.max(right - left, top - bottom, 1);
  const whole = [left - margin, -top - margin, right - left + 2 * margin, top - bottom + 2 * margin];
  const svg = add(holder, "svg", { role: "img", "aria-label": "track" });
  svg.style.aspectRatio = `${whole[2]} / ${whole[3]}`;
  let box = [...whole];
  const scale = holder.appendChild(Object.assign(document.createElement("div"), { className: "scale" }));
  const place = () => {
    svg.setAttribute("viewBox", box.join(" "));
    const pixels = svg.getScreenCTM().a;
    const length = roundDown(SCALE_WIDTH / pixels);
    scale.style.width = `${length * pixels}px`;
    scale.textContent = length < 1000 ? `${length} m` : `${length / 1000} km`;
  };
  new ResizeObserver(place).observe(svg);
  const key = holder.appendChild(Object.assign(document.createElement("div"), { className: "key" }));
  for (const line of drawn) {
    const points = line.x.map((x, i) => `${x},${-line.y[i]}`);
    const common = { fill: "none", stroke: line.color, "vector-effect": "non-scaling-stroke", "stroke-linecap": "round" };
    if (line.kind === "points") add(svg, "path", { ...common, "stroke-width": 4, d: points.map((p) => `M${p}h0`).join("") });
    else add(svg, "polyline", { ...common, "stroke-width": line.kind === "dashes" ? 1 : 2, "stroke-dasharray": line.kind === "dashes" ? "5 4" : "none", points: points.join(" ") });
    const entry = key.appendChild(document.createElement("span"));
    entry.appendChild(document.createElement("i")).style.background = line.color;
    entry.appendChild(document.createTextNode(line.label));
  }
  const dots = drawn.filter((line) => line.t).map((line) => ({ line, dot: add(svg, "path", { fill: "none", stroke: line.color, "stroke-width": 11, "stroke-linecap": "round", "vector-effect": "non-scaling-stroke", d: "" }) }));
  mark = (t) => {
    for (const { line, dot } of dots) {
      let low = 0;
      let high = line.t.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (line.t[middle] < t) low = middle + 1;
        else high = middle;
      }
      dot.setAttribute("d", `M${line.x[low]},${-line.y[low]}h0`);
    }
  };
  const toPlane = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, y] = toPlane(event);
    const factor = Math.exp(0.0015 * event.deltaY);
    box = [x - (x - box[0]) * factor, y - (y - box[1]) * factor, box[2] * factor, box[3] * factor];
    place();
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = toPlane(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", () => { held = null; });
  svg.addEventListener("pointermove", (event) => {
    const [x, y] = toPlane(event);
    if (held) {
      box = [box[0] + held[0] - x, box[1] + held[1] - y, box[2], box[3]];
      place();
      return;
    }
    let best = null;
    for (const { line } of dots) {
      line.x.forEach((px, i) => {
        const distance = (px - x) ** 2 + (-line.y[i] - y) ** 2;
        if (best === null || distance < best.distance) best = { distance, t: line.t[i] };
      });
    }
    if (best === null) return;
    mark(best.t);
    for (const plot of plots) plot.setCursor({ left: plot.valToPos(best.t, "x"), top: 10 }, false);
  });
  svg.addEventListener("dblclick", () => { box = [...whole]; place(); });
}

if (track !== null) drawTrack(track, document.getElementById("track"));
document.querySelectorAll(".plot").forEach((element) => makePanel(panels[Number(element.dataset.panel)], element));
// All begin with the whole run, whatever of it they show.
const ranges = plots.map((plot) => plot.data[0]).filter((t) => t.length);
if (ranges.length) {
  const min = Math.min(...ranges.map((t) => t[0]));
  const max = Math.max(...ranges.map((t) => t[t.length - 1]));
  plots[0].setScale("x", { min, max });
}
