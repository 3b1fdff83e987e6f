// A result as a chart: over time as lines, by category as bars. Which columns, can be chosen.
import { clearChart, drawChart } from "./chart.js";
import { $, element, visible } from "./dom.js";
import { readable } from "./scales.js";
import { highest } from "./series.js";
import { isId, kindOf } from "./values.js";

const DRAWN = 30, BARS = 60, SEVERAL = 6, APART = 60, NONE = "-";

/** What may stand on each axis, and what stands there unless somebody chooses: `{ x, y, by, xs, ys, bys }`. */
export function axes(columns, rows, wanted = {}) {
  const of = (...kinds) => columns.filter(({ name, type }) => kinds.includes(kindOf(type)) && !isId(name)).map(({ name }) => name);
  const times = of("time"), ys = of("number"), words = of("text", "flag", "map"), xs = [...times, ...words, ...ys];
  const among = (name, all) => (all.includes(name) ? name : undefined);
  const x = among(wanted.x, xs) ?? xs[0], bys = words.filter((name) => name !== x), overTime = times.includes(x);
  const apart = (name) => new Set(rows.slice(0, 5000).map((row) => keyOf(row[columns.findIndex((one) => one.name === name)]))).size;
  const usual = overTime ? bys.find((name) => { const n = apart(name); return n > 1 && n <= APART; }) : undefined;
  return { x, y: among(wanted.y, ys) ?? "", by: wanted.by === NONE ? "" : among(wanted.by, bys) ?? usual ?? "", xs, ys: ys.filter((name) => name !== x), bys, overTime };
}

const keyOf = (value) => (value === null || value === undefined ? "null" : typeof value === "object" ? Object.entries(value).map(([name, text]) => `${name}=${text}`).join(", ") || "{}" : String(value));
const numberOf = (value) => (value === null || value === undefined ? NaN : Number(value));

/** `{ series, times, notes }`: a series for each value of `by` and each column of numbers. */
export function linesOf(columns, rows, { x, y, by, ys }) {
  const place = (name) => columns.findIndex((one) => one.name === name), at = place(x), group = by ? place(by) : -1;
  const drawn = (y ? [y] : ys.slice(0, SEVERAL)).map((name) => [name, place(name)]), found = new Map();
  let doubled = 0;
  for (const row of rows) {
    const ms = Date.parse(row[at]);
    if (Number.isNaN(ms)) continue;
    for (const [name, column] of drawn) {
      const key = [...(group < 0 ? [] : [keyOf(row[group])]), ...(drawn.length > 1 || group < 0 ? [name] : [])].join(" · ");
      if (!found.has(key)) found.set(key, { key, name: key, points: [] });
      found.get(key).points.push([ms, numberOf(row[column]), String(row[column])]);
    }
  }
  for (const { points } of found.values()) {
    points.sort((a, b) => a[0] - b[0]);
    doubled += points.filter((one, i) => i && one[0] === points[i - 1][0]).length;
  }
  const moments = [...new Set([...found.values()].flatMap(({ points }) => points.map(([ms]) => ms)))].sort((a, b) => a - b);
  const all = [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1)), series = highest(all, DRAWN), notes = [];
  if (all.length > DRAWN) notes.push(`${DRAWN} of ${all.length} series are drawn, those with the highest values.`);
  if (doubled) notes.push(`${doubled.toLocaleString("en")} rows share their time with another of the same series: choose a series, or GROUP BY the time.`);
  return { series, times: { start: moments[0] ?? 0, end: moments.at(-1) ?? 0, step: stepOf(moments), moments }, notes };
}

/** The least distance of times, if all others are multiples of it; else Infinity: no gap is a gap. */
export function stepOf(moments) {
  const apart = moments.slice(1).map((one, i) => one - moments[i]), least = Math.min(...apart);
  return apart.length && apart.every((one) => one % least === 0) && apart.filter((one) => one === least).length * 2 >= apart.length ? least : Infinity;
}

/** `{ names, bars: [[label, values]], notes }`, in the order of the rows. */
export function barsOf(columns, rows, { x, y, by, ys }) {
  const place = (name) => columns.findIndex((one) => one.name === name), names = y ? [y] : ys.slice(0, SEVERAL);
  const bars = rows.slice(0, BARS).map((row) => [[x, by].filter(Boolean).map((name) => keyOf(row[place(name)])).join(" · "), names.map((name) => row[place(name)])]);
  return { names, bars, notes: rows.length > BARS ? [`The first ${BARS} of ${rows.length.toLocaleString("en")} rows are drawn.`] : [] };
}

/** Draws as the controls say, and fills them with what there is. */
export function drawPlot(columns, rows, zoom) {
  const wanted = { x: $("plot-x").value, y: $("plot-y").value, by: $("plot-by").value }, chosen = axes(columns, rows, wanted);
  fill("plot-x", chosen.xs.map((name) => [name, name]), chosen.x ?? "");
  fill("plot-y", [["", chosen.ys.length > 1 ? `all ${Math.min(SEVERAL, chosen.ys.length)} numbers` : chosen.ys[0] ?? NONE], ...(chosen.ys.length > 1 ? chosen.ys.map((name) => [name, name]) : [])], chosen.y);
  fill("plot-by", [[NONE, "none"], ...chosen.bys.map((name) => [name, name])], chosen.by || NONE);
  clearPlot();
  if (!rows.length) return;
  if (!chosen.ys.length || !chosen.x) return say(["A chart needs a column of numbers, and one of times or texts."]);
  const { series, times, notes } = chosen.overTime ? linesOf(columns, rows, chosen) : { notes: [] };
  if (chosen.overTime) drawChart(series, times, { keep: false, zoom });
  else say([...drawBars(barsOf(columns, rows, chosen)), ...notes]);
  if (chosen.overTime) say(notes);
}

export function clearPlot() {
  clearChart();
  $("bar-chart").hidden = true;
  say([]);
}

function say(notes) {
  $("plot-notes").replaceChildren(...notes.map((text) => element("p", {}, text)));
}

function fill(id, choices, value) {
  $(id).replaceChildren(...choices.map(([name, text]) => new Option(visible(text), name)));
  $(id).value = value;
}

/** A scale for each column: a count and a duration have nothing to share. */
function drawBars({ names, bars, notes }) {
  const ends = names.map((_, i) => bars.map(([, values]) => numberOf(values[i])).filter(Number.isFinite)).map((all) => [Math.min(0, ...all), Math.max(0, ...all)]);
  const bar = (value, i) => {
    const [low, high] = ends[i], number = numberOf(value), span = high - low || 1, made = element("td", {}, element("span", { className: `bar hue-${i}` }), element("b", {}, value === null ? "null" : readable(number, number.toLocaleString("en"))));
    const from = (Math.min(0, number) - low) / span, wide = Math.abs(number) / span;
    if (Number.isFinite(number)) Object.assign(made.firstChild.style, { marginLeft: `${from * 80}%`, width: `${wide * 80}%` });
    return made;
  };
  $("bar-chart").replaceChildren(element("thead", {}, element("tr", {}, element("td"), ...names.map((name) => element("th", { scope: "col" }, visible(name))))),
    element("tbody", {}, ...bars.map(([label, values]) => element("tr", {}, element("th", { scope: "row", title: visible(label) }, visible(label)), ...values.map(bar)))));
  $("bar-chart").hidden = false;
  return notes;
}
