// The survey's own texts: {text, lang}, in the page's language where there is one, else in the survey's first.

import { date, number, pageLanguage, t } from "./catalog.js";
import { element } from "./elements.js";
import { rangeText } from "./words.js";

/** The text that `pick` finds in the texts of a language; undefined if no language has it. */
function found({ languages, texts }, language, pick) {
  for (const lang of [language, languages[0]]) {
    const text = texts[lang] && pick(texts[lang]);
    if (text !== undefined && text !== null) return { text, lang };
  }
  return undefined;
}

/** Own property of an object: an attribute may have the name `constructor` or `__proto__`. */
export const at = (object, key) => (object && Object.hasOwn(object, key) ? object[key] : undefined);

/** A survey's texts for a reader of `language`. */
export function textsOf(wording, language) {
  const first = wording.languages[0];
  const asked = (name) => found(wording, language, ({ questions }) => at(questions, name));
  const box = ({ name }) => at(wording.boxes, name);
  const column = (name) => found(wording, language, ({ columns }) => at(columns, name));
  /** A category that the page itself adds: whether a box is ticked, or a question was not asked. */
  const added = (attribute, category) => {
    const text = box(attribute) ? { yes: t("Yes"), no: t("No") }[category] : at(wording.branches, attribute.name)?.otherwise === category && t("Not asked");
    return text && { text, lang: pageLanguage() };
  };
  return {
    general: (key) => found(wording, language, (texts) => texts[key]),
    question: (attribute) => {
      const [whole, option] = box(attribute) ? [column(box(attribute)[0]), asked(attribute.name)] : [];
      if (whole && whole.lang === option?.lang) return { text: `${whole.text} ${option.text}`, lang: whole.lang };
      return asked(attribute.name) ?? { text: box(attribute)?.join(": ") ?? attribute.name, lang: first };
    },
    /** The text of one check box, and of all boxes of a column. */
    option: (attribute) => asked(attribute.name) ?? category(box(attribute)[1], first),
    column: (name) => column(name) ?? { text: name, lang: first },
    answer: (attribute, code) =>
      found(wording, language, ({ labels }) => at(labels, attribute.name)?.[code]) ?? (added(attribute, attribute.categories[code]) || rangeOf(attribute.categories[code])) ?? category(attribute.categories[code], first),
  };
}

// the notation of a bin without a text of its own: [18, 30), (18, 30], < 18, >= 65
const INTERVAL = /^(?:([[(])(.+), (.+)[\])]|(<|>)(=?) (.+))$/;

/** The range that a category's notation means; undefined if it has none. */
function rangeOf(category) {
  const [, opening, low, high, sign, equal, end] = INTERVAL.exec(category) ?? [];
  const isLeft = opening === "[" || (sign === "<") !== (equal === "=");
  const edges = (opening ? [low, high] : sign === "<" ? [null, end] : [end, null]).map((edge) => edge && edgeText(edge));
  if (!(opening || sign) || edges.includes(undefined)) return undefined;
  return { text: rangeText(...edges, isLeft ? "left" : "right"), lang: pageLanguage() };
}

function edgeText(edge) {
  if (/^-?\d+(\.\d+)?(e[-+]?\d+)?$/.test(edge)) return number(Number(edge));
  return /^\d{4}-\d\d-\d\d$/.test(edge) ? date(edge) : undefined;
}

/** A category in words, so that no answer is without a text. */
function category(text, lang) {
  if (text === null) return { text: t("I prefer not to say"), lang: pageLanguage() };
  return text.trim() === "" ? { text: t("(empty)"), lang: pageLanguage() } : { text, lang };
}

/** Attributes of an element that shows a text of the survey. */
export const spoken = ({ lang }) => (lang === pageLanguage() ? { dir: "auto" } : { lang, dir: "auto" });

/** A text of the survey within a sentence. */
export const quoted = (said) => element("bdi", spoken(said), said.text);
