// Numbers and times as text.

export const DEG = 180 / Math.PI;
export const WHEELS = ["fl", "fr", "rl", "rr"];

export function fixed(value, digits) {
  if (!Number.isFinite(value)) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export function clock(seconds) {
  const sign = seconds < 0 ? "−" : "";
  const tenths = Math.round(Math.abs(seconds) * 10);
  const minutes = Math.floor(tenths / 600);
  return `${sign}${minutes}:${String(Math.floor(tenths / 10) % 60).padStart(2, "0")}.${tenths % 10}`;
}

// A slip means something only from walking pace on.
export function isMoving(vx) {
  return Math.abs(vx) > 1;
}
