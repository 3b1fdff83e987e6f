// TraceQL as text: what the caret is at, and conditions that are added to a query.
export const TRACE_STAGES = "avg by coalesce compare count max min select sum with".split(" ");
export const TRACE_FUNCTIONS = `avg_over_time bottomk count_over_time histogram_over_time max_over_time min_over_time
  quantile_over_time rate sum_over_time topk`.split(/\s+/);
export const STATUSES = "error ok unset".split(" "), KINDS = "client consumer internal producer server unspecified".split(" ");
const TOKEN = /\s+|"(?:\\[^]|[^"\\])*"?|`[^`]*`?|[a-zA-Z_.][\w.:/-]*|\d[\w.]*|&&|\|\||[=!]~|[!<>]=|[^]/y;
const COMPARES = /^(=|!=|=~|!~|<|>|<=|>=)$/, TAKES_FIELDS = /^(by|select|avg|min|max|sum|.*_over_time)$/;

/** `{ kind: "field" | "value" | "word", from, prefix, ... }`, or null where nothing is to be offered. */
export function traceContext(text, caret) {
  const frames = [{ open: "", word: "" }], before = ["", "", ""]; // the last three tokens
  const read = text.slice(0, caret);
  let token = "", from = 0, at = 0;
  for (TOKEN.lastIndex = 0; at < caret; ) {
    token = TOKEN.exec(read)[0];
    [from, at] = [at, at + token.length];
    if (/^\s/.test(token)) continue;
    if ("{(".includes(token)) frames.push({ open: token, word: before[2], inside: frames.at(-1).open === "{" || frames.at(-1).inside });
    else if ("})".includes(token) && frames.length > 1) frames.pop();
    before.push(token);
    before.shift();
  }
  if (/^\d/.test(token)) return null;
  const word = /^[a-zA-Z_.]/.test(token) ? token : "", quote = /^["`]/.test(token) ? token[0] : "";
  const last = word || quote ? before[1] : before[2], field = word || quote ? before[0] : before[1];
  const place = { from: word ? from : caret, prefix: word }, frame = frames.at(-1), inside = frame.open === "{" || frame.inside;
  if (quote && (token.length === 1 || !token.endsWith(quote))) return inside && COMPARES.test(last) ? { kind: "value", from: from + 1, prefix: token.slice(1), field, quote } : null;
  if (quote) return null;
  if (inside) return COMPARES.test(last) ? { kind: "value", ...place, field } : /^(\{|\(|!|&&|\|\|)$/.test(last) ? { kind: "field", ...place } : null;
  if (frame.open === "(" && TAKES_FIELDS.test(frame.word)) return /^[(,]$/.test(last) ? { kind: "field", ...place } : null;
  return { kind: "word", ...place };
}

/** The text with the choice in it, and where the caret is then. */
export function traceCompleted(text, caret, context, { name, call = false, type = "string" }) {
  let rest = text.slice(caret), put = call ? `${name}(` : name;
  if (context.kind === "value") {
    put = context.quote ? (context.quote === '"' ? JSON.stringify(name).slice(1) : `${name}\``) : literal(name, type);
    if (context.quote && rest[0] === context.quote) rest = rest.slice(1);
  }
  const until = text.slice(0, context.from) + put;
  return { text: until + rest, caret: until.length };
}

/** A value as TraceQL writes it. */
export const literal = (value, type) => (type === "string" ? JSON.stringify(value) : String(value));

/** A name behind its scope; one of other characters is quoted. */
export const fieldOf = (scope, name) => `${scope}.${/^[^\s{}()=~!<>&|^,"]+$/.test(name) ? name : JSON.stringify(name)}`;

/** A query for the spans whose field has a value; null where no literal can say it. */
export function having(scope, name, value) {
  if (value === null || typeof value === "object") return null;
  return `{ ${fieldOf(scope, name)} = ${typeof value === "string" ? JSON.stringify(value) : value} }`;
}

/** 1.50 s, 250 ms, 12.3 µs, 800 ns */
export function nsText(ns) {
  if (ns < 0) return `-${nsText(-ns)}`;
  if (ns >= 6e10) return `${Math.floor(ns / 6e10)} min ${Math.floor((ns % 6e10) / 1e9)} s`;
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([one]) => ns >= one) ?? [1, "ns"];
  return `${Number((ns / unit).toPrecision(3))} ${name}`;
}

/** Ids of traces as fields of logs and labels of exemplars name them; empty where there is none. */
export function traceIdOf(...maps) {
  for (const map of maps) for (const [name, value] of Object.entries(map ?? {})) {
    if (/^trace_?id$/i.test(name) && /^[0-9a-f]{16,32}$/i.test(value)) return value.toLowerCase();
  }
  return "";
}

/** The address of a trace, within the query and range that led to it. */
export const traceHref = (id, more = {}) => `#${new URLSearchParams({ view: "traces", ...more, trace: id })}`;
