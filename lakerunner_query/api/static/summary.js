// The line of numbers under a query: how much came, how complete it is, what it took to find it.
const ONE = { series: "series" };
export const many = (n, what) => `${n.toLocaleString("en")} ${n === 1 ? ONE[what] ?? what.replace(/s\b/, "") : what}`;

/** What is told of any query. */
export function numbers({ status, stats, points }, seconds, live) {
  const parts = [...(points === undefined ? [] : [many(points, "points")]), `${status} in ${seconds.toFixed(2)} s`];
  if (stats) {
    const skipped = stats.segments_skipped === undefined ? "" : `, ${stats.segments_skipped} skipped`;
    parts.push(`${many(stats.segments_opened, "segments")} read${skipped}`, `${many(stats.rows_considered, "rows")} considered`);
  }
  if (live) parts.push(`live, ${new Date().toISOString().slice(11, 19)} UTC`);
  return parts;
}

export function summary(done, { rows, full, newest }, seconds, live) {
  return [`${many(rows.length, "lines")}${full ? `, ${newest ? "older" : "newer"} lines exist` : ""}`, ...numbers(done, seconds, live)].join(" · ");
}
