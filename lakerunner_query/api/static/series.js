// Samples as this page needs them: `{ key, name, points: [[ms, number, text]], histograms }` for each series.

/** Numbers are text in answers, because JSON has neither NaN nor infinities. */
export const number = (text) => (/^[+-]?Inf$/.test(text) ? (text[0] === "-" ? -Infinity : Infinity) : Number(text));

/** `up{job="a"}`; names that PromQL wants quoted are quoted. */
export function named({ __name__: metric = "", ...labels }) {
  const plain = /^[a-zA-Z_:][\w:]*$/.test(metric);
  const inside = Object.entries(labels).map(([name, value]) => `${/^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name)}=${JSON.stringify(value)}`);
  if (metric && !plain) inside.unshift(JSON.stringify(metric));
  const braces = inside.length || !plain ? `{${inside.join(", ")}}` : "";
  return (plain ? metric : "") + braces;
}

/** A series of a long range comes in several blocks, each later than the one before. */
export function merged(blocks) {
  const found = new Map();
  for (const { labels, values = [], histograms = [] } of blocks) {
    const name = named(labels);
    if (!found.has(name)) found.set(name, { key: name, name, points: [], histograms: 0 });
    const series = found.get(name);
    for (const [seconds, text] of values) series.points.push([Math.round(seconds * 1000), number(text), text]);
    series.histograms += histograms.length;
  }
  return [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** The `most` series with the highest finite values, in the order they came. */
export function highest(series, most) {
  const peaks = new Map(series.map((one) => [one, one.points.reduce((peak, [, value]) => (Number.isFinite(value) && value > peak ? value : peak), -Infinity)]));
  const chosen = new Set([...series].sort((a, b) => (peaks.get(b) > peaks.get(a) ? 1 : peaks.get(b) < peaks.get(a) ? -1 : 0)).slice(0, most));
  return series.filter((one) => chosen.has(one));
}

/** The range, begun earlier by whole steps where a range vector reaches back before it. */
export function spanned(series, { start, end, step }) {
  const first = series.reduce((least, { points }) => Math.min(least, points[0][0]), start);
  return { start: start - Math.ceil((start - first) / step) * step, end, step };
}

/** Stretches without a missing step and without NaN or infinities: what a line may connect. */
export function stretches(points, stepMs) {
  const found = [];
  let before = null;
  for (const point of points) {
    if (!Number.isFinite(point[1])) { before = null; continue; }
    if (before === null || point[0] - before > stepMs * 1.5) found.push([]);
    found.at(-1).push(point);
    before = point[0];
  }
  return found;
}

/** The point at exactly `ms`, by halving. */
export function pointAt(points, ms) {
  let low = 0, high = points.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] === ms) return points[middle];
    if (points[middle][0] < ms) low = middle + 1;
    else high = middle - 1;
  }
  return null;
}
