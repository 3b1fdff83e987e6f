// Samples of a query in either language: a range drawn as lines, or the values at its end as a table.
import { answered, ask } from "./api.js";
import { clearChart, drawChart, showExemplars } from "./chart.js";
import { $ } from "./dom.js";
import * as notices from "./notices.js";
import * as range from "./range.js";
import { highest, merged, spanned } from "./series.js";
import { drawTable } from "./table.js";
import { traceIdOf } from "./tracetext.js";

const DRAWN = 30, ASKED = 200, ROWS = 1000;
export const PROMQL = { stream: "/api/v1/metrics/query", verdict: "/api/v1/promql/validate", instant: "/prometheus/api/v1/query", scalar: 1, exemplars: "/prometheus/api/v1/query_exemplars" };
export const LOGQL = { stream: "/api/v1/logs/query", verdict: "/api/v1/logql/validate", instant: "/loki/api/v1/query", scalar: 1000 };
export const TRACEQL = { stream: "/api/v1/spans/query", verdict: "/api/v1/traceql/validate" };

/** What is asked for, beside limits. */
export const request = () => ({ q: $("query").value, ...range.asked(), ...($("step").value && { step: $("step").value }) });

export function clearSamples() {
  clearChart();
  $("values").hidden = true;
}

/** Whether a text is of the language, and of which type; what is wrong with it, and where, is thrown. */
export async function verdict({ verdict: path }, q, signal) {
  const said = await (await ask(path, { q }, signal)).json();
  if (!said.valid) throw said.error;
  return said.type;
}

/** As the controls say. `{ done, count, notes, untold, window }`: `untold` series are native histograms, which no line shows. */
export const sampled = (language, signal, options) => ($("show").value === "chart" || !language.instant ? overTime : atItsEnd)(language, signal, options);

/** `keep` leaves hidden what was hidden; `again()` runs the query over the range that was zoomed to. */
async function overTime({ stream, exemplars: path }, signal, { keep, again }) {
  const blocks = [];
  const done = await answered(await ask(stream, { ...request(), limit: ASKED }, signal), (results) => blocks.push(...results));
  const text = blocks.find((one) => "string" in one);
  const series = text ? [] : merged(blocks), lines = series.filter(({ points }) => points.length), drawn = highest(lines, DRAWN);
  const times = spanned(drawn, { start: Number(done.s), end: Number(done.e), step: done.step });
  $("values").hidden = true;
  if (text) drawTable("string", [0, text.string]);
  const sent = series.length ? blocks.flatMap(({ exemplars = [] }) => exemplars.map((one) => ({ id: one.trace_id, ms: Number(one.timestamp), value: one.value }))) : [];
  drawChart(drawn, times, { keep, zoom: (from, to) => { $("live").checked = false; range.chooseBetween(from, to); again(); }, exemplars: sent });
  const failed = path && drawn.length && !keep ? await ofSeries(path, times, signal) : "";
  const notes = [...(done.missing.length ? [notices.partial(done.missing, "samples")] : []), ...done.warnings, ...done.infos];
  if (failed) notes.push(`No exemplars: ${failed}`);
  if (done.truncated) notes.push(`More than ${ASKED} series exist; an aggregation such as sum by (…) or topk(${DRAWN}, …) says more.`);
  if (lines.length > DRAWN) notes.push(`${DRAWN} of ${lines.length} series are drawn, those with the highest values.`);
  if (drawn.length && !drawn.some(({ points }) => points.some(([, value]) => Number.isFinite(value)))) notes.push("All values are NaN or infinite, which no line can show; the table spells them.");
  const window = { start: range.nanos(Number(done.s)), end: range.nanos(Number(done.e)) };
  return { done, count: text ? 1 : series.length, notes, untold: series.filter(({ histograms }) => histograms).length, window };
}

/** Draws the exemplars of the selectors of a query that name a trace; what went wrong, if something did. */
async function ofSeries(path, { start, end }, signal) {
  try {
    const { data } = await (await ask(path, new URLSearchParams({ query: $("query").value, start: start / 1000, end: end / 1000 }), signal)).json();
    showExemplars(data.flatMap(({ exemplars }) => exemplars.map(({ labels, value, timestamp }) => ({ id: traceIdOf(labels), ms: timestamp * 1000, value }))).filter(({ id }) => id));
    return "";
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return error.message;
  }
}

/** Endpoints of others answer at one time; what is wrong with the text, and where, is asked first. */
async function atItsEnd(language, signal) {
  const { q, e } = request();
  await verdict(language, q, signal);
  const form = new URLSearchParams({ query: q, limit: ROWS });
  if (e !== "now") form.set("time", String(range.millis(e) / 1000));
  const response = await ask(language.instant, form, signal);
  const { data, warnings = [], infos = [] } = await response.json();
  clearChart();
  if (data.resultType === "scalar") data.result[0] /= language.scalar; // Loki tells its time in milliseconds
  const partial = response.headers.has("X-Lakerunner-Partial");
  return { done: { status: partial ? "partial" : "complete", warnings, infos }, count: drawTable(data.resultType, data.result), notes: [...warnings, ...infos], untold: 0 };
}

/** A table is of the end alone: a wider range has the same one. */
export function nothingFound(again) {
  if ($("show").value === "chart") notices.showNothing("No samples in this time range", ...range.widening(again));
  else notices.showNothing("No samples at the end of this time range", "Show the range as a chart", () => { $("show").value = "chart"; again(); });
}
