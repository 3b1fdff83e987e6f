// Values of an answer as people read them: kinds of columns, times in a zone, sizes, and their order.
import { element, visible } from "./dom.js";

const IDS = /^(tid|fingerprint|tsns|end_tsns|severity_number)$/, CHIPS = 8;

/** What a column's type is to a reader: `time`, `number`, `map`, `list`, `flag` or `text`. */
export function kindOf(type) {
  if (/^(timestamp|date)/.test(type)) return "time";
  if (/^(u?int|float|double|halffloat|decimal)/.test(type)) return "number";
  if (type.startsWith("map")) return "map";
  return /^(list|struct|fixed_size_list|large_list)/.test(type) ? "list" : type === "bool" ? "flag" : "text";
}

export const isId = (name) => IDS.test(name);

const digitsOf = (iso) => (/\.(\d+?)0*Z$/.exec(iso)?.[1] ?? "").replace(/^0$/, "").length;

/** How many digits behind the second the times of a column have: none, or as many as milli- or microseconds. */
export const digitsIn = (isos) => Math.ceil(Math.max(0, ...isos.map((one) => digitsOf(one ?? ""))) / 3) * 3;

/** A time of an answer, in UTC or in the zone of this browser, with at least so many digits. */
export function timeText(iso, zone, digits = 0) {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?Z$/.exec(iso);
  if (!found) return iso;
  const some = (found[3] ?? "").slice(0, Math.max(digits, digitsOf(iso))), rest = some ? `.${some}` : "";
  if (zone === "UTC") return `${found[1]} ${found[2]}${rest}`;
  const at = new Date(`${found[1]}T${found[2]}Z`), two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${rest}`;
}

/** The places of rows in the order of a column, nulls last whichever way; equal ones as they came. */
export function sorted(rows, place, kind, isDown) {
  const key = kind === "number" ? (value) => (typeof value === "string" && /^-?\d{16,}$/.test(value) ? BigInt(value) : Number(value))
    : kind === "map" || kind === "list" ? (value) => JSON.stringify(value) : kind === "flag" ? Number : String;
  const keys = rows.map((row) => (row[place] === null || row[place] === undefined ? null : key(row[place])));
  const order = rows.map((_, i) => i), sign = isDown ? -1 : 1;
  return order.sort((a, b) => (keys[a] === null ? (keys[b] === null ? a - b : 1) : keys[b] === null ? -1 : keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : a - b));
}

/** A value in one line. */
export const told = (value, { kind, digits }, zone) => (kind === "time" ? timeText(value, zone, digits) : kind === "list" ? JSON.stringify(value) : String(value));

/** A map as small tags of name and value. */
export function chips(value, most = CHIPS) {
  const all = Object.entries(value), more = all.length - most;
  return [...all.slice(0, most).map(([name, text]) => element("span", { className: "chip" }, element("b", {}, visible(name)), visible(String(text)))), ...(more > 0 ? [element("span", { className: "chip" }, `+${more}`)] : [])];
}

/** 1.5 MB */
export function sizeText(bytes) {
  const [unit, name] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([one]) => bytes >= one) ?? [1, "bytes"];
  return `${Number((bytes / unit).toPrecision(3)).toLocaleString("en")} ${name}`;
}
