// The result of a statement: read event by event, and shown as a table, a chart, or the picture of its plan.
import { answered, ask } from "./api.js";
import { $ } from "./dom.js";
import { drawGrid, grow, inZone } from "./grid.js";
import * as notices from "./notices.js";
import { drawPlan } from "./plan.js";
import { clearPlot, drawPlot } from "./plot.js";
import * as range from "./range.js";
import { many } from "./summary.js";
import { sizeText } from "./values.js";

const MOST = 100000, PANES = ["table", "chart", "plan"], ENOUGH = new Error("enough rows");
const WINDOW = /has no lower bound on timestamp/;
let ticking = 0, drawn = null; // the rows that the table has
export let shown = nothing();

function nothing(query = "") {
  return { query, columns: [], rows: [], window: null, notices: [], done: null, plan: "", planned: "", sent: null, stats: {} };
}

export function blank() {
  shown = nothing();
  $("tools").hidden = $("grid").hidden = $("plan").hidden = $("plot-choices").hidden = true;
  $("reads").textContent = "";
  clearPlot();
}

export function settled() {
  clearInterval(ticking);
  $("progress").textContent = "";
}

/** Asks for the rows; `isQuiet` leaves what is on screen until all are there. */
export async function fetchRows(query, signal, isQuiet, zoom) {
  const next = { ...nothing(query), sent: { q: query, ...range.asked() } }, began = performance.now();
  if (!isQuiet) { blank(); shown = next; }
  clearInterval(ticking);
  ticking = setInterval(() => tell(next, (performance.now() - began) / 1000), 200);
  next.done = await read(next, signal, isQuiet ? () => {} : () => begin(next, zoom));
  shown = next;
  finish(isQuiet, zoom);
  return next.done;
}

function tell({ rows, stats }, seconds) {
  const { segments, segments_opened: opened = 0, bytes_considered: bytes } = stats;
  $("progress").style.setProperty("--done", segments ? (opened / segments).toFixed(3) : "0");
  $("progress").textContent = [`${many(rows.length, "rows")} so far`, ...(segments ? [`${opened.toLocaleString("en")} of ${many(segments, "segments")}`] : []), ...(bytes ? [sizeText(bytes)] : []), `${seconds.toFixed(1)} s`].join(" · ");
}

async function read(next, signal, begins) {
  const enough = new AbortController();
  let hasBegun = false;
  try {
    const response = await ask("/api/v1/query", next.sent, AbortSignal.any([signal, enough.signal]));
    next.window = range.pinned(next.sent, Date.parse(response.headers.get("date")) || Date.now());
    return await answered(response, (results) => {
      const fresh = results.flatMap(({ rows }) => rows), room = MOST - next.rows.length;
      for (const row of fresh.slice(0, room)) next.rows.push(row);
      if (results.length && !hasBegun) { hasBegun = true; begins(); }
      else if (results.length && next === shown) grow();
      if (fresh.length > room) throw ENOUGH;
    }, (type, data) => {
      if (type === "schema") next.columns = data;
      if (type === "notice") next.notices.push(data);
      if (type === "summary") next.stats = data.stats; // how far it is
    });
  } catch (error) {
    if (error !== ENOUGH) throw error;
    enough.abort(); // leaving the connection ends the work
    next.notices.push(`The first ${MOST.toLocaleString("en")} rows are shown. A download has all of them; a LIMIT or an aggregate says more.`);
    return { status: "cut", missing: [], warnings: [] };
  }
}

function begin(next, zoom) {
  drawn = next.rows;
  drawGrid(next.columns, next.rows, $("zone").value);
  show(zoom);
}

function finish(isQuiet, zoom) {
  const { columns, rows, done, window } = shown;
  if (/^\s*explain\b/i.test(shown.query) && columns.length === 1) {
    shown.plan = rows.map(([line]) => line).join("\n");
    shown.planned = shown.query;
    $("as").value = "plan";
  }
  if (drawn === rows) grow(); // somebody may have scrolled or sorted it since it began
  else begin(shown, zoom);
  show(zoom);
  if (isQuiet) notices.clear();
  if (!rows.length) notices.showNothing("No rows", ...range.widening(zoom));
  const bounded = shown.notices.filter((text) => WINDOW.test(text)), [from, to] = [window.start, window.end].map((ns) => range.moment(range.millis(ns)));
  $("reads").textContent = bounded.length ? `${[...new Set(bounded.map((text) => text.split(" ")[0]))].join(", ")}: the statement has no bound on timestamp, the range above applies, ${from} to ${to} UTC` : "";
  const notes = [...(done.missing.length ? [notices.partial(done.missing, "rows")] : []), ...shown.notices.filter((text) => !WINDOW.test(text))];
  if (notes.length) notices.showNotes(notes, done.status === "complete" ? "" : "warn");
}

/** Puts the pane that is chosen on screen; `zoom()` runs the statement again, over the range as it is then. */
export function show(zoom) {
  const pane = PANES.includes($("as").value) ? $("as").value : "table", hasRows = shown.columns.length > 0;
  for (const one of PANES) $(`as-${one}`).checked = one === pane;
  $("tools").hidden = !hasRows && !shown.plan;
  $("grid").hidden = pane !== "table" || !hasRows;
  $("plan").hidden = pane !== "plan";
  $("plot-choices").hidden = pane !== "chart" || !hasRows;
  if (pane === "chart") drawPlot(shown.columns, shown.rows, (from, to) => { $("live").checked = false; range.chooseBetween(from, to); zoom(); });
  else clearPlot();
  if (pane === "table") inZone($("zone").value);
  if (pane === "plan" && shown.plan) drawPlan(shown.plan);
  return pane;
}

export function showPlan(query, text) {
  Object.assign(shown, { plan: text, planned: query, query: shown.columns.length ? shown.query : query });
  $("as").value = "plan";
  show();
}

/** The line of numbers. */
export function summary(done, seconds) {
  if (done.status === "explained") return `explained in ${seconds.toFixed(2)} s`;
  const { segments_opened: opened, rows_considered: rows, bytes_considered: bytes, bytes_fetched: fetched } = done.stats ?? {};
  return [many(shown.rows.length, "rows"), `${done.status} in ${seconds.toFixed(2)} s`, ...(opened === undefined ? [] : [`${many(opened, "segments")} read`]), ...(rows === undefined ? [] : [`${many(rows, "rows")}${bytes ? `, ${sizeText(bytes)}` : ""} considered`]),
    ...(fetched ? [`${sizeText(fetched)} fetched`] : [])].join(" · ");
}
