// Metrics: a range drawn as lines, or the values at its end as a table.
import { answered, ask } from "./api.js";
import { clearChart, drawChart } from "./chart.js";
import { exampleFor, quantileOf } from "./complete.js";
import { $, button, element, visible } from "./dom.js";
import * as notices from "./notices.js";
import * as range from "./range.js";
import { drop, guarded, start } from "./runner.js";
import { highest, merged, spanned } from "./series.js";
import { catalogue } from "./suggest.js";
import { many, numbers } from "./summary.js";
import { drawTable } from "./table.js";

const DRAWN = 30, ASKED = 200, ROWS = 1000, NAMED = 24;
const EXAMPLES = ['count by (__name__) ({__name__=~".+"})', "sum by (job) (rate(http_requests_total[5m]))",
  "histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))"];
let shown = { query: "", count: 0, window: null };

export const metrics = {
  name: "metrics", language: "PromQL", every: 15000, text: "",
  ask: run, explain, examples,
  settle() {},
  blank() { shown = { ...shown, query: "", count: 0 }; clearChart(); $("values").hidden = true; },
  count: () => many(shown.count, "series"),
  query: () => shown.query || $("query").value,
  window: () => shown.window,
  summary: (done, seconds) => [...(done.status === "explained" ? [] : [metrics.count()]), ...numbers(done, seconds, $("live").checked)].join(" · "),
};

const body = () => ({ q: $("query").value, ...range.asked(), ...($("step").value && { step: $("step").value }) });

async function run({ quiet = false } = {}) {
  if (!$("query").value.trim()) return nothingAsked();
  await guarded(metrics, quiet, async (signal) => {
    if (!quiet) metrics.blank();
    shown.query = $("query").value;
    const { done, notes } = await ($("show").value === "chart" ? overTime : atItsEnd)(signal, quiet);
    if (quiet) notices.clear();
    const warned = done.status === "partial" || done.truncated || done.warnings.length;
    if (!shown.count) nothingFound();
    if (notes.length) notices.showNotes(notes, warned ? "warn" : "");
    return done;
  });
}

/** A table is of the end alone: a wider range has the same one. */
function nothingFound() {
  if ($("show").value === "chart") notices.showNothing("No samples in this time range", ...range.widening(() => start(metrics)));
  else notices.showNothing("No samples at the end of this time range", "Show the range as a chart", () => { $("show").value = "chart"; start(metrics); });
}

const take = (query) => { $("query").value = query; start(metrics); };

function nothingAsked() {
  drop();
  notices.clear();
  metrics.blank();
  $("status").textContent = "";
  $("live").checked = false;
  return examples(take);
}

async function overTime(signal, quiet) {
  const blocks = [];
  const done = await answered(await ask("/api/v1/metrics/query", { ...body(), limit: ASKED }, signal), (results) => blocks.push(...results));
  const text = blocks.find((one) => "string" in one);
  const series = text ? [] : merged(blocks), lines = series.filter(({ points }) => points.length), drawn = highest(lines, DRAWN);
  const times = spanned(drawn, { start: Number(done.s), end: Number(done.e), step: done.step });
  shown = { ...shown, count: text ? 1 : series.length, window: { start: range.nanos(Number(done.s)), end: range.nanos(Number(done.e)) } };
  $("values").hidden = true;
  if (text) drawTable("string", [0, text.string]);
  drawChart(drawn, times, { keep: quiet, zoom: (from, to) => { $("live").checked = false; range.chooseBetween(from, to); start(metrics); } });
  const untold = series.filter(({ histograms }) => histograms).length;
  const notes = [...(done.missing.length ? [notices.partial(done.missing, "samples")] : []), ...done.warnings, ...done.infos];
  if (done.truncated) notes.push(`More than ${ASKED} series exist; an aggregation such as sum by (…) or topk(${DRAWN}, …) says more.`);
  if (lines.length > DRAWN) notes.push(`${DRAWN} of ${lines.length} series are drawn, those with the highest values.`);
  if (drawn.length && !drawn.some(({ points }) => points.some(([, value]) => Number.isFinite(value)))) notes.push("All values are NaN or infinite, which no line can show; the table spells them.");
  if (untold) notes.push([`${many(untold, "series")} of native histograms cannot be drawn; a function such as histogram_quantile or histogram_avg makes numbers of them: `, button(quantileOf(shown.query), () => take(quantileOf(shown.query)))]);
  return { done, notes };
}

/** Prometheus' endpoint answers at one time; what is wrong with the text, and where, is asked first. */
async function atItsEnd(signal) {
  const { q, e } = body();
  const verdict = await (await ask("/api/v1/promql/validate", { q }, signal)).json();
  if (!verdict.valid) throw verdict.error;
  const form = new URLSearchParams({ query: q, limit: ROWS });
  if (e !== "now") form.set("time", String(range.millis(e) / 1000));
  const response = await ask("/prometheus/api/v1/query", form, signal);
  const { data, warnings = [], infos = [] } = await response.json();
  clearChart();
  shown.count = drawTable(data.resultType, data.result);
  const partial = response.headers.has("X-Lakerunner-Partial");
  return { done: { status: partial ? "partial" : "complete", warnings, infos }, notes: [...warnings, ...infos] };
}

/** Some queries, then the metrics that the range really has, each as a query. */
async function examples(take) {
  notices.showExamples("Ask for metrics", "PromQL: a selector, then functions and aggregations. Ctrl+Space suggests. For example:", EXAMPLES, take);
  const { names, facts } = await catalogue().catch((error) => { $("status").textContent = `no list of metrics: ${error.message}`; return { names: [], facts: [] }; });
  if (!facts.length || $("empty").hidden || document.body.dataset.view !== "metrics") return;
  const known = new Set(names);
  $("empty").append(element("p", {}, `Metrics of this time range${facts.length > NAMED ? `, ${NAMED} of ${facts.length}` : ""}:`),
    ...facts.slice(0, NAMED).map((fact) => Object.assign(button(visible(fact.name), () => take(exampleFor(fact, known))), { title: visible([fact.type, fact.unit, fact.description].filter(Boolean).join(" · ")) })));
}

async function explain() {
  await guarded(metrics, false, async (signal) => {
    notices.showPlan(await (await ask("/api/v1/metrics/explain", body(), signal)).text());
    return { status: "explained" };
  });
}
