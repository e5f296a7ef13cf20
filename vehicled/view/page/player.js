// Which moment of the drive is shown: the newest, one that was chosen, or one that moves on.

const RATES = [1, 2, 5, 10, 0.25];

export class Player {
  constructor() {
    this.reset(true);
  }

  reset(live) {
    this.mode = live ? "follow" : "paused";
    this.t = 0;
    this.rate = 1;
    this.at = null;
  }

  seek(t) {
    this.t = t;
    if (this.mode === "follow") this.mode = "paused";
  }

  toggle(history) {
    if (this.mode !== "paused") this.mode = "paused";
    else {
      if (!history.live && this.t >= history.end) this.t = history.begin;
      this.mode = "playing";
      this.at = null;
    }
  }

  follow() {
    this.mode = "follow";
  }

  nextRate() {
    this.rate = RATES[(RATES.indexOf(this.rate) + 1) % RATES.length];
  }

  // Called for each frame, now in ms; whether the moment has changed.
  advance(history, now) {
    const before = this.t;
    if (this.mode === "follow") this.t = history.end;
    else if (this.mode === "playing") {
      if (this.at !== null) this.t += ((now - this.at) / 1000) * this.rate;
      this.at = now;
      if (this.t >= history.end) {
        this.t = history.end;
        this.mode = history.live ? "follow" : "paused";
      }
    }
    // What a live drive has forgotten cannot be shown.
    this.t = Math.min(Math.max(this.t, history.begin), Math.max(history.end, history.begin));
    return this.t !== before;
  }
}
