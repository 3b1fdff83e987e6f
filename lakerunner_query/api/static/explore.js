// Explore: one query at a time. This file is the order of events; the other modules are what it is made of.
import { recall, remember } from "./address.js";
import { ask, events, key } from "./api.js";
import { $ } from "./dom.js";
import { drawHistogram } from "./histogram.js";
import { lineItem, narrowed } from "./lines.js";
import * as notices from "./notices.js";
import * as range from "./range.js";
import { summary } from "./summary.js";

const LIVE_MS = 5000;
let running = null; // AbortController of the query in flight
let timer = 0;
let shown = { rows: [], ids: new Set(), window: null, newest: true, query: "", full: false };

const newest = () => $("order").value === "newest";
const body = () => ({ q: $("query").value, ...range.asked(), limit: Number($("limit").value), reverse: newest() });

/** A fresh answer. `quiet` (live) keeps the old one on screen until the new one is complete. */
async function run({ quiet = false } = {}) {
  if (!key.get()) { notices.clear(); show(empty()); return notices.showNoKey(); }
  remember();
  await guarded(quiet, async (signal) => {
    const request = body(), next = { ...empty(), newest: request.reverse, query: request.q };
    if (!quiet) show(next);
    const response = await ask("/api/v1/logs/query", request, signal);
    next.window = range.pinned(request, Date.parse(response.headers.get("date")) || Date.now());
    const done = await collect(response, request.limit, next, quiet ? () => {} : append);
    if (quiet) show(next, shown.ids);
    if (!next.rows.length) notices.showNothing((preset) => { range.choose(preset); run(); }, range.wider());
    return done;
  });
}

/** The next page in reading order: asked up to and including the last line's nanosecond, known lines left out. */
async function more() {
  const last = BigInt(shown.rows.at(-1).timestamp), { start, end } = shown.window;
  $("live").checked = false;
  const [s, e] = shown.newest ? [start, last + 1n] : [last, end];
  await guarded(false, async (signal) => {
    const request = { q: shown.query, s: String(s), e: String(e), limit: Number($("limit").value), reverse: shown.newest };
    const before = shown.rows.length;
    const done = await collect(await ask("/api/v1/logs/query", request, signal), request.limit, shown, append);
    if (shown.full && shown.rows.length === before) throw new Error("More lines share one nanosecond than are loaded at once: load more lines at a time.");
    return done;
  });
}

async function collect(response, limit, into, added) {
  let seen = 0, done = null;
  for await (const messages of events(response)) {
    const fresh = [];
    for (const { type, data } of messages) {
      if (type === "error") throw data;
      if (type === "done") done = data;
      if (type !== "result") continue;
      seen += 1;
      if (into.ids.has(data.id)) continue;
      into.ids.add(data.id);
      fresh.push(data);
    }
    into.rows.push(...fresh);
    added(fresh);
  }
  if (!done) throw new Error("The answer broke off before its end.");
  into.full = seen >= limit;
  return done;
}

/** One query in flight, its errors on screen, its numbers in the status line. */
async function guarded(quiet, work) {
  running?.abort();
  clearTimeout(timer);
  const mine = running = new AbortController(), began = performance.now();
  if (!quiet) { notices.clear(); $("status").textContent = "running …"; }
  $("run").textContent = "Stop";
  try {
    const done = await work(mine.signal);
    if (quiet && shown.rows.length) notices.clear();
    if (done.status === "partial") notices.showPartial(done.missing);
    $("status").textContent = summary(done, shown, (performance.now() - began) / 1000, $("live").checked);
  } catch (error) {
    if (mine !== running) return;
    $("status").textContent = error.name === "AbortError" ? `stopped, ${shown.rows.length} lines` : "failed";
    if (error.name !== "AbortError") notices.showError(error, shown.query || $("query").value);
    $("live").checked = false;
  } finally {
    if (mine === running) settle();
  }
}

function settle() {
  running = null;
  $("run").textContent = "Run";
  drawHistogram(shown.rows, covered(), zoom);
  $("more").hidden = !shown.full;
  $("more").textContent = shown.newest ? "Load older lines" : "Load newer lines";
  if ($("live").checked) timer = setTimeout(() => (document.hidden ? settle() : run({ quiet: true })), LIVE_MS);
}

/** The part of the range that the loaded lines speak for. */
function covered() {
  const { rows, window, full } = shown;
  if (!rows.length || !full) return window;
  const last = BigInt(rows.at(-1).timestamp);
  return shown.newest ? { start: last, end: window.end } : { start: window.start, end: last + 1n };
}

const empty = () => ({ rows: [], ids: new Set(), window: null, newest: newest(), query: $("query").value, full: false });
const append = (rows) => $("lines").append(...rows.map((row) => lineItem(row, narrow)));

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

function narrow(...matcher) { $("query").value = narrowed($("query").value, ...matcher); run(); }
function zoom(from, to) { $("live").checked = false; range.chooseBetween(from, to); run(); }

async function explain() {
  await guarded(false, async (signal) => {
    notices.showPlan(await (await ask("/api/v1/logs/explain", body(), signal)).text());
    return { status: "explained" };
  });
}

$("key").value = key.get();
$("key").addEventListener("input", () => key.set($("key").value));
$("form").addEventListener("submit", (event) => { event.preventDefault(); running ? running.abort() : run(); });
$("range").addEventListener("change", () => range.rangeChanged(shown.window));
$("explain").addEventListener("click", explain);
$("more").addEventListener("click", more);
$("live").addEventListener("change", () => ($("live").checked ? run() : clearTimeout(timer)));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
  const runs = event.key === "Enter" && !event.shiftKey && !event.isComposing && (event.target === $("query") || event.ctrlKey || event.metaKey);
  if (runs) { event.preventDefault(); run(); }
});
recall();
if (!key.get()) notices.showNoKey();
else if (location.hash) run();
else notices.showExamples((text) => { $("query").value = text; run(); });
