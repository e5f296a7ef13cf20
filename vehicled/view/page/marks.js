// Marks and other commands of the drive: in a list, as ticks over the time line, and a form for new ones.

import { clock } from "./format.js";

export class Marks {
  constructor(link, onSeek) {
    this.list = document.getElementById("marks");
    this.ticks = document.getElementById("ticks");
    this.form = document.getElementById("mark-form");
    this.text = document.getElementById("mark-text");
    this.reply = document.getElementById("mark-reply");
    this.onSeek = onSeek;
    this.count = -1;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const sent = link.mark(this.text.value.trim() || "mark");
      this.reply.textContent = sent ? "" : "not connected";
      this.reply.dataset.level = sent ? "none" : "bad";
    });
  }

  onReply(error, status) {
    const notRecorded = status && !status.recorder;
    this.reply.textContent = error ? `not marked: ${error}` : notRecorded ? "marked; nothing is being recorded" : "marked";
    this.reply.dataset.level = error ? "bad" : notRecorded ? "warn" : "good";
    if (!error) this.text.value = "";
  }

  draw(history) {
    const newest = history.statuses[history.statuses.length - 1];
    this.form.hidden = !(history.live && newest && newest.takes_marks);
    const span = history.end - history.begin;
    if (history.commands.length !== this.count) {
      this.count = history.commands.length;
      this.list.replaceChildren(...history.commands.map((command) => this.item(command)));
      this.ticks.replaceChildren(...history.commands.map(() => document.createElement("i")));
    }
    [...this.ticks.children].forEach((tick, k) => {
      const share = span > 0 ? (history.commands[k].t - history.begin) / span : 0;
      tick.hidden = share < 0 || share > 1;
      tick.style.left = `${100 * share}%`;
    });
  }

  item(command) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const time = document.createElement("time");
    time.textContent = clock(command.t);
    button.append(time, command.text ?? command.name);
    button.addEventListener("click", () => this.onSeek(command.t));
    item.append(button);
    return item;
  }
}
