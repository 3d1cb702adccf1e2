// Elements made of data. Text only ever becomes text: nothing here or elsewhere parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element: attributes, `on…` listeners, and children; strings become text. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** The same in SVG. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** A link to an outside address where it is one of the web, its text otherwise: `javascript:` leads nowhere. */
export function outside(url, text = url) {
  if (!/^https?:\/\//i.test(url ?? "")) return h("span", { class: text === url && "mono" }, text || "unknown");
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, text);
}

/** Numbers as a person reads them. */
export const count = (n) => (n === null || n === undefined ? "–" : Number(n).toLocaleString("en"));

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (n = n ?? 0; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i ? n.toFixed(1) : n} ${units[i]}`;
}

export function seconds(n) {
  if (n === null || n === undefined) return "–";
  const whole = Math.round(n);
  if (n < 59.95) return `${n < 9.995 ? n.toFixed(2) : n.toFixed(1)} s`;
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${(n / 3600).toFixed(1)} h`;
}

/** "2026-11-21T09:17:05.2" in UTC, as a date and a time. */
export const moment = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 16)} UTC` : "–");

/** Whatever JSON holds, on one line. */
export function plain(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
