// The g-g diagram: forward acceleration up, lateral acceleration to its own side, with the last seconds behind it.

import { Surface, drawDisc, palette, strokeCross } from "./canvas.js";
import { fixed } from "./format.js";

const G = 9.80665;
const TRAIL_S = 12;
// g: what is shown at least, before it is rounded up to a half.
const LEAST = 0.9;

export class GgDiagram {
  constructor(element, redraw) {
    this.surface = new Surface(element, redraw);
  }

  draw(history, row) {
    const context = this.surface.clear();
    const { width, height } = this.surface;
    const colours = palette();
    const { t, ax, ay } = history.columns;
    const first = row < 0 ? 0 : Math.max(0, history.indexAt(t[row] - TRAIL_S));
    let most = LEAST;
    for (let k = first; k <= row; k++) most = Math.max(most, Math.hypot(ax[k], ay[k]) / G || 0);
    const full = Math.ceil(most * 2) / 2;
    const radius = Math.min(width, height) / 2 - 14;
    const scale = radius / full;
    const [x0, y0] = [width / 2, height / 2];

    context.strokeStyle = colours.line;
    context.fillStyle = colours.quiet;
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    for (let g = 0.5; g <= full; g += 0.5) {
      context.beginPath();
      context.arc(x0, y0, g * scale, 0, 2 * Math.PI);
      context.stroke();
      context.fillText(`${fixed(g, 1)} g`, x0 + 3, y0 - g * scale + 12);
    }
    strokeCross(context, x0, y0, radius);
    if (row < 0) return;

    const px = (k) => x0 - (ay[k] / G) * scale;
    const py = (k) => y0 - (ax[k] / G) * scale;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.lineCap = "round";
    for (let k = first + 1; k <= row; k++) {
      context.globalAlpha = 0.08 + 0.75 * (1 - (t[row] - t[k]) / TRAIL_S);
      context.beginPath();
      context.moveTo(px(k - 1), py(k - 1));
      context.lineTo(px(k), py(k));
      context.stroke();
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.warm;
    context.strokeStyle = colours.panel;
    drawDisc(context, px(row), py(row), 6);
  }
}
