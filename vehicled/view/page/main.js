// Puts the page together: messages into the history, the chosen moment of it onto the page.

import { onPaletteChange } from "./canvas.js";
import { Car } from "./car.js";
import { Charts } from "./charts.js";
import { DEG, clock, fixed, isMoving } from "./format.js";
import { GgDiagram } from "./gg.js";
import { Health, levelOfState } from "./health.js";
import { History } from "./history.js";
import { Link } from "./link.js";
import { TrackMap } from "./map.js";
import { Marks } from "./marks.js";
import { Player } from "./player.js";

const SILENT_MS = 2500;
const WINDOWS = [["10 s", 10], ["30 s", 30], ["2 min", 120], ["all", null]];

const byId = (id) => document.getElementById(id);
let history = new History("", true, ["t"]);
let window_ = 30;
let dirty = true;
let connection = { state: "connecting", reason: "" };
let lastAt = performance.now();
const redraw = () => { dirty = true; };
const seek = (t) => { player.seek(t); redraw(); };

const player = new Player();
const map = new TrackMap(byId("map"), redraw);
const car = new Car(byId("car"));
const gg = new GgDiagram(byId("gg"), redraw);
const charts = new Charts(byId("speed-chart"), byId("sideslip-chart"), seek);
const health = new Health(byId("sources"), byId("step"));
const link = new Link(onRows, onMessage, onConnection);
const marks = new Marks(link, seek);

function onRows(buffer) {
  history.append(buffer);
  lastAt = performance.now();
  redraw();
}

function onMessage(message) {
  if (message.type === "hello") begin(message);
  else if (message.type === "status") history.statuses.push(message);
  else if (message.type === "command") history.commands.push(message);
  else if (message.type === "marked") marks.onReply(message.error, history.statuses[history.statuses.length - 1]);
  lastAt = performance.now();
  redraw();
}

function begin({ title, live, columns }) {
  // After a reconnection the moment that was chosen stays.
  const again = history.title === title && history.live === live && player.mode !== "follow";
  history = new History(title, live, columns);
  if (!again) {
    player.reset(live);
    chooseWindow(live ? 30 : null);
  }
  marks.count = -1;
  byId("title").textContent = title;
  byId("rate").hidden = live;
  document.title = `${title} – vehicled`;
}

function onConnection(state, reason) {
  connection = { state, reason };
  redraw();
}

function chooseWindow(seconds) {
  window_ = seconds;
  for (const button of byId("windows").children) button.setAttribute("aria-pressed", String(button.value === String(seconds)));
  redraw();
}

function showState(status) {
  const [state, reason] = [byId("state"), byId("reason")];
  const silent = performance.now() - lastAt > SILENT_MS;
  let shown = [status ? status.state : "waiting", levelOfState(status?.state), status?.reason ?? ""];
  if (connection.state !== "connected") shown = ["disconnected", "bad", connection.reason || "vehicled view has ended, or cannot be reached; trying again"];
  else if (history.live && silent) shown = ["silent", "bad", history.end ? "no data from the daemon" : "no daemon publishes yet"];
  else if (!status && history.length) shown = ["table", "none", "estimates only"];
  [state.textContent, state.dataset.level, reason.textContent] = shown;
}

function showFigures(row) {
  const at = (name) => history.value(name, row);
  const moving = isMoving(at("vx"));
  byId("speed").textContent = fixed(Math.hypot(at("vx"), at("vy")) * 3.6, 1);
  byId("sideslip").textContent = fixed(moving ? at("sideslip") * DEG : NaN, 1);
  byId("sideslip-sigma").textContent = moving ? `± ${fixed(2 * at("sigma.sideslip") * DEG, 1)}` : "";
  byId("yaw-rate").textContent = fixed(at("wz") * DEG, 1);
  const radius = 2 * Math.hypot(at("sigma.x"), at("sigma.y"));
  byId("position-sigma").textContent = radius < 1 ? fixed(radius * 100, radius < 0.1 ? 1 : 0) : fixed(radius, 1);
  byId("position-unit").textContent = radius < 1 ? "cm" : "m";
}

function showControls() {
  const [play, scrub] = [byId("play"), byId("scrub")];
  const paused = player.mode === "paused";
  play.textContent = paused ? "▶" : "❚❚";
  play.setAttribute("aria-label", paused ? "Play" : "Pause");
  byId("rate").textContent = `${player.rate}×`;
  byId("follow").hidden = !history.live;
  byId("follow").setAttribute("aria-pressed", String(player.mode === "follow"));
  scrub.min = history.begin;
  scrub.max = Math.max(history.end, history.begin + 0.1);
  scrub.value = player.t;
  byId("time").textContent = clock(player.t);
}

function frame(now) {
  if (player.advance(history, now) || dirty) {
    dirty = false;
    const row = history.length ? Math.max(history.indexAt(player.t), 0) : -1;
    const status = history.statusAt(player.t) ?? history.statuses[0] ?? null;
    showState(status);
    showFigures(row);
    showControls();
    if (history.length) {
      map.draw(history, row, history.commands.filter((c) => c.name === "mark"));
      car.draw(history, row);
      gg.draw(history, row);
      charts.draw(history, player.t, window_);
    }
    health.draw(status);
    marks.draw(history);
  }
  requestAnimationFrame(frame);
}

for (const [label, seconds] of WINDOWS) {
  const button = document.createElement("button");
  button.textContent = label;
  button.value = String(seconds);
  button.addEventListener("click", () => chooseWindow(seconds));
  byId("windows").append(button);
}
byId("play").addEventListener("click", () => { player.toggle(history); redraw(); });
byId("rate").addEventListener("click", () => { player.nextRate(); redraw(); });
byId("follow").addEventListener("click", () => { player.follow(); redraw(); });
byId("scrub").addEventListener("input", (event) => seek(Number(event.target.value)));
byId("zoom-in").addEventListener("click", () => map.zoom(2));
byId("zoom-out").addEventListener("click", () => map.zoom(0.5));
byId("zoom-all").addEventListener("click", () => map.showAll());
document.addEventListener("keydown", (event) => {
  if (event.key !== " " || event.target.closest("input:not([type=range]), button")) return;
  event.preventDefault();
  player.toggle(history);
  redraw();
});
onPaletteChange(() => { charts.make(); redraw(); });
setInterval(redraw, 1000);
chooseWindow(30);
requestAnimationFrame(frame);
