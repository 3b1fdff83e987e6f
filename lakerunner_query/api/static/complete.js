// What could be written where the caret is in a PromQL text, found by reading it up to there.
export const AGGREGATIONS = "avg bottomk count count_values group limit_ratio limitk max min quantile stddev stdvar sum topk".split(" ");
export const FUNCTIONS = `abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes clamp clamp_max
  clamp_min cos cosh count_over_time day_of_month day_of_week day_of_year days_in_month deg delta deriv double_exponential_smoothing
  end exp first_over_time floor histogram_avg histogram_count histogram_fraction histogram_quantile histogram_quantiles
  histogram_stddev histogram_stdvar histogram_sum hour idelta increase info irate label_join label_replace last_over_time ln
  log10 log2 mad_over_time max_of max_over_time min_of min_over_time minute month pi predict_linear present_over_time
  quantile_over_time rad range rate resets round scalar sgn sin sinh sort sort_by_label sort_by_label_desc sort_desc sqrt start
  start_timestamp stddev_over_time stdvar_over_time step sum_over_time tan tanh time timestamp ts_of_first_over_time
  ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time vector year`.split(/\s+/);
const TOKEN = /\s+|#[^\n]*|"(?:\\[^]|[^"\\])*"?|'(?:\\[^]|[^'\\])*'?|`[^`]*`?|[a-zA-Z_:][\w:]*|\d[\w.]*|=~|!~|!=|[^]/y;
const GROUPING = new Set(["by", "without", "on", "ignoring", "group_left", "group_right"]);
const PLAIN = /^[a-zA-Z_][\w]*$/, PLAIN_METRIC = /^[a-zA-Z_:][\w:]*$/;

/** `{ kind: "metric" | "label" | "value", from, prefix, ... }`, or null where nothing is to be offered. */
export function contextAt(text, caret) {
  const frames = [{ open: "", metric: "" }], before = ["", "", ""]; // the last three tokens
  const read = text.slice(0, caret);
  let token = "", at = 0, from = 0;
  for (TOKEN.lastIndex = 0; at < caret; ) {
    token = TOKEN.exec(read)[0];
    [from, at] = [at, at + token.length];
    if (token[0] === "#" || /^\s/.test(token)) continue;
    if ("{([".includes(token)) frames.push({ open: token, metric: token === "{" && PLAIN_METRIC.test(before[2]) ? before[2] : "", labels: token === "(" && GROUPING.has(before[2].toLowerCase()) });
    else if ("})]".includes(token) && frames.length > 1) frames.pop();
    before.push(token);
    before.shift();
  }
  if (token[0] === "#" || /^\d/.test(token)) return null;
  const frame = frames.at(-1), word = PLAIN_METRIC.test(token) ? token : "";
  const place = { from: word ? from : caret, prefix: word };
  const last = word || (/^["'`]/.test(token)) ? before[1] : before[2];
  if (/^["'`]/.test(token)) return open(token) && /^(=|!=|=~|!~)$/.test(last) && frame.open === "{" ? { kind: "value", from: from + 1, prefix: token.slice(1), label: unquoted(before[0]), metric: frame.metric, quote: token[0] } : null;
  if (frame.open === "[") return null;
  if (frame.open === "{" || frame.labels) return /^[{(,]$/.test(last) ? { kind: "label", ...place, metric: frame.metric, matcher: frame.open === "{" } : null;
  return { kind: "metric", ...place };
}

const open = (token) => token.length === 1 || !new RegExp(`^(?:\\\\[^]|[^\\\\])*${token[0]}$`).test(token.slice(1));
const unquoted = (name) => (name[0] === '"' ? JSON.parse(name) : name);

/** Those that begin with the prefix, then those that contain it. */
export function ranked(choices, prefix, most = 12) {
  const wanted = prefix.toLowerCase(), begin = [], contain = [];
  for (const one of choices) {
    const at = one.name.toLowerCase().indexOf(wanted);
    if (at === 0) begin.push(one);
    else if (at > 0) contain.push(one);
  }
  const found = [...begin, ...contain].slice(0, most);
  return found.length === 1 && found[0].name === prefix ? [] : found;
}

/** The text with the choice in it, and where the caret is then. */
export function completed(text, caret, context, { name, call = false }) {
  let rest = text.slice(caret), put = name;
  if (context.kind === "metric") put = call ? `${name}(` : PLAIN_METRIC.test(name) ? name : `{${JSON.stringify(name)}}`;
  if (context.kind === "label") put = (PLAIN.test(name) ? name : JSON.stringify(name)) + (context.matcher && !/^\s*[=!]/.test(rest) ? '="' : "");
  if (context.kind === "value") {
    put = quoted(name, context.quote) + context.quote;
    if (rest[0] === context.quote) rest = rest.slice(1);
  }
  const until = text.slice(0, context.from) + put;
  return { text: until + rest, caret: until.length };
}

/** The inside of a string: nothing is escaped between backticks, and elsewhere only the quote that ends it. */
function quoted(text, quote) {
  const escaped = JSON.stringify(text).slice(1, -1);
  return { "`": text, '"': escaped, "'": escaped.replaceAll('\\"', '"').replaceAll("'", "\\'") }[quote];
}

/** A number of what is a native histogram; of a bare selector, a counter as a rule, of its rate. */
export function quantileOf(query) {
  const text = query.includes("#") ? `${query}\n` : query.trim();
  const bare = /^\s*(?:[a-zA-Z_:][\w:]*)?\s*(?:\{[^}]*\})?\s*$/.test(text), range = bare ? `${text}[5m]` : text;
  return `histogram_quantile(0.95, ${range.endsWith("]") ? `rate(${range})` : range})`;
}

/** A query that makes sense of a metric, by its type; `names` tells classic histograms from native ones. */
export function exampleFor({ name, type }, names) {
  const of = (metric) => (PLAIN_METRIC.test(metric) ? metric : `{${JSON.stringify(metric)}}`);
  if (type === "counter") return `sum(rate(${of(name)}[5m]))`;
  if (type === "histogram") return names.has(`${name}_bucket`) ? `histogram_quantile(0.95, sum by (le) (rate(${of(`${name}_bucket`)}[5m])))` : `histogram_quantile(0.95, sum(rate(${of(name)}[5m])))`;
  return of(name);
}
