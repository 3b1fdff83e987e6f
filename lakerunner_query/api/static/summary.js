// The line of numbers under a query: how much came, how complete it is, what it took to find it.
export const many = (n, what) => `${n.toLocaleString("en")} ${n === 1 ? what.replace(/s\b/, "") : what}`;

export function summary({ status, stats }, { rows, full, newest }, seconds, live) {
  const parts = [`${many(rows.length, "lines")}${full ? `, ${newest ? "older" : "newer"} lines exist` : ""}`, `${status} in ${seconds.toFixed(2)} s`];
  if (stats) parts.push(`${many(stats.segments_opened, "segments")} read, ${stats.segments_skipped} skipped`, `${many(stats.rows_considered, "rows")} considered`);
  if (live) parts.push(`live, ${new Date().toISOString().slice(11, 19)} UTC`);
  return parts.join(" · ");
}
