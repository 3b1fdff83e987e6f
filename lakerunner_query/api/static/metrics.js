// Metrics: PromQL, as a chart or a table.
import { ask } from "./api.js";
import { exampleFor, quantileOf } from "./complete.js";
import { $, button, element, visible } from "./dom.js";
import * as notices from "./notices.js";
import { drop, guarded, start } from "./runner.js";
import { clearSamples, nothingFound, PROMQL, request, sampled } from "./samples.js";
import { catalogue } from "./suggest.js";
import { many, numbers } from "./summary.js";

const NAMED = 24;
const EXAMPLES = ['count by (__name__) ({__name__=~".+"})', "sum by (job) (rate(http_requests_total[5m]))",
  "histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))"];
let shown = { query: "", count: 0, window: null };

export const metrics = {
  name: "metrics", language: "PromQL", every: 15000, text: "",
  ask: run, explain, examples,
  settle() {},
  answer: () => "samples",
  blank() { shown = { ...shown, query: "", count: 0 }; clearSamples(); },
  count: () => many(shown.count, "series"),
  query: () => shown.query || $("query").value,
  window: () => shown.window,
  summary: (done, seconds) => [...(done.status === "explained" ? [] : [metrics.count()]), ...numbers(done, seconds, $("live").checked)].join(" · "),
};

const again = () => start(metrics);
const take = (query) => { $("query").value = query; again(); };

async function run({ quiet = false } = {}) {
  if (!$("query").value.trim()) return nothingAsked();
  await guarded(metrics, quiet, async (signal) => {
    if (!quiet) metrics.blank();
    shown.query = $("query").value;
    const { done, count, notes, untold, window } = await sampled(PROMQL, signal, { keep: quiet, again });
    shown = { ...shown, count, window: window ?? shown.window };
    if (quiet) notices.clear();
    if (untold) notes.push([`${many(untold, "series")} of native histograms cannot be drawn; a function such as histogram_quantile or histogram_avg makes numbers of them: `, button(quantileOf(shown.query), () => take(quantileOf(shown.query)))]);
    if (!count) nothingFound(again);
    if (notes.length) notices.showNotes(notes, done.status === "partial" || done.truncated || done.warnings.length ? "warn" : "");
    return done;
  });
}

function nothingAsked() {
  drop();
  notices.clear();
  metrics.blank();
  $("status").textContent = "";
  $("live").checked = false;
  return examples(take);
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
    notices.showPlan(await (await ask("/api/v1/metrics/explain", request(), signal)).text());
    return { status: "explained" };
  });
}
