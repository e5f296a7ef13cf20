// Every source with its state and the reason; the time of the filter step.

import { fixed } from "./format.js";

const LEVELS = { active: "good", measured: "good", connected: "good", estimated: "good", distrusted: "warn" };
const STATES = { running: "good", waiting: "none", aligning: "warn", degraded: "warn", recovering: "warn", failed: "bad" };

export function levelOfState(state) {
  return STATES[state] ?? "none";
}

function make(tag, name, text) {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}

function row(name, state, fault) {
  const item = document.createElement("li");
  const dot = make("span", "dot", "");
  dot.dataset.level = fault ? "bad" : LEVELS[state] ?? "none";
  item.append(dot, make("span", "", name), make("span", "what", state));
  if (fault) {
    const uncertain = fault.less_certain.length ? `; less certain: ${fault.less_certain.join(", ")}` : "";
    item.append(make("span", "why", `${fault.reason}${uncertain}`));
  }
  return item;
}

// Only what has changed is built anew: the page would lose its selection otherwise.
export class Health {
  constructor(sources, step) {
    this.sources = sources;
    this.step = step;
    this.shown = null;
  }

  draw(status) {
    if (status === this.shown) return;
    this.shown = status;
    if (!status) {
      this.sources.replaceChildren();
      this.step.replaceChildren();
      return;
    }
    const faults = new Map(status.faults.map((fault) => [fault.source, fault]));
    const items = [];
    const group = (heading, entries) => {
      if (entries.length && heading) items.push(make("li", "heading", heading));
      for (const [name, state] of entries) {
        items.push(row(name, state, faults.get(name)));
        faults.delete(name);
      }
    };
    const state = ([name, { state }]) => [name, state];
    const sensors = Object.entries(status.sensors).map(state);
    const devices = Object.entries(status.devices).map(state);
    const inputs = Object.entries(status.inputs);
    const others = [...faults.keys()].filter((name) => ![...sensors, ...devices, ...inputs].some(([n]) => n === name));
    group("", others.map((name) => [name, "out of order"]));
    group("measurements", sensors);
    group("inputs", inputs);
    group("devices", devices);
    this.sources.replaceChildren(...items);
    this.drawStep(status);
  }

  drawStep({ loop, dropped, recorder, restarts }) {
    const list = document.createElement("dl");
    const line = (term, text, level) => {
      const value = make("dd", "", text);
      if (level) value.dataset.level = level;
      list.append(make("dt", "", term), value);
    };
    const parts = [list];
    if (loop && loop.step_us.median !== null) {
      const { median, p999, max } = loop.step_us;
      const period = 1e6 / loop.rate_hz;
      const meter = make("div", "meter", "");
      for (const [name, us] of [["worst", max], ["often", p999], ["", median]]) {
        const bar = make("span", name, "");
        bar.style.width = `${Math.min(100, (100 * us) / period)}%`;
        meter.append(bar);
      }
      meter.title = `of the ${fixed(period / 1000, 1)} ms between steps`;
      parts.unshift(meter);
      line("median", `${fixed(median / 1000, 2)} ms`);
      line("99.9 %", `${fixed(p999 / 1000, 2)} ms`);
      line("longest", `${fixed(max / 1000, 2)} of ${fixed(period / 1000, 1)} ms`);
      line("missed", `${loop.missed} of ${loop.steps}`, loop.missed ? "warn" : "");
    } else line("step time", "only of a daemon");
    if (loop) line("dropped", String(dropped), dropped ? "warn" : "");
    line("restarts", String(restarts), restarts ? "warn" : "");
    if (recorder) line("recording", `${recorder.state}, ${fixed(recorder.bytes / 1e6, 1)} MB`, recorder.state === "recording" ? "" : "warn");
    else if (loop) line("recording", "off");
    this.step.replaceChildren(...parts);
  }
}
