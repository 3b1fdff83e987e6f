// Traces: TraceQL, as found traces or as series; one trace as a waterfall.
import { remember } from "./address.js";
import { answered, ask } from "./api.js";
import { $, button, element, visible } from "./dom.js";
import * as notices from "./notices.js";
import * as range from "./range.js";
import { guarded, start } from "./runner.js";
import { clearSamples, nothingFound, request, sampled, TRACEQL, verdict } from "./samples.js";
import { clearDots, drawDots } from "./dots.js";
import { many, numbers } from "./summary.js";
import { nsText, traceHref } from "./tracetext.js";
import { clearTrace, drawTrace } from "./waterfall.js";

const LIMIT = 200, SPANS = 2000;
const EXAMPLES = ["{ status = error }", "{ duration > 500ms && kind = server }", "{ kind = server } >> { status = error }",
  "{ kind = server } | rate() by (resource.service.name)", "{ kind = server } | quantile_over_time(duration, .5, .95)"];
const ORDERS = { newest: (a, b) => (BigInt(b.start) > BigInt(a.start) ? 1 : -1), slowest: (a, b) => b.duration_ns - a.duration_ns, errors: (a, b) => errorsOf(b) - errorsOf(a) };
let shown = empty();

function empty() { return { kind: "traces", found: [], series: 0, query: "", window: null, text: null, trace: null }; }

export const traces = {
  name: "traces", language: "TraceQL", every: 15000, text: "",
  ask: run, explain, settle() {}, blank,
  answer: () => (shown.kind === "samples" ? "samples" : shown.kind),
  isAsked: () => Boolean($("opened").value),
  count: () => (shown.kind === "samples" ? many(shown.series, "series") : shown.kind === "trace" ? "one trace" : many(shown.found.length, "traces")),
  query: () => shown.query || $("query").value,
  window: () => shown.window,
  summary: (done, seconds) => [...(done.status === "explained" ? [] : [traces.count()]), ...numbers(done, seconds, $("live").checked)].join(" · "),
  examples: (take) => notices.showExamples("Ask for traces", "TraceQL: conditions on spans, how they stand to each other, then functions. A trace id opens that trace. Ctrl+Space suggests. For example:", EXAMPLES, take),
};

const again = () => start(traces);

function blank() {
  shown = empty();
  clearSamples();
  clearTrace();
  clearDots();
  $("found").hidden = true;
}

function turn(kind) {
  shown.kind = kind;
  document.body.dataset.answer = kind;
}

/** A trace that the address names stays until the query is another; a bare id is one, too. */
async function run({ quiet = false } = {}) {
  const text = $("query").value.trim();
  if (/^[0-9a-f]{16,32}$/i.test(text)) { $("query").value = ""; location.hash = traceHref(text.toLowerCase()); return; }
  if ($("opened").value && shown.text !== null && shown.text !== text) { $("opened").value = ""; remember("traces"); }
  if ($("opened").value) return one($("opened").value, SPANS, text);
  if (!text) { blank(); turn("traces"); notices.clear(); $("status").textContent = ""; traces.examples((q) => { $("query").value = q; again(); }); return; }
  await guarded(traces, quiet, async (signal) => {
    shown.query = text;
    const kind = (await verdict(TRACEQL, text, signal)) === "series" ? "samples" : "traces";
    if (!quiet || kind !== shown.kind) blank();
    turn(kind);
    shown.query = text; // blank() forgets it
    return (kind === "samples" ? series : search)(signal, quiet);
  });
}

async function search(signal, quiet) {
  const asked = { q: $("query").value, ...range.asked(), limit: LIMIT }, found = [];
  const response = await ask(TRACEQL.stream, asked, signal);
  shown.window = range.pinned(asked, Date.parse(response.headers.get("date")) || Date.now());
  const done = await answered(response, (results) => { found.push(...results); if (!quiet) { shown.found = found; list(); } });
  shown.found = found;
  list();
  if (!found.length) notices.showNothing("No traces match in this time range", ...range.widening(again));
  else if (quiet) notices.clear();
  const notes = [...(done.missing.length ? [notices.partial(done.missing, "spans")] : []), ...(found.length >= LIMIT ? [`The newest ${LIMIT} traces are shown: narrow the range or the query for others.`] : [])];
  if (notes.length) notices.showNotes(notes, done.status === "partial" ? "warn" : "");
  return done;
}

async function series(signal, quiet) {
  const { done, count, notes, window } = await sampled(TRACEQL, signal, { keep: quiet, again });
  Object.assign(shown, { series: count, window });
  if (quiet) notices.clear();
  if (!count) nothingFound(again);
  if (notes.length) notices.showNotes(notes, done.status === "partial" || done.truncated ? "warn" : "");
  return done;
}

async function one(id, limit, text) {
  await guarded(traces, false, async (signal) => {
    blank();
    turn("trace");
    shown.text = text;
    const trace = await (await ask(`/api/v1/traces/${encodeURIComponent(id)}?limit=${limit}`, null, signal)).json();
    const begin = range.millis(trace.start);
    shown.window = { start: range.nanos(begin - 60000), end: range.nanos(begin + trace.duration_ns / 1e6 + 60000) };
    drawTrace(trace, { back: text ? hash() : "", all: () => one(id, trace.counts.spans, text), related: hash });
    if (trace.status === "partial") notices.showNotes(trace.warnings, "warn");
    return { status: trace.status };
  });
}

/** The address of a query over the range that is chosen. */
function hash(q = $("query").value) {
  const fixed = $("range").value === "custom" ? { from: $("from").value, to: $("to").value } : {};
  return `#${new URLSearchParams({ view: "traces", q, range: $("range").value, ...fixed })}`;
}

const errorsOf = ({ services }) => Object.values(services).reduce((sum, { errors }) => sum + errors, 0);
const spansOf = ({ services }) => Object.values(services).reduce((sum, { spans }) => sum + spans, 0);

/** The found traces, as dots over time and as rows. */
function list() {
  const longest = Math.max(1, ...shown.found.map(({ duration_ns: ns }) => ns)), query = Object.fromEntries(new URLSearchParams(hash().slice(1)));
  const rows = [...shown.found].sort(ORDERS[$("found-order").value]);
  drawDots(shown.found, shown.window, errorsOf, (trace) => traceHref(trace.trace_id, query));
  $("found").hidden = !rows.length;
  $("found").tBodies[0].replaceChildren(...rows.map((trace) => {
    const errors = errorsOf(trace), bar = element("span", { className: "length" });
    bar.style.width = `${Math.max(1, (trace.duration_ns / longest) * 100)}%`;
    return element("tr", errors ? { className: "failed" } : {},
      element("td", {}, element("time", { title: range.exact(trace.start) }, range.clock(range.millis(trace.start)))),
      element("td", {}, element("a", { href: traceHref(trace.trace_id, query), title: trace.trace_id }, element("b", {}, visible(trace.root_service)), " ", visible(trace.root_name))),
      element("td", { className: "took" }, bar, element("b", {}, nsText(trace.duration_ns))),
      element("td", { className: "number" }, spansOf(trace).toLocaleString("en")),
      element("td", { className: "number" }, errors ? element("b", { className: "bad" }, errors.toLocaleString("en")) : ""),
      element("td", { className: "number" }, trace.sets.reduce((sum, { matched }) => sum + matched, 0).toLocaleString("en")),
      element("td", { className: "among" }, visible(Object.keys(trace.services).sort().join(", "))));
  }));
}

async function explain() {
  await guarded(traces, false, async (signal) => {
    const isSeries = (await verdict(TRACEQL, $("query").value, signal)) === "series";
    notices.showPlan(await (await ask("/api/v1/spans/explain", isSeries ? request() : { q: $("query").value, ...range.asked(), limit: LIMIT }, signal)).text());
    return { status: "explained" };
  });
}

$("found-order").addEventListener("change", list);
