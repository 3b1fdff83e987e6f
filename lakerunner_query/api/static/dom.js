// Building elements. Text only ever becomes text nodes: a log line is written by whoever wants to be read.
export const $ = (id) => document.getElementById(id);

/** `element("p", { className: "x" }, "text", child)` */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** The same for SVG. */
export function shape(tag, attributes, className, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (className) made.setAttribute("class", className);
  made.append(...children);
  return made;
}

export function button(text, onclick, className = "quiet") {
  return element("button", { type: "button", className, onclick }, text);
}

/** Control characters made visible, and the ones that would reorder text for the reader. */
export function visible(text) {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The clipboard API exists on https and localhost only; elsewhere the old command does. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = element("textarea", { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
