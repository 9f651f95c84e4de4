// The page's texts in the reader's language: messages are English, catalogues (words-XX.json) translate them.

const ENGLISH = { language: "en", direction: "ltr", plurals: { one: 0, other: 1 }, messages: {} };

let catalog = ENGLISH;
// loaded once: a device may be offline when the next person comes
const loaded = new Map([["en", ENGLISH]]);

/** Uses this catalogue from now on. */
export const use = (next) => {
  catalog = next;
};

/** The catalogue of a language, by `load(path)`. */
export async function translated(language, load) {
  if (!loaded.has(language)) loaded.set(language, await load(`words-${language}.json`));
  return loaded.get(language);
}

/** Uses a language for the page. */
export async function speak(language, load) {
  use(await translated(language, load));
  document.documentElement.lang = catalog.language;
  document.documentElement.dir = catalog.direction;
}

/** The first of the survey's languages that this person's browser prefers. */
export function preferred(languages, wanted = navigator.languages) {
  const primary = (tag) => tag.toLowerCase().split("-")[0];
  for (const tag of wanted) {
    const found = languages.find((x) => x.toLowerCase() === tag.toLowerCase()) ?? languages.find((x) => primary(x) === primary(tag));
    if (found) return found;
  }
  return languages[0];
}

/** A language's own name. */
export const nameOf = (language) => new Intl.DisplayNames([language], { type: "language" }).of(language);

export const pageLanguage = () => catalog.language;

/** A number as this language writes it. */
export const number = (value, options) => new Intl.NumberFormat(catalog.language, { numberingSystem: "latn", useGrouping: "always", ...options }).format(value);

/** A day such as 2001-12-31 as this language writes it. */
export const date = (day) => new Intl.DateTimeFormat(catalog.language, { dateStyle: "medium", timeZone: "UTC", numberingSystem: "latn" }).format(new Date(day));

/** A message in the page's language. Values are numbers, texts or elements; with an element, the result is a fragment. */
export const t = (text, values) => filled(catalog.messages[text]?.[0] ?? text, values);

/** A message with a number of things, {count}. */
export function n(one, many, count, values) {
  const forms = catalog.messages[one];
  const form = (rules) => new Intl.PluralRules(rules).select(count);
  const text = forms ? (forms[catalog.plurals[form(catalog.language)]] ?? forms.at(-1)) : form("en") === "one" ? one : many;
  return filled(text, { count, ...values });
}

function filled(text, values = {}) {
  const parts = text.split(/\{(\w+)\}/).map((part, i) => (i % 2 ? shown(values[part]) : part));
  if (parts.every((part) => typeof part === "string")) return parts.join("");
  const fragment = document.createDocumentFragment();
  fragment.append(...parts);
  return fragment;
}

// a message may contain a value twice, an element only once
const shown = (value) => (typeof value === "number" ? number(value) : typeof value === "string" ? value : value.cloneNode(true));

/** The character between a number's whole part and its decimals, and the one between groups of digits. */
function separators() {
  const parts = new Intl.NumberFormat(catalog.language, { numberingSystem: "latn", useGrouping: "always" }).formatToParts(12345.6);
  const of = (type) => parts.find((part) => part.type === type)?.value;
  return [of("decimal"), of("group")];
}

// the first digits of Arabic and Persian numbers
const ZEROS = [0x660, 0x6f0];

/** The number that a person typed, with a decimal comma or point and with digits of any script of the catalogues; NaN if it is none. */
export function typedNumber(typed) {
  const [decimal, group] = separators();
  const plain = typed
    // wide ones; a whole normalization would read 5² as 52
    .replace(/[\uff0b-\uff19]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .replace(/[\u0660-\u0669\u06f0-\u06f9]/g, (digit) => ZEROS.map((zero) => digit.charCodeAt(0) - zero).find((x) => x >= 0 && x < 10))
    .replace(/\u066b/g, ".")
    .replace(/[\s\u066c'’\u200e\u200f\u061c]/g, "")
    .replace("−", "-");
  // "1.234" has a thousand where points separate groups, but "0.234" has none
  const thousands = group === "." || group === "," ? new RegExp(`^-?[1-9]\\d{0,2}(\\${group}\\d{3})+(\\${decimal}\\d+)?$`) : null;
  const ungrouped = thousands?.test(plain) ? plain.replaceAll(group, "") : plain;
  const value = /^-?(\d+([.,]\d*)?|[.,]\d+)$/.test(ungrouped) ? Number(ungrouped.replace(",", ".")) : NaN;
  // hundreds of digits are no number, either
  return Number.isFinite(value) ? value : NaN;
}
