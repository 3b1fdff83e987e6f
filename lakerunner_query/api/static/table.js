// An instant result: a row a series, the values as the answer spells them.
import { $, element, visible } from "./dom.js";
import { exact, nanos } from "./range.js";
import { readable } from "./scales.js";
import { named } from "./series.js";

const SAMPLES = 20, BAR = 24;

/** Draws a `resultType` and `result` of Prometheus' API; how many rows there are comes back. */
export function drawTable(kind, result) {
  const rows = kind === "scalar" || kind === "string" ? [[kind, result[1]]] : result.map((one) => [named(one.metric), told(one)]);
  const time = kind === "scalar" ? result[0] : kind === "vector" && rows.length ? (result[0].value ?? result[0].histogram)[0] : null;
  $("values").replaceChildren(
    element("caption", {}, time === null ? "" : `at ${at(time)}`),
    element("thead", {}, element("tr", {}, ...["Series", "Value"].map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, visible(name)), element("td", {}, typeof value === "string" ? visible(value) : value)))));
  $("values").hidden = !rows.length;
  return rows.length;
}

/** A value, a histogram whose buckets open beneath it, or of a range vector the samples, the latest first. */
function told({ value, histogram, values = [], histograms = [] }) {
  if (value) return value[1];
  if (histogram) return opening(histogram[1]);
  const all = [...values, ...histograms.map(([time, one]) => [time, short(one)])].sort((a, b) => b[0] - a[0]);
  const more = all.length > SAMPLES ? [`… ${all.length - SAMPLES} more`] : [];
  return [...all.slice(0, SAMPLES).map(([time, text]) => `${text} @ ${at(time)}`), ...more].join("\n");
}

function opening(histogram) {
  const { buckets = [] } = histogram;
  return buckets.length ? element("details", {}, element("summary", {}, short(histogram)), element("pre", {}, bucketLines(buckets))) : short(histogram);
}

/** `(0.5, 1]  17 ▇▇▇`, a line a bucket; its brackets say which end belongs to it, by the number it comes with. */
export function bucketLines(buckets) {
  const end = (text) => readable(Number(text), text), most = Math.max(...buckets.map(([, , , count]) => Number(count)));
  const ranges = buckets.map(([kind, low, high]) => `${"([(["[kind]}${end(low)}, ${end(high)}${"]))]"[kind]}`);
  const wide = Math.max(...ranges.map((text) => text.length)), long = Math.max(...buckets.map(([, , , count]) => count.length));
  return buckets.map(([, , , count], i) => `${ranges[i].padEnd(wide)}  ${count.padStart(long)} ${"▇".repeat(Math.max(0, Math.round((Number(count) / most) * BAR)) || 0)}`.trimEnd()).join("\n");
}

const short = ({ count, sum, buckets = [] }) => `histogram: count ${count}, sum ${sum}, ${buckets.length} buckets`;
const at = (seconds) => exact(String(nanos(seconds * 1000))).replace(/\.?0+Z$/, "Z");
