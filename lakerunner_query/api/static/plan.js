// EXPLAIN as a picture: what is read, what workers make of it, and what is left for the end.
import { $, button, copy, element, visible } from "./dom.js";
import { moment } from "./range.js";
import { coloured, tokens } from "./sqltext.js";
import { many } from "./summary.js";
import { sizeText } from "./values.js";

const FORMS = { rows: ["rows", "workers filter rows and send the columns that are needed"], parts: ["partial aggregates", "workers aggregate their segments; the parts are added up at the end"],
  "first rows": ["first rows", "workers send no more rows than the statement keeps"] };
const READ = /^read (\d+): (\S+) from (\d+)(?: to (\d+))?, terms (\d+): (\d+) segments, (\d+) rows, (\d+) bytes$/;

/** `{ reads, scans, joins, then, notes }` of the text. A literal of SQL may have several lines. */
export function parsePlan(text) {
  const plan = { reads: [], scans: [], joins: [], then: "", notes: [] };
  let open = null; // where a line that is none of its own goes
  for (const line of text.trimEnd().split("\n")) {
    const read = READ.exec(line), other = /^read (\d+): (.*)$/.exec(line), scan = /^scan (\d+), ([\w ]+): (.*)$/.exec(line), join = /^scans (\d+) and (\d+) are joined by (.*?): /.exec(line);
    if (open && isUnfinished(open.get())) open.add(`\n${line}`);
    else if (read) plan.reads.push({ number: Number(read[1]), table: read[2], from: read[3], to: read[4], terms: Number(read[5]), segments: Number(read[6]), rows: Number(read[7]), bytes: Number(read[8]) });
    else if (other) plan.reads.push({ number: Number(other[1]), table: other[2] });
    else if (scan) {
      const made = { number: Number(scan[1]), form: scan[2], sql: scan[3], keys: [] };
      plan.scans.push(made);
      open = { get: () => made.sql, add: (more) => { made.sql += more; } };
    } else if (line.startsWith("  only rows with ") && plan.scans.length) plan.scans.at(-1).keys.push(line.trim());
    else if (join) plan.joins.push({ scans: [Number(join[1]), Number(join[2])], by: join[3] });
    else if (line.startsWith("then: ")) {
      plan.then = line.slice(6);
      open = { get: () => plan.then, add: (more) => { plan.then += more; } };
    } else if (line.trim()) plan.notes.push(line.trim());
  }
  for (const [, number, name = ""] of plan.then.matchAll(/\bscan_(\d+)\b(?: AS "?(\w+))?/g)) {
    if (!plan.scans.some((one) => one.number === Number(number)) && !plan.reads.some((one) => one.number === Number(number))) plan.reads.push({ number: Number(number), table: name });
  }
  plan.reads.sort((a, b) => a.number - b.number);
  return plan;
}

const isUnfinished = (sql) => tokens(sql).some(({ kind, text }) => kind === "string" && !/^'(?:[^']|'')*'$/.test(text));

/** The clauses of a scan's SELECT: `{ select: [text], where: [text], group: [text], order, limit }`. */
export function clauses(sql) {
  const found = { SELECT: [""], WHERE: [""], GROUP: [""], ORDER: [""], LIMIT: [""], FROM: [""] };
  let depth = 0, clause = "";
  for (const { kind, text } of tokens(sql)) {
    const word = kind === "name" && depth === 0 ? text.toUpperCase() : "";
    depth += text === "(" || text === "[" ? 1 : text === ")" || text === "]" ? -1 : 0;
    if (Object.hasOwn(found, word)) clause = word;
    else if (depth === 0 && ((word === "AND" && clause === "WHERE") || (text === "," && clause !== "FROM"))) found[clause]?.push("");
    else if (clause && !(word === "BY" && found[clause].at(-1).trim() === "")) found[clause][found[clause].length - 1] += text;
  }
  const clean = (all) => all.map((one) => bare(one.trim()).replace(/^"([a-z_][a-z0-9_]*)"$/, "$1")).filter(Boolean);
  const select = clean(found.SELECT), group = clean(found.GROUP).map((one) => (/^\d+$/.test(one) ? (select[one - 1] ?? one).replace(/ AS \S+$/i, "") : one));
  return { select, where: clean(found.WHERE), group, order: found.ORDER.join(", ").trim(), limit: found.LIMIT[0].trim() };
}

/** Without the parentheses around all of it. */
function bare(text) {
  if (!text.startsWith("(") || !text.endsWith(")")) return text;
  let depth = 0;
  for (const one of tokens(text)) {
    depth += one.text === "(" ? 1 : one.text === ")" ? -1 : 0;
    if (depth === 0 && one.from + 1 < text.length) return text;
  }
  return bare(text.slice(1, -1).trim());
}

/** SQL on lines of its own clauses. */
export function laidOut(sql) {
  let depth = 0, out = "";
  for (const { kind, text } of tokens(sql)) {
    depth += text === "(" ? 1 : text === ")" ? -1 : 0;
    const breaks = kind === "name" && /^(FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|QUALIFY|JOIN|LEFT|INNER|SELECT)$/i.test(text) && out.trim() && !/(\bWITHIN|\bINNER|\bLEFT|\bOUTER|\() $|\($/i.test(out) && depth <= 1;
    out = breaks ? `${out.trimEnd()}\n${"  ".repeat(depth)}${text}` : out + text;
  }
  return out;
}

export const inColours = (sql) => coloured(sql).map(({ kind, text }) => (kind === "space" ? text : element("span", { className: kind }, visible(text))));

export function drawPlan(text) {
  const { reads, scans, joins, then, notes } = parsePlan(text), most = Math.max(1, ...reads.map(({ bytes = 0 }) => bytes));
  const lanes = reads.map((read) => element("li", { className: "lane" }, readCard(read, most), ...scans.filter(({ number }) => number === read.number).map((scan) => scanCard(scan, joins))));
  const whole = button("Copy as text", async () => { whole.textContent = await copy(text).then(() => "Copied", () => "The browser refused"); });
  $("plan").replaceChildren(
    element("div", { className: "flow" }, element("ol", { ariaLabel: "reads and scans" }, ...lanes),
      card("last", "DuckDB at the coordinator", "joins, windows, order: the rest of the statement", element("pre", { className: "code" }, ...inColours(laidOut(then))), element("p", { className: "hint" }, "then the answer, streamed as it is computed"))),
    element("footer", {}, ...notes.map((one) => element("p", {}, one)), whole, element("details", {}, element("summary", {}, "as text"), element("pre", {}, text))));
  $("plan").hidden = false;
}

function card(kind, title, hint, ...children) {
  return element("section", { className: `card ${kind}` }, element("h3", {}, title), element("p", { className: "hint" }, hint), ...children);
}

const tags = (title, all, className = "") => (all.length ? element("p", { className: `tags ${className}` }, ...(title ? [element("small", {}, title)] : []), ...all.map((one) => element("span", { className: "chip" }, ...inColours(one)))) : "");

function readCard({ number, table, from, to, terms, segments, rows, bytes }, most) {
  if (bytes === undefined) return card("read function", table || `relation ${number}`, "evaluated by its own engine");
  const bar = element("span", { className: "bar hue-0" }), window = [from, to].map((ns) => (ns ? moment(Number(BigInt(ns) / 1000000n)) : "now"));
  bar.style.width = `${Math.max(1, (bytes / most) * 100)}%`;
  return card("read", table, `${window[0]} to ${window[1]} UTC`, bar, element("p", { className: "facts" }, `${many(segments, "segments")} · ${many(rows, "rows")} · at most ${sizeText(bytes)}`), ...(terms ? [tags("", [`${many(terms, "conditions")} asked of the index`])] : []));
}

function scanCard({ form, sql, keys, number }, joins) {
  const [name, hint] = FORMS[form] ?? [form, "workers"], { select, where, group, order, limit } = clauses(sql);
  const narrowed = joins.filter(({ scans }) => scans.includes(number)).map(({ scans, by }) => `keys of ${by} shared with scan ${scans.find((one) => one !== number)}`);
  return card("scan", `scan: ${name}`, hint, tags("pushed down", [...where, ...keys], "where"), tags("by", group), tags("columns", select), tags("order", order ? [order] : []), tags("limit", limit ? [limit] : []), tags("narrowed by", narrowed));
}
