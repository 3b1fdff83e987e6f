// The tables and columns that there are: beside the editor to look through, and offered while writing.
import { listed } from "./api.js";
import { insert } from "./editor.js";
import { $, element, visible } from "./dom.js";
import * as range from "./range.js";
import { FUNCTIONS, identifier, KEYWORDS, LANGUAGES, literal, reads } from "./sqltext.js";

const MOST = 10000, SHOWN = 200, SHORT = { VARCHAR: "text", TIMESTAMP: "time", BIGINT: "int", INTEGER: "int", DOUBLE: "float", BOOLEAN: "bool", BLOB: "bytes" };
const PLAIN = "attribute or label as sent";
const table = async (q) => (await listed("/api/v1/query", { q, ...range.asked() }, "application/json")).rows;
const short = (type) => SHORT[type] ?? (type.startsWith("MAP") ? "map" : type.toLowerCase());
let drawn = null; // what the list shows

/** `[{ name, meaning, columns: [{ name, type, meaning }] }]`, for the range. */
export async function catalogue() {
  const [tables, columns] = await Promise.all([table("SELECT table_name, comment FROM information_schema.tables"),
    table("SELECT table_name, column_name, data_type, comment FROM information_schema.columns ORDER BY table_name, ordinal_position")]);
  const found = new Map(tables.map(([name, meaning]) => [name, { name, meaning: meaning ?? "", columns: [] }]));
  for (const [name, column, type, meaning] of columns) found.get(name)?.columns.push({ name: column, type: short(type), meaning: meaning ?? "" });
  return [...found.values()];
}

const metricNames = async () => (await listed("/api/v1/metrics/tagvalues", { ...range.asked(), tag: "__name__", limit: MOST })).values;

/** A metric for examples; empty where there is none. */
export async function anyMetric() {
  const names = await metricNames().catch(() => []);
  return names.find((name) => /(duration|latency|seconds|_ms|bytes|cpu|util)/i.test(name) && !/_(bucket|count|sum)$/.test(name)) ?? names[0] ?? "";
}

/** Lists the tables beside the editor, once for a range. */
export async function drawSchema() {
  try {
    const tables = await catalogue();
    if (tables === drawn) return;
    drawn = tables;
    const metrics = await metricNames().catch(() => []);
    const open = new Set([...$("tables").querySelectorAll("details[open]")].map((one) => one.dataset.name));
    const first = open.size ? open : new Set(["logs"]);
    $("tables").replaceChildren(...tables.map((one) => section(one.name, one.meaning, one.columns.map((column) => item(column.name, column.type, column.meaning, identifier(column.name))), first, identifier(one.name))),
      ...(metrics.length ? [section("metric names", "values of metric_name", metrics.slice(0, SHOWN).map((name) => item(name, "", "", literal(name))), first)] : []));
    find();
  } catch (error) {
    drawn = null;
    $("tables").replaceChildren(element("p", { className: "hint" }, `no list of tables: ${error.message}`));
  }
}

function section(name, meaning, items, open, put) {
  const made = element("details", { open: open.has(name) }, element("summary", { title: meaning }, element("b", {}, visible(name)), element("small", {}, visible(meaning))),
    element("ul", {}, ...(put ? [item(`select from ${name}`, "", "write a whole statement", `SELECT *\nFROM ${put}\nORDER BY timestamp DESC\nLIMIT 100`, "whole")] : []), ...items));
  made.dataset.name = name;
  return made;
}

function item(name, type, meaning, put, className = "") {
  const told = meaning === PLAIN ? "" : meaning.replaceAll("`", "");
  const made = element("button", { type: "button", className: `quiet ${className}`, title: [name, type, meaning].filter(Boolean).join(" · "), onclick: () => insert(put) },
    element("span", {}, visible(name)), ...(type ? [element("i", { className: `type ${type}` }, type)] : []), ...(told && !className ? [element("small", {}, visible(told))] : []));
  const entry = element("li", {}, made);
  entry.dataset.name = name.toLowerCase();
  return entry;
}

/** Leaves what has the text in its name; tables of a match are open. */
export function find() {
  const wanted = $("find").value.trim().toLowerCase();
  for (const details of $("tables").querySelectorAll("details")) {
    let count = 0;
    for (const entry of details.querySelectorAll("li")) {
      entry.hidden = Boolean(wanted) && (!entry.dataset.name.includes(wanted) || entry.firstChild.classList.contains("whole"));
      count += entry.hidden ? 0 : 1;
    }
    details.hidden = Boolean(wanted) && !count;
    if (wanted) details.open = count > 0;
  }
}

/** What could be written there: `[{ name, hint, put? }]`. */
export async function offered(context, text, isAsked) {
  if (context.kind === "value") return values(context.column);
  if (context.kind === "word" && !isAsked && KEYWORDS.includes(context.prefix.toUpperCase())) return [];
  const { relations, ctes } = reads(text), tables = await catalogue();
  const ofTable = (name) => tables.find((one) => one.name === name)?.columns.map((one) => ({ name: one.name, hint: [one.type, one.meaning === PLAIN ? "" : one.meaning.replaceAll("`", "")].filter(Boolean).join(" · ") }))
    ?? (ctes.get(name) ?? LANGUAGES[name]?.columns ?? []).map((column) => ({ name: column, hint: name }));
  if (context.kind === "table") return [...[...ctes.keys()].map((name) => ({ name, hint: "WITH" })), ...tables.map(({ name, meaning }) => ({ name, hint: meaning })),
    ...Object.entries(LANGUAGES).map(([name, { hint }]) => ({ name, hint, put: `${name}('` }))];
  if (context.kind === "column") return ofTable(relations.get(context.qualifier) ?? context.qualifier);
  const read = [...new Set(relations.values())], columns = (read.length ? read : context.isFirst ? [] : ["logs"]).flatMap(ofTable);
  const names = [...relations.keys()].filter((name) => !relations.has(name) || relations.get(name) !== name).map((name) => ({ name, hint: relations.get(name) }));
  const words = KEYWORDS.map((name) => ({ name, hint: "", put: name })), calls = Object.entries(FUNCTIONS).map(([name, hint]) => ({ name, hint, put: hint.endsWith("()") || hint === "count(*)" ? hint : `${name}(` }));
  const known = new Map([...columns, ...names].map((one) => [one.name, one]));
  return context.isFirst ? words : [...known.values(), ...calls, ...words];
}

/** Values of a column, where the index knows them. */
async function values(column) {
  if (column === "metric_name") return (await metricNames()).map((name) => ({ name }));
  if (column === "severity" || column === "level") return ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].map((name) => ({ name }));
  const found = await Promise.all(["logs", "metrics"].map((signal) => listed(`/api/v1/${signal}/tagvalues`, { ...range.asked(), tag: column, limit: MOST }).then((one) => one.values, () => [])));
  return [...new Set(found.flat())].map((name) => ({ name }));
}
