// Which questions a person is asked, and the record of their answers. Pure functions of what was entered, in memory only.
//
// `entered` maps an attribute's name to the code of a category, to true or false (a check box), or to a number's text.

import { typedNumber } from "./catalog.js";
import { askedAbout } from "./question.js";
import { at } from "./texts.js";

export const CATEGORIES_OF_BOX = { true: "yes", false: "no" };

/** The attributes of a person's question, and those that decide whether these are asked, in the file's order. */
export function involved(deployment, asked, { branches }) {
  const names = new Set(askedAbout(deployment, asked).map(({ name }) => name));
  // parents come before their children
  for (const { name } of [...deployment.attributes].reverse())
    if (names.has(name)) for (const parent of Object.keys(at(branches, name)?.when ?? {})) names.add(parent);
  return deployment.attributes.filter(({ name }) => names.has(name));
}

/** Pages of one question each, as lists of attributes; the check boxes of a column are one page. */
export function pagesOf(attributes, { boxes }) {
  const pages = new Map();
  for (const attribute of attributes) {
    const key = at(boxes, attribute.name)?.[0] ?? attribute;
    pages.set(key, [...(pages.get(key) ?? []), attribute]);
  }
  return [...pages.values()];
}

/** The bin of a number: its code, or undefined outside of all. */
export function binOf({ edges, closed }, value) {
  const limits = edges.map((edge, k) => edge ?? (k ? Infinity : -Infinity));
  const isIn = (low, high) => (closed === "right" ? low < value && value <= high : low <= value && value < high);
  const code = limits.slice(1).findIndex((high, k) => isIn(limits[k], high));
  return code < 0 ? undefined : code;
}

/** A person's way through the survey. */
export function pathOf(attributes, wording, entered) {
  const known = new Map(attributes.map((attribute) => [attribute.name, attribute]));

  /** The category of an attribute; undefined as long as it is open. */
  function value(name) {
    const asked = isAsked(name);
    if (!asked) return asked === false ? at(wording.branches, name).otherwise : undefined;
    const { categories } = known.get(name);
    const raw = entered.get(name);
    if (typeof raw === "boolean") return CATEGORIES_OF_BOX[raw];
    return categories[typeof raw === "string" ? binOf(wording.numbers[name], typedNumber(raw)) : raw];
  }

  /** Whether an attribute is asked; undefined as long as that depends on an open answer. */
  function isAsked(name) {
    let isOpen = false;
    for (const [parent, categories] of Object.entries(at(wording.branches, name)?.when ?? {})) {
      const given = value(parent);
      if (given === undefined) isOpen = true;
      else if (!categories.includes(given)) return false;
    }
    return isOpen ? undefined : true;
  }

  const pages = pagesOf(attributes, wording).map((members) => members.map(({ name }) => name));
  const asks = (page) => page.map(isAsked);
  return {
    /** The names that a page asks for. */
    members: (k) => pages[k].filter((name) => isAsked(name)),
    /** The number of the page after this one, or before it; -1 if there is none. */
    next: (k) => pages.findIndex((page, i) => i > k && asks(page).some((x) => x !== false)),
    back: (k) => pages.findLastIndex((page, i) => i < k && asks(page).includes(true)),
    /** How many pages there are up to this one, and in all; `most` if the rest depends on open answers. */
    progress: (k) => {
      const later = pages.slice(k + 1).map(asks);
      const before = pages.slice(0, k).filter((page) => asks(page).includes(true)).length;
      const isOpen = later.some((page) => !page.includes(true) && page.includes(undefined));
      return { k: before + 1, n: before + 1 + later.filter((page) => page.some((x) => x !== false)).length, isOpen };
    },
    /** The category of each of these attributes, by name. */
    record: (of) => Object.fromEntries(of.map(({ name }) => [name, value(name)])),
  };
}
