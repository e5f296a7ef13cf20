// The car from above with its four corners: load, slip, force and deflection of each.

import { DEG, WHEELS, fixed, isMoving } from "./format.js";

// Of the lines of forces: 70 units of the drawing for 5 kN.
const NEWTON_TO_PIXEL = 70 / 5000;
// Radius of the disc of a wheel at this load in N; its area is in proportion to the load.
const LOAD_RADIUS = 30;
const LOAD_AT = 5000;
// Deflection in m that fills half of the bar, whose length is RAIL.
const TRAVEL = 0.08;
const RAIL = 66;
const PLACES = {
  fl: { x: 122, y: 112, side: -1 }, fr: { x: 238, y: 112, side: 1 },
  rl: { x: 122, y: 308, side: -1 }, rr: { x: 238, y: 308, side: 1 },
};
const CENTRE = { x: 180, y: 215 };

function element(parent, name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
}

export class Car {
  constructor(parent) {
    const svg = element(parent, "svg", { viewBox: "0 34 360 358", role: "img", "aria-label": "The four corners of the car" });
    element(svg, "path", {
      class: "body",
      d: "M132 120 C130 74 146 48 180 46 C214 48 230 74 228 120 L230 168 L230 262 L232 312 C232 356 214 376 180 378 C146 376 128 356 128 312 L130 262 L130 168 Z",
    });
    element(svg, "path", { class: "glass", d: "M142 172 Q180 146 218 172 L210 200 Q180 188 150 200 Z" });
    element(svg, "path", { class: "glass", d: "M146 306 Q180 320 214 306 L208 282 Q180 290 152 282 Z" });
    this.heading = element(svg, "line", { class: "heading", x1: CENTRE.x, y1: CENTRE.y });
    const legend = document.createElement("p");
    legend.textContent = "load (disc), slip angle, slip ratio, deflection (bar), tyre force (line)";
    parent.append(legend);
    this.corners = Object.fromEntries(WHEELS.map((wheel) => [wheel, this.makeCorner(svg, PLACES[wheel])]));
  }

  makeCorner(svg, { x, y, side }) {
    const corner = {
      load: element(svg, "circle", { class: "load", cx: x, cy: y }),
      tyre: element(svg, "rect", { class: "tyre", x: x - 7, y: y - 20, width: 14, height: 40, rx: 4 }),
      force: element(svg, "line", { class: "force", x1: x, y1: y }),
    };
    const rail = side < 0 ? 10 : 344;
    element(svg, "rect", { class: "rail", x: rail, y: y - RAIL / 2, width: 6, height: RAIL, rx: 3 });
    element(svg, "rect", { class: "rail", x: rail - 2, y: y - 0.75, width: 10, height: 1.5 });
    corner.travel = element(svg, "rect", { class: "travel", x: rail, width: 6, rx: 3 });
    const anchor = side < 0 ? "start" : "end";
    const column = side < 0 ? 24 : 336;
    const line = (dy, name = "") => element(svg, "text", { x: column, y: y + dy, "text-anchor": anchor, class: name });
    corner.loadText = line(-24);
    corner.angleText = line(-6);
    corner.ratioText = line(12);
    corner.deflectionText = line(30);
    return corner;
  }

  draw(history, row) {
    const at = (name) => history.value(name, row);
    const moving = isMoving(at("vx"));
    const sideslip = moving ? at("sideslip") : 0;
    const length = row < 0 ? 0 : 58;
    this.heading.setAttribute("x2", CENTRE.x - length * Math.sin(sideslip || 0));
    this.heading.setAttribute("y2", CENTRE.y - length * Math.cos(sideslip || 0));
    for (const wheel of WHEELS) {
      const corner = this.corners[wheel];
      const { x, y } = PLACES[wheel];
      const [fx, fy, fz] = ["fx", "fy", "fz"].map((name) => at(`tyre.${wheel}.${name}`));
      const deflection = at(`suspension.${wheel}.deflection`);
      const angle = moving ? at(`slip.${wheel}.angle`) : NaN;
      const ratio = moving ? at(`slip.${wheel}.ratio`) : NaN;
      corner.load.setAttribute("r", Number.isFinite(fz) ? LOAD_RADIUS * Math.sqrt(Math.max(fz, 0) / LOAD_AT) : 0);
      corner.force.setAttribute("x2", x - (fy * NEWTON_TO_PIXEL || 0));
      corner.force.setAttribute("y2", y - (fx * NEWTON_TO_PIXEL || 0));
      const shift = (Math.min(Math.max(deflection || 0, -TRAVEL), TRAVEL) / TRAVEL) * (RAIL / 2);
      corner.travel.setAttribute("y", shift > 0 ? y - shift : y);
      corner.travel.setAttribute("height", Math.abs(shift));
      corner.loadText.textContent = `${fixed(fz / 1000, 1)} kN`;
      corner.angleText.textContent = `${fixed(angle * DEG, 1)}°`;
      corner.ratioText.textContent = `${fixed(ratio * 100, 1)} %`;
      corner.deflectionText.textContent = `${fixed(deflection * 1000, 0)} mm`;
    }
  }
}
