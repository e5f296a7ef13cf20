// A canvas that fills its element at the screen's own resolution, in the page's colours.

export class Surface {
  constructor(element, onResize) {
    this.element = element;
    this.canvas = document.createElement("canvas");
    element.append(this.canvas);
    this.context = this.canvas.getContext("2d");
    this.width = this.height = 0;
    new ResizeObserver(() => {
      this.fit();
      onResize();
    }).observe(element);
    this.fit();
  }

  fit() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.element.clientWidth;
    this.height = this.element.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  clear() {
    this.context.clearRect(0, 0, this.width, this.height);
    return this.context;
  }
}

export function strokeCross(context, x, y, radius) {
  context.beginPath();
  context.moveTo(x - radius, y);
  context.lineTo(x + radius, y);
  context.moveTo(x, y - radius);
  context.lineTo(x, y + radius);
  context.stroke();
}

// Filled, with an edge.
export function drawDisc(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
  context.stroke();
}

let colours = null;

// The colours of style.css by name, read once and after a change between light and dark.
export function palette() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    const names = ["page", "panel", "text", "quiet", "line", "accent", "soft", "warm", "good", "warn", "bad"];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return colours;
}

export function onPaletteChange(then) {
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours = null;
    then();
  });
}
