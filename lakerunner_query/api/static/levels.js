// The levels this page has colours for; stacked in this order, the worst at the bottom.
export const LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "unknown"];
const SAME = { critical: "fatal", warning: "warn" };

export function levelOf(row) {
  const level = row.metadata.detected_level || "unknown";
  return LEVELS.includes(SAME[level] || level) ? SAME[level] || level : "unknown";
}
