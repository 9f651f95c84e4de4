// The survey's own texts: {text, lang}, in the page's language where there is one, else in the survey's first.

import { pageLanguage, t } from "./catalog.js";
import { element } from "./elements.js";

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
  const general = (key) => found(wording, language, (texts) => texts[key]);
  const question = ({ name }) => found(wording, language, (texts) => at(texts.questions, name)) ?? { text: name, lang: first };
  return {
    general,
    question: (attribute) => {
      const box = at(wording.boxes, attribute.name);
      return (box && found(wording, language, (texts) => at(texts.questions, attribute.name))) ?? (box ? { text: `${box[0]}: ${box[1] ?? ""}`, lang: first } : question(attribute));
    },
    /** The text of one check box. */
    option: (attribute) => found(wording, language, (texts) => at(texts.questions, attribute.name)) ?? category(at(wording.boxes, attribute.name)[1], first),
    column: (name) => found(wording, language, (texts) => at(texts.questions, name)) ?? { text: name, lang: first },
    answer: ({ name, categories }, code) => found(wording, language, (texts) => at(texts.labels, name)?.[code]) ?? category(categories[code], first),
  };
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
