// Speed and sideslip over time, with a line at the moment that is shown; a press or a drag chooses another one.

import { palette } from "./canvas.js";
import { DEG, clock, isMoving } from "./format.js";

const MOST_POINTS = 4000;
const Plot = globalThis.uPlot;

class Chart {
  constructor(element, series, bands, range, onSeek) {
    const colours = palette();
    const axis = { stroke: colours.quiet, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.plot = new Plot({
      width: Math.max(element.clientWidth, 50),
      height: element.clientHeight,
      padding: [8, 8, 0, 0],
      cursor: { show: false },
      legend: { show: false },
      scales: { x: { time: false }, y: { range } },
      axes: [
        { ...axis, size: 26, values: (_, ticks) => ticks.map((t) => clock(t).replace(/\.0$/, "")) },
        { ...axis, size: 44 },
      ],
      series: [{}, ...series],
      bands,
      hooks: { draw: [(plot) => this.drawCursor(plot)] },
    }, [[0], ...series.map(() => [null])], element);
    this.observer = new ResizeObserver(() => this.plot.setSize({ width: element.clientWidth, height: element.clientHeight }));
    this.observer.observe(element);
    const seek = (event) => {
      const left = event.clientX - this.plot.over.getBoundingClientRect().left;
      onSeek(this.plot.posToVal(left, "x"));
    };
    const { root } = this.plot;
    root.addEventListener("pointerdown", (event) => {
      root.setPointerCapture(event.pointerId);
      seek(event);
    });
    root.addEventListener("pointermove", (event) => event.buttons && seek(event));
  }

  remove() {
    this.observer.disconnect();
    this.plot.destroy();
  }

  drawCursor(plot) {
    if (this.t === undefined) return;
    const at = plot.valToPos(this.t, "x", true);
    const { ctx, bbox } = plot;
    if (!(at >= bbox.left && at <= bbox.left + bbox.width + 1)) return;
    ctx.save();
    ctx.strokeStyle = palette().warm;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  set(data, begin, end, t) {
    this.t = t;
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", { min: begin, max: end });
    });
  }
}

// At least so much is shown around a quantity that hardly changes.
function atLeast(span) {
  return (_, low, high) => {
    if (low === null || high === null) return [-span / 2, span / 2];
    const more = Math.max(0, span - (high - low)) / 2 + 0.05 * (high - low);
    return [low - more, high + more];
  };
}

export class Charts {
  constructor(speed, sideslip, onSeek) {
    this.elements = { speed, sideslip };
    this.onSeek = onSeek;
    this.make();
  }

  // Again after a change of the palette, which a plot keeps.
  make() {
    const colours = palette();
    const line = { stroke: colours.accent, width: 2, points: { show: false } };
    const edge = { ...line, width: 0 };
    this.speed?.remove();
    this.sideslip?.remove();
    this.speed = new Chart(this.elements.speed, [line], [], atLeast(10), this.onSeek);
    const band = { series: [2, 3], fill: colours.soft };
    this.sideslip = new Chart(this.elements.sideslip, [line, edge, edge], [band], atLeast(2), this.onSeek);
  }

  // The last `window` seconds before t, or around it where there is more behind; all with null.
  draw(history, t, window) {
    let [begin, end] = [history.begin, history.end];
    if (window !== null && end - begin > window) {
      end = Math.min(end, Math.max(t + (history.live ? 0 : window / 2), begin + window));
      begin = Math.max(begin, end - window);
    }
    const first = Math.max(0, history.indexAt(begin));
    const last = history.indexAt(end);
    const stride = Math.max(1, Math.ceil((last - first) / MOST_POINTS));
    const [times, speed, angle, upper, lower] = [[], [], [], [], []];
    const c = history.columns;
    const known = (value) => (Number.isFinite(value) ? value : null);
    for (let k = first; k <= last; k += stride) {
      times.push(c.t[k]);
      speed.push(known(Math.hypot(c.vx[k], c.vy[k]) * 3.6));
      const slip = isMoving(c.vx[k]) ? c.sideslip[k] * DEG : NaN;
      const sigma = c["sigma.sideslip"][k] * DEG;
      angle.push(known(slip));
      upper.push(known(slip + 2 * sigma));
      lower.push(known(slip - 2 * sigma));
    }
    const until = Math.max(end, begin + (window ?? 1));
    this.speed.set([times, speed], begin, until, t);
    this.sideslip.set([times, angle, upper, lower], begin, until, t);
  }
}
