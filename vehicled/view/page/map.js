// The car's way from above, north up: track, marks, the car, and the 2 σ ellipse of its position.

import { Surface, drawDisc, palette, strokeCross } from "./canvas.js";
import { ellipseOf } from "./ellipse.js";
import { fixed } from "./format.js";

// Of the track that are drawn.
const MOST_POINTS = 6000;
// Metres that the whole track is shown as at least, and pixels around it.
const LEAST_SPAN = 4;
const MARGIN = 34;
// Radius in pixels of the circle with the ellipse.
const LENS = 34;
// Pixels between the lines of the grid, at least.
const GRID = 90;
// Pixels per metre.
const LEAST_SCALE = 0.005, LARGEST_SCALE = 4000;
// Metres of an ordinary car, as its own are not published; and pixels, where it would be smaller.
const CAR_LENGTH = 4.2, CAR_WIDTH = 1.8;
const LEAST_LENGTH = 18, LEAST_WIDTH = 12;
// Pixels of its length from which on it is translucent, as it would hide its track and the ellipse.
const TRANSLUCENT_FROM = 40;

function lengthText(metres) {
  if (metres >= 1000) return `${fixed(metres / 1000, 0)} km`;
  if (metres >= 1) return `${fixed(metres, 0)} m`;
  return metres >= 0.01 ? `${fixed(metres * 100, 0)} cm` : `${fixed(metres * 1000, 0)} mm`;
}

// To 1, 2 or 5 of a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((k) => k * power >= value * 0.999);
}

export class TrackMap {
  constructor(element, redraw) {
    this.redraw = redraw;
    this.surface = new Surface(element, redraw);
    // Pixels per metre around the car; null: all that there is of the track.
    this.scale = null;
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300));
    }, { passive: false });
    this.pinch(element);
  }

  pinch(element) {
    const fingers = new Map();
    let before = 0;
    const spread = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a.x - b.x, a.y - b.y);
    };
    element.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (fingers.size === 2) before = spread();
    });
    element.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) return;
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (fingers.size !== 2) return;
      const now = spread();
      if (before > 0 && now > 0) this.zoom(now / before);
      before = now;
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
      element.addEventListener(end, (event) => fingers.delete(event.pointerId));
    }
  }

  zoom(factor) {
    this.scale = Math.min(Math.max((this.scale ?? this.drawnScale ?? 1) * factor, LEAST_SCALE), LARGEST_SCALE);
    this.redraw();
  }

  showAll() {
    this.scale = null;
    this.redraw();
  }

  draw(history, row, marks) {
    const context = this.surface.clear();
    const { width, height } = this.surface;
    const { x, y } = history.columns;
    if (row < 0 || !width) return;
    const frame = this.frame(history, row);
    this.drawnScale = frame.scale;
    const px = (k) => width / 2 + (x[k] - frame.x) * frame.scale;
    const py = (k) => height / 2 - (y[k] - frame.y) * frame.scale;
    this.drawGrid(context, frame);
    this.drawTrack(context, history, row, px, py);
    for (const mark of marks) {
      const k = history.indexAt(mark.t);
      if (k >= 0) this.drawMark(context, px(k), py(k));
    }
    this.drawCar(context, history, row, px(row), py(row), frame.scale);
    this.drawLens(context, history, row);
  }

  frame(history, row) {
    const { width, height } = this.surface;
    const { x, y } = history.columns;
    if (this.scale !== null) return { x: x[row], y: y[row], scale: this.scale };
    let [west, east, south, north] = [Infinity, -Infinity, Infinity, -Infinity];
    const stride = Math.ceil(history.length / MOST_POINTS);
    for (let k = 0; k < history.length; k += stride) {
      if (x[k] < west) west = x[k];
      if (x[k] > east) east = x[k];
      if (y[k] < south) south = y[k];
      if (y[k] > north) north = y[k];
    }
    [west, east] = [Math.min(west, x[row]), Math.max(east, x[row])];
    [south, north] = [Math.min(south, y[row]), Math.max(north, y[row])];
    const scale = Math.min(
      (width - 2 * MARGIN) / Math.max(east - west, LEAST_SPAN),
      (height - 2 * MARGIN) / Math.max(north - south, LEAST_SPAN),
    );
    return { x: (west + east) / 2, y: (south + north) / 2, scale };
  }

  drawGrid(context, frame) {
    const { width, height } = this.surface;
    const colours = palette();
    const step = roundUp(GRID / frame.scale);
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    const [halfWidth, halfHeight] = [width / 2 / frame.scale, height / 2 / frame.scale];
    for (let gx = Math.ceil((frame.x - halfWidth) / step) * step; gx < frame.x + halfWidth; gx += step) {
      const at = width / 2 + (gx - frame.x) * frame.scale;
      context.moveTo(at, 0);
      context.lineTo(at, height);
    }
    for (let gy = Math.ceil((frame.y - halfHeight) / step) * step; gy < frame.y + halfHeight; gy += step) {
      const at = height / 2 - (gy - frame.y) * frame.scale;
      context.moveTo(0, at);
      context.lineTo(width, at);
    }
    context.stroke();
    const length = step * frame.scale;
    context.strokeStyle = context.fillStyle = colours.quiet;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(10, height - 17);
    context.lineTo(10, height - 12);
    context.lineTo(10 + length, height - 12);
    context.lineTo(10 + length, height - 17);
    context.stroke();
    context.font = "12px system-ui, sans-serif";
    context.fillText(lengthText(step), 16, height - 18);
  }

  drawTrack(context, history, row, px, py) {
    const colours = palette();
    const line = (from, to, style, lineWidth) => {
      const stride = Math.max(1, Math.ceil((to - from) / MOST_POINTS));
      context.strokeStyle = style;
      context.lineWidth = lineWidth;
      context.lineJoin = context.lineCap = "round";
      context.beginPath();
      for (let k = from; k <= to; k += stride) context.lineTo(px(k), py(k));
      context.lineTo(px(to), py(to));
      context.stroke();
    };
    if (row < history.length - 1) line(row, history.length - 1, colours.line, 3);
    line(0, row, colours.accent, 2.5);
  }

  drawMark(context, x, y) {
    const colours = palette();
    context.fillStyle = colours.warm;
    context.strokeStyle = colours.panel;
    context.lineWidth = 2;
    drawDisc(context, x, y, 5);
  }

  // The ellipse at a scale of its own, as on that of the track it is mostly too small to be seen.
  drawLens(context, history, row) {
    const { width, height } = this.surface;
    const colours = palette();
    const { a, b, angle } = this.ellipse(history, row);
    if (!(a > 0)) return;
    const [x, y] = [width - LENS - 8, height - LENS - 8];
    const full = roundUp(a);
    const scale = (LENS - 6) / full;
    context.fillStyle = colours.panel;
    context.strokeStyle = colours.line;
    context.lineWidth = 1.5;
    drawDisc(context, x, y, LENS);
    strokeCross(context, x, y, LENS);
    this.drawEllipse(context, x, y, a * scale, b * scale, angle);
    context.fillStyle = colours.quiet;
    context.textAlign = "right";
    context.fillText(`2 σ; rim ${lengthText(full)}`, x - LENS - 8, height - 12);
    context.textAlign = "left";
  }

  ellipse(history, row) {
    const at = (name) => history.columns[name][row];
    return ellipseOf(2 * at("sigma.x"), 2 * at("sigma.y"), at("correlation.xy"));
  }

  drawEllipse(context, x, y, a, b, angle) {
    const colours = palette();
    context.fillStyle = colours.soft;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1;
    context.beginPath();
    context.ellipse(x, y, a, b, -angle, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }

  drawCar(context, history, row, x, y, scale) {
    const colours = palette();
    const at = (name) => history.columns[name][row];
    const { a, b, angle } = this.ellipse(history, row);
    if (Number.isFinite(a + b)) this.drawEllipse(context, x, y, a * scale, b * scale, angle);
    // To scale where that is large enough to be seen.
    const length = Math.max(CAR_LENGTH * scale, LEAST_LENGTH);
    const half = Math.max(CAR_WIDTH * scale, LEAST_WIDTH) / 2;
    context.save();
    context.translate(x, y);
    context.rotate(-at("yaw"));
    context.beginPath();
    context.moveTo(length / 2, 0);
    context.lineTo(length / 4, half);
    context.lineTo(-length / 2, half);
    context.lineTo(-length / 2, -half);
    context.lineTo(length / 4, -half);
    context.closePath();
    context.globalAlpha = CAR_LENGTH * scale > TRANSLUCENT_FROM ? 0.35 : 1;
    context.fillStyle = colours.text;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = colours.panel;
    context.lineWidth = 1.5;
    context.stroke();
    context.restore();
  }
}
