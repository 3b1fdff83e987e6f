// A result as a file. It is asked for again as a whole, because the page may have loaded a part of it.
import { ask } from "./api.js";
import { element } from "./dom.js";

export const FORMS = { csv: "text/csv", json: "application/json", arrow: "application/vnd.apache.arrow.stream" };

/** CSV and Arrow have no place for "rows are missing": they come whole or not, unless that has been seen. */
export async function save(form, request, isPartial, signal) {
  const response = await ask("/api/v1/query", { ...request, partial: form === "json" || isPartial }, signal, FORMS[form]);
  const url = URL.createObjectURL(new Blob([await response.blob()], { type: FORMS[form] }));
  const link = element("a", { href: url, download: `lakerunner-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.${form === "arrow" ? "arrows" : form}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
