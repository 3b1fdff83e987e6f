// The address holds view, query and range (never the key), so that it can be kept and passed on.
import { $ } from "./dom.js";
import { choose } from "./range.js";

const BOTH = { q: "query", range: "range", from: "from", to: "to" };
const FIELDS = { logs: { ...BOTH, order: "order", lines: "limit", show: "show", step: "step" }, metrics: { ...BOTH, show: "show", step: "step" },
  alerts: { range: "range", from: "from", to: "to" }, map: { range: "range", from: "from", to: "to" }, sql: { ...BOTH, as: "as", x: "plot-x", y: "plot-y", by: "plot-by", zone: "zone" },
  traces: { ...BOTH, order: "found-order", step: "step", trace: "opened" } };

export function remember(view) {
  const fixed = $("range").value === "custom";
  const kept = Object.entries(FIELDS[view]).map(([name, id]) => [name, $(id).value]).filter(([name, value]) => value && (fixed || (name !== "from" && name !== "to")));
  history.replaceState(null, "", `#${new URLSearchParams(view === "logs" ? kept : [["view", view], ...kept])}`);
}

/** What the address says goes into the controls; the name of the view comes back. */
export function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  const view = Object.hasOwn(FIELDS, kept.get("view")) ? kept.get("view") : "logs";
  $("query").value = view === "logs" ? $("query").defaultValue : "";
  for (const [name, id] of Object.entries(FIELDS[view])) {
    const open = id.startsWith("plot-"); // choices are known once there is a result
    if (id === "opened") $(id).value = kept.get(name) ?? "";
    else if (open) $(id).replaceChildren(...(kept.get(name) ? [new Option(kept.get(name))] : []));
    else if (kept.get(name)) $(id).value = kept.get(name);
    if (!open && $(id).selectedIndex === -1) $(id).selectedIndex = 0;
  }
  choose(kept.get("range") || "1h");
  return view;
}
