// What is known of the drive: columns of rows in order of time, and what happened.

const FIRST = 4096;
// Twenty minutes of a live drive; of a recording the server sends no more than a page can show.
const MOST_LIVE = 30000;

export class History {
  constructor(title, live, names) {
    this.title = title;
    this.live = live;
    this.names = names;
    this.columns = Object.fromEntries(names.map((name) => [name, new Float32Array(FIRST)]));
    this.length = 0;
    this.statuses = [];
    this.commands = [];
  }

  // Rows of float32 in the order of `names`.
  append(buffer) {
    const values = new Float32Array(buffer);
    const rows = Math.floor(values.length / this.names.length);
    if (this.live && this.length + rows > MOST_LIVE) this.forget(Math.floor(this.length / 4));
    this.reserve(this.length + rows);
    this.names.forEach((name, k) => {
      const column = this.columns[name];
      for (let row = 0; row < rows; row++) column[this.length + row] = values[row * this.names.length + k];
    });
    this.length += rows;
  }

  reserve(rows) {
    if (rows <= this.columns.t.length) return;
    const size = Math.max(rows, 2 * this.columns.t.length);
    for (const name of this.names) {
      const larger = new Float32Array(size);
      larger.set(this.columns[name]);
      this.columns[name] = larger;
    }
  }

  forget(rows) {
    for (const name of this.names) this.columns[name].copyWithin(0, rows, this.length);
    this.length -= rows;
    const begin = this.begin;
    this.statuses = this.statuses.filter((s, k, all) => k === all.length - 1 || all[k + 1].t >= begin);
  }

  get begin() {
    if (this.length) return this.columns.t[0];
    return this.statuses.length ? this.statuses[0].t : 0;
  }

  get end() {
    if (this.length) return this.columns.t[this.length - 1];
    return this.statuses.length ? this.statuses[this.statuses.length - 1].t : 0;
  }

  // The last row that is not after t; -1 where there is none.
  indexAt(t) {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.columns.t[middle] <= t) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  value(name, row) {
    return row < 0 ? NaN : this.columns[name][row];
  }

  statusAt(t) {
    for (let k = this.statuses.length - 1; k >= 0; k--) if (this.statuses[k].t <= t + 1e-6) return this.statuses[k];
    return null;
  }
}
