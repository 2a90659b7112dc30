"use strict";

// All pages share this code. Their data is text or numbers: it reaches a page as textContent, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);

// Okabe and Ito's colours.
const COLORS = ["var(--board)", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a939e", "#b8a900"];

const byId = (id) => document.getElementById(id);
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const number = (value) => value.toLocaleString("en-US");
const bytes = (value) =>
  value < 10240 ? `${number(value)} B` : value < 1024 * 1024 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / 1048576).toFixed(2)} MiB`;
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** An element with attributes and children; strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A number with its name, what is below it, and a meter of its share. */
const card = (name, value, below, share) => {
  const made = element("div", { class: "card" }, element("span", {}, name), element("b", {}, value), element("span", {}, below));
  if (share !== undefined) {
    const fill = element("i", { class: share > 1 ? "over" : "", style: `width:${Math.min(100, 100 * share)}%` });
    made.append(element("div", { class: "meter" }, fill));
  }
  return made;
};

/** The card of each memory of an image. */
const memoryCards = (memories) =>
  Object.entries(memories).map(([name, { used, limit }]) =>
    card(name === "flash" ? "Flash" : name, bytes(used), `of ${bytes(limit)}, ${percent(used / limit)}`, used / limit));

byId("theme").addEventListener("click", () => document.documentElement.classList.toggle("dark"));
document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
