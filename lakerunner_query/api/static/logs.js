// Logs: LogQL. Lines come a page at a time, over a histogram of what has been loaded; samples as a chart or a table.
import { answered, ask } from "./api.js";
import { $ } from "./dom.js";
import { drawHistogram } from "./histogram.js";
import { filtered, lineItem, narrowed } from "./lines.js";
import * as notices from "./notices.js";
import * as range from "./range.js";
import { guarded, start } from "./runner.js";
import { clearSamples, LOGQL, nothingFound, request, sampled, verdict } from "./samples.js";
import { many, numbers, summary } from "./summary.js";

const EXAMPLES = ['{service_name=~".+"}', '{service_name=~".+"} |~ "(?i)error|timeout|failed"', '{service_name="checkout"} | json | status >= 500',
  'sum by (detected_level) (count_over_time({service_name=~".+"}[1m]))'];
let shown = { rows: [], ids: new Set(), window: null, newest: true, query: "", full: false };
let counted = null; // how many series, where the answer is samples

export const logs = {
  name: "logs", language: "LogQL", every: 5000, text: '{service_name=~".+"}',
  ask: run, settle, explain, more,
  answer: () => (counted === null ? "lines" : "samples"),
  blank: () => { counted = null; show(empty()); clearSamples(); },
  count: () => (counted === null ? many(shown.rows.length, "lines") : many(counted, "series")),
  query: () => shown.query || $("query").value,
  window: () => shown.window,
  summary: (done, seconds) => (counted === null ? summary(done, shown, seconds, $("live").checked) : [logs.count(), ...numbers(done, seconds, $("live").checked)].join(" · ")),
  examples: (take) => notices.showExamples("Ask for log lines", "LogQL: a stream selector, then line filters, parsers and conditions; or numbers of them. Ctrl+Space suggests. For example:", EXAMPLES, take),
};

const again = () => start(logs);
const newest = () => $("order").value === "newest";
const body = () => ({ q: $("query").value, ...range.asked(), limit: Number($("limit").value), reverse: newest() });

/** What a text gives decides which controls there are. */
async function run({ quiet = false } = {}) {
  await guarded(logs, quiet, async (signal) => {
    if (!quiet) logs.blank();
    const isLines = (await verdict(LOGQL, $("query").value, signal)) === "streams";
    document.body.dataset.answer = isLines ? "lines" : "samples";
    return (isLines ? lines : samples)(signal, quiet);
  });
}

async function lines(signal, quiet) {
  const asked = body(), next = { ...empty(), newest: asked.reverse, query: asked.q };
  counted = null;
  clearSamples();
  if (!quiet) show(next);
  const response = await ask("/api/v1/logs/query", asked, signal);
  next.window = range.pinned(asked, Date.parse(response.headers.get("date")) || Date.now());
  const done = await collect(response, asked.limit, next, quiet ? () => {} : append);
  if (quiet) show(next, shown.ids);
  if (!next.rows.length) notices.showNothing("No lines match in this time range", ...range.widening(again));
  else if (quiet) notices.clear();
  return told(done);
}

async function samples(signal, quiet) {
  const { done, count, notes, window } = await sampled(LOGQL, signal, { keep: quiet, again });
  counted = count;
  shown = { ...empty(), window: window ?? shown.window };
  if (quiet) notices.clear();
  if (!count) nothingFound(again);
  if (notes.length) notices.showNotes(notes, done.status === "partial" || done.truncated || done.warnings.length ? "warn" : "");
  return done;
}

/** The next page in reading order: asked up to and including the last line's nanosecond, known lines left out. */
async function more() {
  const last = BigInt(shown.rows.at(-1).timestamp), { start: first, end } = shown.window;
  $("live").checked = false;
  const [s, e] = shown.newest ? [first, last + 1n] : [last, end];
  await guarded(logs, false, async (signal) => {
    const request = { q: shown.query, s: String(s), e: String(e), limit: Number($("limit").value), reverse: shown.newest };
    const before = shown.rows.length;
    const done = await collect(await ask("/api/v1/logs/query", request, signal), request.limit, shown, append);
    if (shown.full && shown.rows.length === before) throw new Error("More lines share one nanosecond than are loaded at once: load more lines at a time.");
    return told(done);
  });
}

async function collect(response, limit, into, added) {
  let seen = 0;
  const done = await answered(response, (rows) => {
    seen += rows.length;
    const fresh = rows.filter(({ id }) => !into.ids.has(id) && into.ids.add(id));
    into.rows.push(...fresh);
    added(fresh);
  });
  into.full = seen >= limit;
  return done;
}

function told(done) {
  if (done.status === "partial") notices.showNotes([notices.partial(done.missing, "lines")], "warn");
  return done;
}

function settle() {
  if (counted !== null) return;
  drawHistogram(shown.rows, covered(), zoom);
  $("more").hidden = !shown.full;
  $("more").textContent = shown.newest ? "Load older lines" : "Load newer lines";
}

/** The part of the range that the loaded lines speak for. */
function covered() {
  const { rows, window, full } = shown;
  if (!rows.length || !full) return window;
  const last = BigInt(rows.at(-1).timestamp);
  return shown.newest ? { start: last, end: window.end } : { start: window.start, end: last + 1n };
}

const empty = () => ({ rows: [], ids: new Set(), window: null, newest: newest(), query: $("query").value, full: false });
const append = (rows) => $("lines").append(...rows.map((row) => lineItem(row, narrow, filter)));

function show(next, known) {
  const open = new Set([...$("lines").querySelectorAll("details[open]")].map((d) => d.parentElement.dataset.id));
  shown = next;
  $("lines").replaceChildren();
  $("histogram").hidden = $("more").hidden = !next.rows.length;
  append(next.rows);
  for (const item of $("lines").children) {
    item.firstChild.open = open.has(item.dataset.id);
    item.classList.toggle("fresh", Boolean(known) && !known.has(item.dataset.id));
  }
}

function narrow(...matcher) { $("query").value = narrowed($("query").value, ...matcher); start(logs); }
function filter(...condition) { $("query").value = filtered($("query").value, ...condition); start(logs); }
function zoom(from, to) { $("live").checked = false; range.chooseBetween(from, to); start(logs); }

async function explain() {
  await guarded(logs, false, async (signal) => {
    const isLines = (await verdict(LOGQL, $("query").value, signal)) === "streams";
    notices.showPlan(await (await ask("/api/v1/logs/explain", isLines ? body() : request(), signal)).text());
    return { status: "explained" };
  });
}
