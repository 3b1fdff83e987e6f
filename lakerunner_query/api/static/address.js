// The address holds view, query and range (never the key), so that it can be kept and passed on.
import { $ } from "./dom.js";
import { choose } from "./range.js";

const BOTH = { q: "query", range: "range", from: "from", to: "to" };
const FIELDS = { logs: { ...BOTH, order: "order" }, metrics: { ...BOTH, show: "show", step: "step" } };

export function remember(view) {
  const kept = Object.entries(FIELDS[view]).map(([name, id]) => [name, $(id).value]).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(view === "logs" ? kept : [["view", view], ...kept])}`);
}

/** What the address says goes into the controls; the name of the view comes back. */
export function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  const view = kept.get("view") in FIELDS ? kept.get("view") : "logs";
  if (view !== "logs") $("query").value = "";
  for (const [name, id] of Object.entries(FIELDS[view])) {
    if (kept.get(name)) $(id).value = kept.get(name);
    if ($(id).selectedIndex === -1) $(id).selectedIndex = 0;
  }
  choose(kept.get("range") || "1h");
  return view;
}
