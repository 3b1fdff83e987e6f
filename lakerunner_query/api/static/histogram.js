// Loaded lines over time, stacked by level. It covers exactly the time that has been loaded, so that an empty
// stretch means "no lines" and never "not asked".
import { $, element, shape } from "./dom.js";
import { LEVELS, levelOf } from "./levels.js";
import { clock, millis } from "./range.js";
import { duration } from "./scales.js";

const BUCKETS = 120, WIDTH = 600, HEIGHT = 90, TICKS = 6;

export function drawHistogram(rows, covered, zoom) {
  $("histogram").hidden = rows.length === 0;
  if (!rows.length) return;
  const low = millis(covered.start), width = Math.max(1, (millis(covered.end) - low) / BUCKETS);
  const stacks = Array.from({ length: BUCKETS }, () => ({}));
  const totals = {};
  for (const row of rows) {
    const at = Math.floor((millis(row.timestamp) - low) / width);
    const stack = stacks[Math.max(0, Math.min(BUCKETS - 1, at))], level = levelOf(row);
    stack[level] = (stack[level] || 0) + 1;
    totals[level] = (totals[level] || 0) + 1;
  }
  const peak = Math.max(...stacks.map(sum));
  $("bars").replaceChildren(...stacks.map((stack, i) => (sum(stack) ? bar(stack, i, peak, low + i * width, width, zoom) : "")));
  $("axis").replaceChildren(...Array.from({ length: TICKS }, (_, i) =>
    element("span", {}, clock(low + (i * BUCKETS * width) / (TICKS - 1)).slice(0, width > 1000 ? 14 : 18))));
  $("legend").replaceChildren(
    ...LEVELS.filter((level) => totals[level]).map((level) => element("li", { className: `level-${level}` }, `${level} ${totals[level].toLocaleString("en")}`)),
    element("li", { className: "peak" }, `loaded lines, at most ${peak.toLocaleString("en")} in ${duration(width)}; UTC`));
}

const sum = (stack) => Object.values(stack).reduce((a, b) => a + b, 0);

function bar(stack, i, peak, from, width, zoom) {
  const x = (i * WIDTH) / BUCKETS, wide = WIDTH / BUCKETS;
  const group = shape("g", {}, "");
  group.append(shape("rect", { x, y: 0, width: wide, height: HEIGHT }, "hit"));
  let bottom = HEIGHT;
  for (const level of LEVELS.filter((name) => stack[name])) {
    const height = Math.max(1, (stack[level] / peak) * (HEIGHT - 4));
    bottom -= height;
    group.append(shape("rect", { x: x + 0.4, y: bottom, width: wide - 0.8, height }, `level-${level}`));
  }
  const title = shape("title", {}, "");
  title.textContent = [clock(from), ...LEVELS.filter((l) => stack[l]).map((l) => `${l}: ${stack[l]}`), "click to zoom in"].join("\n");
  group.append(title);
  group.addEventListener("click", () => zoom(from, from + Math.max(2, width)));
  return group;
}
