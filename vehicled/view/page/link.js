// The connection to the server. It is opened again after each end, and the server then sends the drive from the beginning.

const SHORTEST_MS = 500;
const LONGEST_MS = 8000;

export class Link {
  constructor(onRows, onMessage, onState) {
    this.onRows = onRows;
    this.onMessage = onMessage;
    this.onState = onState;
    this.pause = SHORTEST_MS;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/live`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.onState("connected", "");
    this.socket.onmessage = ({ data }) => {
      this.pause = SHORTEST_MS;
      if (typeof data === "string") this.onMessage(JSON.parse(data));
      else this.onRows(data);
    };
    this.socket.onclose = ({ reason }) => {
      this.onState("closed", reason);
      setTimeout(() => this.open(), this.pause);
      this.pause = Math.min(2 * this.pause, LONGEST_MS);
    };
  }

  mark(text) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify({ type: "mark", text }));
    return true;
  }
}
