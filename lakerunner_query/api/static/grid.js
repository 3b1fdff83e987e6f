// Rows as a table that may have a hundred thousand of them: only those in sight are elements.
import { $, button, copy, element, visible } from "./dom.js";
import { LEVELS } from "./levels.js";
import { readable } from "./scales.js";
import { chips, digitsIn, isId, kindOf, sorted, told } from "./values.js";

const HEIGHT = 27, SPARE = 12, MEASURED = 300, WIDEST = 56, CHIPS = 8;
const SAME = { critical: "fatal", warning: "warn" };
let shown = { columns: [], rows: [], order: [], sort: null, zone: "UTC", first: -1, chosen: -1, peaks: [] };

/** Draws a new result; `rows` may grow, `grow()` says so. */
export function drawGrid(columns, rows, zone) {
  const kinds = columns.map(({ name, type }, i) => ({ name, type, kind: kindOf(type), digits: kindOf(type) === "time" ? digitsIn(rows.slice(0, MEASURED).map((row) => row[i])) : 0, isLevel: /^(severity|level|detected_level)$/.test(name) }));
  shown = { columns: kinds, rows, order: rows.map((_, i) => i), sort: null, zone, first: -1, chosen: -1, peaks: peaksOf(kinds, rows) };
  $("detail").hidden = true;
  $("scroll").scrollTop = $("scroll").scrollLeft = 0;
  head();
  draw();
}

export function grow() {
  if (shown.sort) shown.order = sorted(shown.rows, ...shown.sort);
  else for (let i = shown.order.length; i < shown.rows.length; i += 1) shown.order.push(i);
  shown.peaks = peaksOf(shown.columns, shown.rows);
  head();
  shown.first = -1;
  draw();
}

export function inZone(zone) {
  shown.zone = zone;
  shown.first = -1;
  draw();
}

/** The greatest of numbers that are drawn as bars behind them: few rows, none below zero, not all the same. */
function peaksOf(columns, rows) {
  return columns.map(({ kind, name }, i) => {
    if (kind !== "number" || isId(name) || rows.length < 2 || rows.length > 500) return 0;
    const numbers = rows.map((row) => Number(row[i] ?? 0));
    return numbers.every((one) => one >= 0 && Number.isFinite(one)) && new Set(numbers).size > 1 ? Math.max(...numbers) : 0;
  });
}

function head() {
  const { columns, rows, sort } = shown;
  const widths = columns.map((one, i) => Math.min(WIDEST, Math.max(one.name.length + 4, ...rows.slice(0, MEASURED).map((row) => widthOf(row[i], one)))));
  $("rows").tHead.replaceChildren(element("tr", {}, element("th", { scope: "col", className: "place", ariaLabel: "row" }), ...columns.map((one, i) => {
    const way = sort?.[0] === i ? (sort[2] ? "descending" : "ascending") : "none";
    return element("th", { scope: "col", className: one.kind, ariaSort: way, title: `${one.name}: ${one.type}` },
      element("button", { type: "button", onclick: () => sortBy(i) }, visible(one.name), element("span", { ariaHidden: "true" }, { none: "", ascending: " ▲", descending: " ▼" }[way])));
  })));
  const group = $("rows").querySelector("colgroup");
  group.replaceChildren(element("col"), ...columns.map(() => element("col")));
  const numbered = String(rows.length).length + 1, words = widths.map((width, i) => (columns[i].kind === "number" ? 0 : width)), widest = words.indexOf(Math.max(1, ...words));
  [numbered, ...widths].forEach((width, i) => { group.children[i].style.width = i - 1 === widest ? "" : `calc(${width}ch + 1.4rem)`; }); // the widest text has what is left
  const whole = `calc(${widths.reduce((a, b) => a + b, numbered)}ch + ${(columns.length + 1) * 1.4}rem)`;
  $("rows").style.width = widest < 0 ? whole : `max(100%, ${whole})`;
  $("rows").setAttribute("aria-colcount", String(columns.length + 1));
}

function widthOf(value, column) {
  const { kind } = column;
  if (value === null || value === undefined) return 4;
  if (kind === "map") return Object.entries(value).slice(0, CHIPS).reduce((sum, [name, text]) => sum + name.length + String(text).length + 4, 0);
  return kind === "number" && typeof value === "number" ? readable(value, value.toLocaleString("en")).length : told(value, column, "UTC").length;
}

/** Up, down, and as it came. */
function sortBy(place) {
  const { kind } = shown.columns[place], [at, , isDown] = shown.sort ?? [-1];
  const first = kind === "number"; // the greatest first, where there are numbers
  shown.sort = at !== place ? [place, kind, first] : isDown === first ? [place, kind, !first] : null;
  shown.order = shown.sort ? sorted(shown.rows, ...shown.sort) : shown.rows.map((_, i) => i);
  const focused = document.activeElement?.closest("th")?.cellIndex;
  shown.first = -1;
  head();
  draw();
  if (focused !== undefined) $("rows").tHead.rows[0].cells[focused].querySelector("button")?.focus();
}

function draw() {
  const { order, rows } = shown, frame = $("scroll");
  const first = Math.max(0, Math.floor(frame.scrollTop / HEIGHT) - SPARE), count = Math.ceil((frame.clientHeight || 600) / HEIGHT) + 2 * SPARE;
  if (first === shown.first) return;
  shown.first = first;
  const last = Math.min(order.length, first + count), space = (height) => {
    const row = element("tr", { ariaHidden: "true", className: "space" });
    row.style.height = `${height}px`;
    return row;
  };
  $("rows").setAttribute("aria-rowcount", String(rows.length + 1));
  $("rows").tBodies[0].replaceChildren(space(first * HEIGHT), ...order.slice(first, last).map((place, i) => rowOf(rows[place], first + i)), space((order.length - last) * HEIGHT));
}

function rowOf(row, at) {
  const made = element("tr", { ariaRowIndex: String(at + 2), ariaSelected: String(at === shown.chosen), onclick: () => { if (!String(getSelection())) choose(at, true); } },
    element("td", { className: "place" }, (at + 1).toLocaleString("en")), ...shown.columns.map((one, i) => cell(row[i], one, shown.peaks[i])));
  return made;
}

function cell(value, column, peak) {
  const { kind, name, isLevel } = column;
  if (value === null || value === undefined) return element("td", { className: "null" }, "null");
  if (kind === "map") return element("td", { className: kind }, ...chips(value));
  const text = told(value, column, shown.zone), made = element("td", { className: kind, title: text.length > WIDEST ? visible(text.slice(0, 2000)) : "" }, visible(text.length > 400 ? `${text.slice(0, 400)}…` : text));
  if (kind === "number" && typeof value === "number" && !isId(name)) made.replaceChildren(Number.isInteger(value) ? value.toLocaleString("en") : readable(value, text));
  if (peak) { made.classList.add("share"); made.style.setProperty("--share", (Number(value) / peak).toFixed(3)); }
  const level = SAME[text.toLowerCase()] ?? text.toLowerCase();
  if (isLevel && LEVELS.includes(level)) made.classList.add("level", `level-${level}`);
  return made;
}

function choose(at, opens) {
  const box = $("scroll"), top = at * HEIGHT;
  shown.chosen = at;
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + 2 * HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * HEIGHT - box.clientHeight + 16;
  shown.first = -1;
  draw();
  $("row-told").textContent = `row ${at + 1}: ${shown.columns.slice(0, 6).map((one, i) => `${one.name} ${shown.rows[shown.order[at]][i] === null ? "null" : told(shown.rows[shown.order[at]][i], one, shown.zone)}`).join(", ")}`.slice(0, 300);
  if (opens || !$("detail").hidden) detail(at);
}

/** All of one row, beneath the table. */
function detail(at) {
  const row = shown.rows[shown.order[at]], whole = Object.fromEntries(shown.columns.map(({ name }, i) => [name, row[i]]));
  const copier = button("Copy as JSON", async () => { copier.textContent = await copy(JSON.stringify(whole, null, 2)).then(() => "Copied", () => "The browser refused"); });
  const close = button("Close", () => { $("detail").hidden = true; $("scroll").focus(); });
  $("detail").replaceChildren(element("h3", {}, `Row ${(at + 1).toLocaleString("en")}`, copier, close), element("dl", {}, ...shown.columns.flatMap((one, i) =>
    [element("dt", {}, visible(one.name)), row[i] === null ? element("dd", { className: "null" }, "null") : element("dd", {}, ...(one.kind === "map" ? chips(row[i], 200) : [visible(told(row[i], one, shown.zone))]))])));
  $("detail").hidden = false;
}

export function gridding() {
  let waits = false;
  $("scroll").addEventListener("scroll", () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; draw(); });
  });
  $("scroll").addEventListener("keydown", (event) => {
    if (event.target !== $("scroll")) return;
    const last = shown.order.length - 1, to = { ArrowDown: Math.min(last, shown.chosen + 1), ArrowUp: Math.max(0, shown.chosen - 1), Home: 0, End: last }[event.key];
    if (event.key === "Escape" && !$("detail").hidden) { event.preventDefault(); $("detail").hidden = true; }
    if (event.key === "Enter" && !event.ctrlKey && shown.chosen >= 0) { event.preventDefault(); detail(shown.chosen); }
    if (to !== undefined && last >= 0) { event.preventDefault(); choose(to, false); }
  });
}
