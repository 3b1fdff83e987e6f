// One line of the list, and what opens beneath it.
import { button, copy, element, visible } from "./dom.js";
import { levelOf } from "./levels.js";
import { clock, exact, millis } from "./range.js";
import { traceHref, traceIdOf } from "./tracetext.js";

/** `narrow(name, operator, value)` is called when a stream label is to be added to the query, `filter` for another. */
export function lineItem(row, narrow, filter) {
  const level = levelOf(row);
  const details = element("details", {},
    element("summary", {},
      element("time", { title: exact(row.timestamp), dateTime: exact(row.timestamp) }, clock(millis(row.timestamp))),
      element("span", { className: "level" }, level === "unknown" ? "" : level),
      service(row),
      element("span", row.message ? { className: "line" } : { className: "line none" }, visible(row.message) || "empty line")));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(detail(row, narrow, filter));
  });
  details.firstChild.addEventListener("click", (event) => { if (String(getSelection())) event.preventDefault(); });
  const item = element("li", { className: `level-${level}` }, details);
  item.dataset.id = row.id;
  return item;
}

function service(row) {
  const name = visible(row.labels.service_name || "");
  return element("span", { className: "service", title: name }, name);
}

function detail(row, narrow, filter) {
  const listed = (labels, act) => Object.entries(labels).flatMap(([name, value]) => pair(name, value,
    small("=", `only ${name} = this`, () => act(name, "=", value)), small("≠", `without ${name} = this`, () => act(name, "!=", value))));
  const metadata = listed(row.metadata, filter), parsed = listed(row.parsed, filter);
  const trace = traceIdOf(row.metadata, row.parsed, row.labels);
  const whole = JSON.stringify(row, null, 2);
  return element("div", { className: "detail" },
    copier("Copy line", row.message), copier("Copy as JSON", whole), ...(trace ? [element("a", { href: traceHref(trace) }, "Open trace")] : []),
    element("h3", {}, "Time"), element("dl", {}, ...pair("timestamp", exact(row.timestamp)), ...pair("nanoseconds", row.timestamp)),
    element("h3", {}, "Labels"), element("dl", {}, ...listed(row.labels, narrow)),
    ...(parsed.length ? [element("h3", {}, "Of the query's stages"), element("dl", {}, ...parsed)] : []),
    element("h3", {}, "Structured metadata"),
    metadata.length ? element("dl", {}, ...metadata) : "none");
}

function pair(name, value, ...buttons) {
  return [element("dt", {}, visible(name)), element("dd", {}, visible(value), ...buttons)];
}

function small(text, title, onclick) {
  return Object.assign(button(text, onclick), { title, ariaLabel: title });
}

function copier(text, content) {
  const made = button(text, async () => {
    made.textContent = await copy(content).then(() => "Copied", () => "The browser refused");
    setTimeout(() => { made.textContent = text; }, 1200);
  });
  return made;
}

/** The query with one more condition behind its stages; one that is a comment's end begins a new line. */
export const filtered = (query, name, operator, value) => `${query.trimEnd()}${query.includes("#") ? "\n" : " "}| ${name}${operator}${JSON.stringify(value)}`;

/** The query with one more matcher in its stream selector. */
export function narrowed(query, name, operator, value) {
  const matcher = `${name}${operator}${JSON.stringify(value)}`;
  return /^\s*\{\s*\}/.test(query) ? query.replace(/\{\s*\}/, () => `{${matcher}}`) : query.replace("{", () => `{${matcher}, `);
}
