// The ellipse of two errors: half axes, the longer one first, and its angle from x to y. Of a correlation that is not
// known, as in tables, the axes are x and y.
export function ellipseOf(x, y, correlation) {
  const product = Number.isFinite(correlation) ? x * y * correlation : 0;
  const [mean, half] = [(x * x + y * y) / 2, (x * x - y * y) / 2];
  const apart = Math.hypot(half, product);
  return {
    a: Math.sqrt(mean + apart),
    b: Math.sqrt(Math.max(mean - apart, 0)),
    angle: Math.atan2(product, half) / 2,
  };
}
