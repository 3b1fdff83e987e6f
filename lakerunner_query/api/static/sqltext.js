// SQL read token by token: how it is coloured, what it reads from, and what could be written at the caret.
export const KEYWORDS = `ALL AND ANY AS ASC BETWEEN BY CASE CAST CROSS DESC DESCRIBE DISTINCT ELSE END EXCEPT EXISTS EXPLAIN FALSE FILTER
  FIRST FROM FULL GROUP HAVING ILIKE IN INNER INTERSECT INTERVAL IS JOIN LAST LEFT LIKE LIMIT NOT NULL NULLS OFFSET ON OR ORDER OUTER
  OVER PARTITION PRECEDING FOLLOWING UNBOUNDED CURRENT ROW ROWS RANGE QUALIFY RIGHT SELECT SHOW SIMILAR TABLES THEN TO TRUE UNION USING
  VALUES WHEN WHERE WINDOW WITH`.split(/\s+/);
/** What is offered of LakeQL's functions, with what they take. */
export const FUNCTIONS = Object.fromEntries(`count(*)|sum(x)|min(x)|max(x)|avg(x)|median(x)|mode(x)|stddev(x)|any_value(x)|first(x)|last(x)|arg_max(x, by)|arg_min(x, by)
  |count_if(condition)|bool_and(x)|bool_or(x)|string_agg(text, ', ')|list(x)|quantile_cont(x, 0.95)|approx_quantile(x, 0.95)|approx_count_distinct(x)|approx_top_k(x, 10)|approx_cardinality(sketch)
  |corr(y, x)|histogram(x)|time_bucket(INTERVAL '1 minute', timestamp)|date_trunc('minute', timestamp)|date_bin(INTERVAL '5 minutes', timestamp)|date_diff('second', a, b)
  |date_part('hour', timestamp)|epoch(timestamp)|epoch_ms(x)|epoch_ns(x)|to_timestamp(seconds)|strftime(timestamp, '%H:%M')|strptime(text, '%Y-%m-%d')|dayname(x)|hour(x)|minute(x)|second(x)
  |matches(text, 'all words')|matches_any(text, 'any word')|matches_term(text, 'term')|contains(text, 'part')|starts_with(text, 'start')|ends_with(text, 'end')
  |regexp_matches(text, 'pattern')|regexp_extract(text, 'pattern', 1)|regexp_replace(text, 'pattern', 'by')|regexp_full_match(text, 'pattern')|split_part(text, ' ', 1)
  |string_split(text, ' ')|lower(text)|upper(text)|trim(text)|replace(text, 'a', 'b')|substring(text, 1, 10)|left(text, 10)|right(text, 10)|length(text)|concat(a, b)
  |coalesce(a, b)|ifnull(a, b)|nullif(a, b)|greatest(a, b)|least(a, b)|if(condition, a, b)|abs(x)|round(x, 2)|floor(x)|ceil(x)|ln(x)|log10(x)|exp(x)|sqrt(x)|power(x, y)|sign(x)
  |row_number()|rank()|dense_rank()|percent_rank()|ntile(4)|lag(x)|lead(x)|first_value(x)|last_value(x)|nth_value(x, 2)
  |map_keys(map)|map_values(map)|map_extract(map, 'key')|map_contains(map, 'key')|element_at(map, 'key')|cardinality(map)|json_extract_string(text, '$.path')|json_extract(text, '$.path')
  |json_keys(text)|list_contains(list, x)|unnest(list)|format_bytes(x)|md5(text)|typeof(x)`.split("|").map((one) => one.trim()).map((one) => [one.slice(0, one.indexOf("(")), one]));
/** Tables that are functions of a query in another language, and their columns. */
export const LANGUAGES = {
  promql: { hint: "samples of a PromQL query: promql('rate(…[5m])', '1m')", columns: ["timestamp", "value", "labels", "metric_name", "histogram"] },
  logql: { hint: "lines or samples of a LogQL query: logql('{…}')", columns: ["timestamp", "tsns", "message", "labels", "metadata", "parsed", "value", "metric_name", "histogram"] },
  traceql: { hint: "spans or samples of a TraceQL query: traceql('{ status = error }')", columns: ["timestamp", "tsns", "trace_id", "span_id", "name", "duration_ns", "root_service_name", "root_name", "trace_tsns", "trace_duration_ns", "span_set", "attributes", "set_attributes", "value", "labels"] },
};
const TOKEN = /(?<space>\s+)|(?<comment>--[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<string>'(?:[^']|'')*'?)|(?<quoted>"(?:[^"]|"")*"?)|(?<number>\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)|(?<name>[\p{L}_][\p{L}\p{N}_]*)|(?<parameter>\$\w+)|(?<mark><>|!=|<=|>=|\|\||::|->>?|[^])/uiy;
const WORDS = new Set(KEYWORDS), PLAIN = /^[a-z_][a-z0-9_]*$/;
const CLAUSES = new Set(["SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "USING", "QUALIFY", "WINDOW", "WITH", "UNION", "EXCEPT", "INTERSECT", "VALUES"]);
const LISTING = new Set(["FROM", "ON", "USING"]); // where a comma is followed by a table

/** `{ kind, text, from }` one after another, all of the text. */
export function tokens(text) {
  const found = [];
  for (let from = 0; from < text.length; ) {
    TOKEN.lastIndex = from;
    const { groups, 0: piece } = TOKEN.exec(text);
    found.push({ kind: Object.keys(groups).find((name) => groups[name] !== undefined), text: piece, from });
    from += piece.length;
  }
  return found;
}

/** The same, with the kinds that have colours: names are keywords, functions, or names. */
export function coloured(text) {
  const all = tokens(text);
  return all.map((one, i) => {
    if (one.kind !== "name") return one;
    const next = all[i + 1]?.kind === "space" ? all[i + 2] : all[i + 1], before = all[i - 1]?.text;
    const isCall = next?.text === "(" && before !== "." && (Object.hasOwn(FUNCTIONS, one.text.toLowerCase()) || !WORDS.has(one.text.toUpperCase()));
    return { ...one, kind: isCall ? "function" : WORDS.has(one.text.toUpperCase()) && before !== "." ? "keyword" : "name" };
  });
}

/** Where the token at a place of `{ line, column }` begins and ends; columns count characters, not halves of them. */
export function spanAt(text, { line, column }) {
  const lines = text.split("\n"), above = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const from = Math.min(text.length, above + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length);
  const token = tokens(text).find((one) => one.from <= from && from < one.from + one.text.length);
  return token && token.kind !== "space" ? { from: token.from, to: token.from + token.text.length } : { from, to: from };
}

const unquoted = ({ kind, text }) => (kind === "quoted" ? text.slice(1, text.endsWith('"') && text.length > 1 ? -1 : undefined).replaceAll('""', '"') : text);
export const identifier = (name) => (PLAIN.test(name) && !WORDS.has(name.toUpperCase()) ? name : `"${name.replaceAll('"', '""')}"`);
export const literal = (text) => `'${text.replaceAll("'", "''")}'`;

/** What a statement reads: `{ relations: Map of alias to table, ctes: Map of name to its columns }`. */
export function reads(text) {
  const all = tokens(text).filter(({ kind }) => kind !== "space" && kind !== "comment");
  const relations = new Map(), ctes = new Map(), clauses = [""];
  for (let i = 0, wanted = false; i < all.length; i += 1) {
    const one = all[i], word = one.kind === "name" ? one.text.toUpperCase() : one.text, next = all[i + 1]?.text.toUpperCase();
    if (wanted && (one.kind === "name" || one.kind === "quoted")) {
      let after = i + 1;
      if (next === "(") for (let depth = 0; after < all.length; after += 1) if ((depth += all[after].text === "(" ? 1 : all[after].text === ")" ? -1 : 0) === 0) { after += 1; break; }
      if (all[after]?.text.toUpperCase() === "AS") after += 1;
      const named = all[after], hasAlias = named && (named.kind === "quoted" || (named.kind === "name" && !WORDS.has(named.text.toUpperCase())));
      relations.set(hasAlias ? unquoted(named) : unquoted(one), unquoted(one).toLowerCase());
      wanted = false;
    }
    if (clauses.at(-1) === "WITH" && one.kind === "name" && next === "AS" && all[i + 2]?.text === "(") ctes.set(unquoted(one), selected(all, i + 3));
    if (word === "(") { clauses.push(""); wanted = false; }
    else if (word === ")") { if (clauses.length > 1) clauses.pop(); }
    else if (one.kind === "name" && CLAUSES.has(word)) clauses[clauses.length - 1] = word;
    wanted = (one.kind === "name" && (word === "FROM" || word === "JOIN")) || (word === "," && LISTING.has(clauses.at(-1)));
  }
  return { relations, ctes };
}

/** The names of what `SELECT a, f(b) AS c FROM` gives, read from the token `i` on. */
function selected(all, i) {
  const names = [];
  let depth = 0, last = null;
  for (; i < all.length; i += 1) {
    const { kind, text } = all[i], word = text.toUpperCase();
    if (depth === 0 && (word === ")" || word === "FROM" || word === ",") && last) names.push(last);
    if (depth === 0 && (word === ")" || word === "FROM")) return names;
    depth += text === "(" ? 1 : text === ")" ? -1 : 0;
    last = kind === "name" || kind === "quoted" ? (word === "SELECT" || word === "DISTINCT" ? null : unquoted(all[i])) : depth === 0 && text !== ")" ? null : last;
  }
  return names;
}

/** `{ kind: "table" | "column" | "word" | "value", from, prefix, ... }`, or null where nothing is to be offered. */
export function sqlContext(text, caret) {
  const all = tokens(text.slice(0, caret)).filter(({ kind }) => kind !== "space"), last = all.at(-1);
  const touches = last && last.from + last.text.length === caret;
  if (touches && ((last.kind === "comment" && !last.text.endsWith("*/")) || last.kind === "number" || last.kind === "parameter")) return null;
  const isOpen = touches && last.kind === "string" && (last.text.length === 1 || !/^'(?:[^']|'')*'$/.test(last.text));
  if (isOpen) return valueContext(all, last);
  if (touches && (last.kind === "string" || last.text === ")")) return null;
  const isQuoted = touches && last.kind === "quoted", isWord = isQuoted || (touches && last.kind === "name");
  if (isQuoted && last.text.length > 1 && last.text.endsWith('"')) return null;
  const place = { from: isWord ? last.from : caret, prefix: isWord ? unquoted(last) : "" };
  const before = all.filter(({ kind }) => kind !== "comment").slice(0, isWord ? -1 : undefined), previous = before.at(-1);
  if (previous?.text === ".") return { kind: "column", ...place, qualifier: unquoted(before.at(-2) ?? { text: "" }) };
  if (/^(as|interval)$/i.test(previous?.text ?? "")) return null;
  if (/^(from|join|describe)$/i.test(previous?.text ?? "") || (previous?.text === "," && LISTING.has(clauseOf(before)))) return { kind: "table", ...place };
  return { kind: "word", ...place, isFirst: !previous };
}

/** The clause in which a list of tokens ends. */
function clauseOf(all) {
  let depth = 0;
  for (const { kind, text } of [...all].reverse()) {
    depth += text === ")" ? 1 : text === "(" ? -1 : 0;
    if (depth < 0) return "";
    if (depth === 0 && kind === "name" && CLAUSES.has(text.toUpperCase())) return text.toUpperCase();
  }
  return "";
}

/** `column = '…`, `column IN ('a', '…`, `column LIKE '…`. */
function valueContext(all, last) {
  let at = all.length - 2;
  while (all[at]?.text === "," || all[at]?.kind === "string") at -= 1;
  if (all[at]?.text === "(" && /^in$/i.test(all[at - 1]?.text ?? "")) at -= 1;
  if (!/^(=|==|!=|<>|in|like|ilike)$/i.test(all[at]?.text ?? "")) return null;
  if (/^not$/i.test(all[at - 1]?.text ?? "")) at -= 1;
  const column = all[at - 1];
  return column && /^(name|quoted)$/.test(column.kind) ? { kind: "value", from: last.from + 1, prefix: last.text.slice(1).replaceAll("''", "'"), column: unquoted(column) } : null;
}

/** The text with the choice in it, and where the caret is then. */
export function placed(text, caret, context, { name, put }) {
  let rest = text.slice(caret), written = put ?? (context.kind === "value" ? `${literal(name).slice(1)}` : identifier(name));
  if (context.kind === "value" && rest[0] === "'") rest = rest.slice(1);
  if (written.endsWith("(") && rest[0] === "(") written = written.slice(0, -1);
  const until = text.slice(0, context.from) + written;
  return { text: until + rest, caret: until.length };
}
