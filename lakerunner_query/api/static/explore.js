// Explore: one query at a time, read as server-sent events with fetch (EventSource cannot send a key).
"use strict";

const $ = (id) => document.getElementById(id);
const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "critical"];
const BUCKETS = 100;
const SHOWN = 2000;
let running = null;
let rows = [];

$("key").value = sessionStorage.getItem("lakerunner-key") || "";
$("key").addEventListener("change", () => sessionStorage.setItem("lakerunner-key", $("key").value));
$("form").addEventListener("submit", (event) => { event.preventDefault(); running ? running.abort() : run(); });
$("explain").addEventListener("click", explain);
$("query").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
});

function request(path, signal) {
  const body = {
    q: $("query").value, s: $("start").value.trim() || "e-1h", e: $("end").value.trim() || "now",
    limit: Number($("limit").value) || 100, reverse: $("order").value === "true",
  };
  const headers = { "Content-Type": "application/json", "x-cardinalhq-api-key": $("key").value };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function run() {
  if (running) running.abort();
  const mine = running = new AbortController();
  reset();
  const began = performance.now();
  try {
    const response = await request("/api/v1/logs/query", mine.signal);
    if (!response.ok) return fail(await response.json());
    for await (const message of events(response.body)) take(message, began);
  } catch (error) {
    $("status").textContent = error.name === "AbortError" ? "stopped" : String(error);
  } finally {
    if (running === mine) { running = null; $("run").textContent = "Run"; }
    drawHistogram();
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}

function take({ type, data }, began) {
  if (type === "result") { rows.push(data); if (rows.length <= SHOWN) $("lines").append(item(data)); }
  if (type === "error") fail(data);
  if (type !== "done") return;
  const seconds = ((performance.now() - began) / 1000).toFixed(2);
  const hidden = rows.length > SHOWN ? `, first ${SHOWN} shown` : "";
  const lost = data.missing && data.missing.length ? `, ${data.missing.length} segments could not be read` : "";
  const read = data.stats ? `, ${data.stats.segments_opened} segments, ${data.stats.rows_considered} rows considered` : "";
  $("status").textContent = `${data.status}: ${rows.length} lines in ${seconds} s${hidden}${read}${lost}`;
}

function item(row) {
  const li = document.createElement("li");
  const level = row.metadata.detected_level || "";
  if (LEVELS.includes(level)) li.style.setProperty("--level", `var(--${level === "critical" ? "fatal" : level})`);
  const time = document.createElement("time");
  time.textContent = clock(row.timestamp);
  const line = document.createElement("span");
  line.className = "line";
  line.textContent = row.message;
  li.append(time, line);
  li.addEventListener("click", () => toggle(li, row));
  return li;
}

function toggle(li, row) {
  if (String(getSelection())) return;
  const open = li.querySelector("dl");
  if (open) return open.remove();
  const dl = document.createElement("dl");
  for (const [kind, values] of [["label", row.labels], ["", row.metadata]])
    for (const [name, value] of Object.entries(values)) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name; dt.className = kind; dd.textContent = value;
      dl.append(dt, dd);
    }
  li.append(dl);
}

// Nanoseconds exceed a JavaScript number: milliseconds for the clock, all nine digits from the text.
function clock(ns) {
  const at = new Date(Number(BigInt(ns) / 1000000n));
  return at.toISOString().slice(0, 19).replace("T", " ") + "." + ns.slice(-9);
}

function drawHistogram() {
  const times = rows.map((row) => Number(BigInt(row.timestamp) / 1000000n));
  $("histogram").hidden = times.length === 0;
  if (!times.length) return;
  const low = times.reduce((a, b) => Math.min(a, b)), high = times.reduce((a, b) => Math.max(a, b));
  const width = Math.max(1, (high - low + 1) / BUCKETS);
  const stacks = Array.from({ length: BUCKETS }, () => new Map());
  times.forEach((time, i) => {
    const stack = stacks[Math.min(BUCKETS - 1, Math.floor((time - low) / width))];
    const level = rows[i].metadata.detected_level || "info";
    stack.set(level, (stack.get(level) || 0) + 1);
  });
  const top = Math.max(...stacks.map((s) => [...s.values()].reduce((a, b) => a + b, 0)));
  $("bars").replaceChildren(...stacks.flatMap((stack, i) => bars(stack, i, top)));
  const [from, to] = $("axis").children;
  from.textContent = new Date(low).toISOString();
  to.textContent = new Date(high).toISOString();
}

function bars(stack, at, top) {
  let bottom = 80;
  return [...stack].sort().map(([level, count]) => {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = (count / top) * 78;
    bottom -= height;
    const known = LEVELS.includes(level) ? (level === "critical" ? "fatal" : level) : "trace";
    for (const [name, value] of Object.entries({ x: at * 6 + 0.5, y: bottom, width: 5, height })) rect.setAttribute(name, value);
    rect.style.fill = `var(--${known})`;
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `${level}: ${count}`;
    rect.append(title);
    return rect;
  });
}

async function explain() {
  const response = await request("/api/v1/logs/explain");
  if (!response.ok) return fail(await response.json());
  $("error").hidden = true;
  $("plan").textContent = await response.text();
  $("plan").hidden = false;
}

function reset() {
  rows = [];
  for (const id of ["error", "plan", "histogram"]) $(id).hidden = true;
  $("lines").replaceChildren();
  $("status").textContent = "running";
  $("run").textContent = "Stop";
}

function fail({ message, position }) {
  const mark = position ? `\n${$("query").value.split("\n")[position.line - 1] || ""}\n${" ".repeat(position.column - 1)}^` : "";
  $("error").textContent = message + mark;
  $("error").hidden = false;
  $("status").textContent = "failed";
}
