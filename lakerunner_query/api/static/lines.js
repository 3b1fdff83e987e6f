// One line of the list, and what opens beneath it.
import { button, copy, element, visible } from "./dom.js";
import { levelOf } from "./levels.js";
import { clock, exact, millis } from "./range.js";

/** `narrow(name, operator, value)` is called when a label is to be added to the query. */
export function lineItem(row, narrow) {
  const level = levelOf(row);
  const details = element("details", {},
    element("summary", {},
      element("time", { title: exact(row.timestamp), dateTime: exact(row.timestamp) }, clock(millis(row.timestamp))),
      element("span", { className: "level" }, level === "unknown" ? "" : level),
      service(row),
      element("span", row.message ? { className: "line" } : { className: "line none" }, visible(row.message) || "empty line")));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(detail(row, narrow));
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

function detail(row, narrow) {
  const labels = Object.entries(row.labels).map(([name, value]) => pair(name, value,
    small("=", `only ${name} = this`, () => narrow(name, "=", value)), small("≠", `without ${name} = this`, () => narrow(name, "!=", value))));
  const metadata = Object.entries(row.metadata).map(([name, value]) => pair(name, value));
  const whole = JSON.stringify(row, null, 2);
  return element("div", { className: "detail" },
    copier("Copy line", row.message), copier("Copy as JSON", whole),
    element("h3", {}, "Time"), element("dl", {}, ...pair("timestamp", exact(row.timestamp)), ...pair("nanoseconds", row.timestamp)),
    element("h3", {}, "Labels"), element("dl", {}, ...labels.flat()),
    element("h3", {}, "Structured metadata"),
    metadata.length ? element("dl", {}, ...metadata.flat()) : "none");
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

/** The query with one more matcher in its stream selector. */
export function narrowed(query, name, operator, value) {
  const matcher = `${name}${operator}${JSON.stringify(value)}`;
  return /^\s*\{\s*\}/.test(query) ? query.replace(/\{\s*\}/, () => `{${matcher}}`) : query.replace("{", () => `{${matcher}, `);
}
