// SQL: one statement over logs, metrics and spans.
import { remember } from "./address.js";
import { ask, key } from "./api.js";
import { $, copy } from "./dom.js";
import { editing, mark, paint, replaceAll, unchecked, unmark } from "./editor.js";
import { gridding } from "./grid.js";
import * as notices from "./notices.js";
import { drawPast, keep } from "./past.js";
import * as range from "./range.js";
import * as result from "./result.js";
import { guarded, start } from "./runner.js";
import { save } from "./save.js";
import { anyMetric, drawSchema, find } from "./schema.js";
import { literal } from "./sqltext.js";
import { many } from "./summary.js";

let isOpening = false;

export const sql = {
  name: "sql", language: "SQL", every: 15000, text: "", isMultiline: true,
  keys: "Ctrl+Enter runs, Ctrl+Space suggests, Ctrl+/ makes a comment, Esc stops",
  ask: run, explain, examples, enter,
  settle: result.settled,
  answer: () => "rows",
  blank: result.blank,
  leave: () => { unchecked(); unmark(); result.blank(); },
  count: () => many(result.shown.rows.length, "rows"),
  query: () => result.shown.query || $("query").value,
  window: () => result.shown.window,
  summary: result.summary,
  told: (error) => error.code === "parse_error" || Boolean(error.position) ? (mark(error), true) : false,
};

const again = () => start(sql);
const take = (text) => { replaceAll(text); again(); };

async function run({ quiet = false } = {}) {
  const query = $("query").value;
  unchecked();
  unmark();
  if (!query.trim()) { result.blank(); notices.clear(); $("status").textContent = ""; return examples(take); }
  if (!quiet) { keep(query); drawSchema(); }
  await guarded(sql, quiet, (signal) => fetchAsChosen(query, signal, quiet));
}

/** The rows; where a link to a plan is opened, the plan alone: it costs nothing. */
async function fetchAsChosen(query, signal, quiet) {
  const isPlan = $("as").value === "plan" && !/^\s*explain\b/i.test(query), opens = isOpening;
  isOpening = false;
  if (isPlan && opens) return fetchPlan(query, signal);
  if (isPlan) { $("as").value = "table"; remember("sql"); }
  return result.fetchRows(query, signal, quiet, again);
}

async function fetchPlan(query, signal) {
  result.showPlan(query, await (await ask("/api/v1/query/explain", { q: query, ...range.asked() }, signal)).text());
  return { status: "explained" };
}

async function explain() {
  const query = $("query").value;
  if (!query.trim()) return;
  unmark();
  $("as").value = "plan";
  remember("sql");
  await guarded(sql, false, (signal) => fetchPlan(query, signal));
}

/** Another pane of the same result; what is not there yet is asked for. */
function turn(pane) {
  $("as").value = pane;
  remember("sql");
  const { planned, columns, query } = result.shown;
  if (pane === "plan" && planned !== $("query").value) explain();
  else if (pane !== "plan" && !columns.length && query) again();
  else result.show(again);
}

async function download(form) {
  const { sent, window, done } = result.shown;
  $("saving").textContent = `asking for ${form} …`;
  try {
    const pinned = sent && window ? { q: sent.q, s: String(window.start), e: String(window.end) } : { q: $("query").value, ...range.asked() };
    await save(form, pinned, done?.status === "partial");
    $("saving").textContent = "";
  } catch (error) {
    $("saving").textContent = "";
    notices.showError(error, "");
  }
}

function enter() {
  isOpening = true;
  paint();
  if (!key.get()) return;
  drawSchema();
}

async function examples(run) {
  const metric = await anyMetric(), put = (text) => { replaceAll(text); run(text); };
  notices.showCards("Ask in SQL, over all signals at once", "Tables: logs, metrics, spans, rollups; promql('…'), logql('…') and traceql('…') stand in FROM, too. Ctrl+Space suggests. For example:", statements(metric), put);
}

/** `[title, statement]`, which the title begins so that the history says it; without a metric those that need one are left out. */
export function statements(metric) {
  const high = `WITH series AS (\n  SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, max(value) AS value\n  FROM metrics WHERE metric_name = ${literal(metric)} GROUP BY 1\n), high AS (\n  SELECT minute, value FROM series\n  WHERE value > (SELECT quantile_cont(value, 0.9) FROM series)\n)`;
  return [
    ["Errors by service, minute by minute", "SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, service_name, count(*) AS errors\nFROM logs\nWHERE severity IN ('ERROR', 'FATAL')\nGROUP BY 1, 2\nORDER BY 1"],
    ["The slowest spans", "SELECT timestamp, service_name, name, duration_ns / 1e6 AS milliseconds, status_code, trace_id\nFROM spans\nORDER BY duration_ns DESC\nLIMIT 50"],
    ...(metric ? [["Log lines of the minutes in which a metric was high", `${high}\nSELECT l.timestamp, l.service_name, l.severity, l.message, high.value\nFROM logs AS l\nJOIN high ON time_bucket(INTERVAL '1 minute', l.timestamp) = high.minute\nWHERE l.severity IN ('WARN', 'ERROR', 'FATAL')\nORDER BY l.timestamp DESC\nLIMIT 500`],
      ["A metric, its errors and its slow spans, side by side", `${high}, errors AS (\n  SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, count(*) AS errors\n  FROM logs WHERE severity = 'ERROR' GROUP BY 1\n), slow AS (\n  SELECT time_bucket(INTERVAL '1 minute', timestamp) AS minute, max(duration_ns) / 1e9 AS slowest_s\n  FROM spans GROUP BY 1\n)\nSELECT minute, series.value, errors, slowest_s\nFROM series LEFT JOIN errors USING (minute) LEFT JOIN slow USING (minute)\nORDER BY minute`]] : []),
  ].map(([title, text]) => [title, `-- ${title}\n${text}`]);
}

export function binding() {
  gridding();
  editing();
  for (const pane of ["table", "chart", "plan"]) $(`as-${pane}`).addEventListener("change", () => turn(pane));
  for (const id of ["plot-x", "plot-y", "plot-by", "zone"]) $(id).addEventListener("change", () => { remember("sql"); result.show(again); });
  for (const form of ["csv", "json", "arrow"]) $(`save-${form}`).addEventListener("click", () => download(form));
  $("link").addEventListener("click", async () => {
    remember("sql");
    $("saving").textContent = await copy(location.href).then(() => "link copied", () => "the browser refused");
    setTimeout(() => { $("saving").textContent = ""; }, 1500);
  });
  $("find").addEventListener("input", find);
  $("range").addEventListener("change", () => document.body.dataset.view === "sql" && $("range").value !== "custom" && key.get() && drawSchema());
  $("past").addEventListener("toggle", () => $("past").open && drawPast(take));
  addEventListener("pointerdown", ({ target }) => { if (!$("past").contains(target)) $("past").open = false; });
  $("past").addEventListener("keydown", (event) => { if (event.key === "Escape") { event.preventDefault(); $("past").open = false; } });
}
