// What a question's parts mean: texts in several languages, answers, tables, and the field that an error is about.

// Language of a survey that states none.
export const MAIN = "en";
const ANY_COMMA = /[,\n]/;
// Tables that are listed with a margin each; nobody fills in more.
const MOST_TABLES = 200;

const byLanguage = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A text, or a list of them, in a language; undefined where there is none. */
export function textIn(value, language, main) {
  if (byLanguage(value)) return value[language];
  return language === main ? value : undefined;
}

/** The value with another text in a language; plain where the main language is the only one. */
export function withText(value, language, main, text) {
  const all = byLanguage(value) ? { ...value } : value === undefined ? {} : { [main]: value };
  if (text === undefined) delete all[language];
  else all[language] = text;
  const languages = Object.keys(all);
  if (languages.length === 0) return undefined;
  return languages.length === 1 && languages[0] === main ? all[main] : all;
}

/** The answers that are offered, without the missing value and the mark of a question that is not asked. */
export function answersOf({ categories, size, ask_if: when, not_asked: mark = askedIf.NOT_ASKED }) {
  const all = categories ?? Array.from({ length: size ?? 0 }, (_, k) => k);
  return all.filter((each) => each !== null && !(when && each === mark));
}

/** The place of the mark of a question that is not asked among the categories; -1 where everybody is asked. */
export function markAt({ categories = [], ask_if: when, not_asked: mark = askedIf.NOT_ASKED }) {
  return when ? categories.indexOf(mark) : -1;
}

/** The answers of an attribute as the form shows them; bins stay unchanged. */
export function entries(answers, { categories, size, bins }) {
  if (categories === undefined) return size === undefined ? `bins: ${(bins ?? []).join(", ")}` : String(size);
  const texts = answers.map(String);
  return texts.join(texts.some((text) => ANY_COMMA.test(text)) ? "\n" : ", ");
}

/** Labels in every language, each list changed by `change(list, language)`. */
export function mapLabels(labels, main, change) {
  if (labels === undefined) return undefined;
  if (!byLanguage(labels)) return change([...labels], main);
  return Object.fromEntries(Object.entries(labels).map(([language, list]) => [language, change([...list], language)]));
}

/** Labels of other answers: those of answers that stay, and the new answers themselves; undefined if none stays. */
export function relabelled(attribute, answers, main) {
  const old = (attribute.categories ?? answersOf(attribute)).map(String);
  if (!answersOf(attribute).some((each) => answers.map(String).includes(String(each)))) return undefined;
  const change = (list) => [...answers.map((each) => list[old.indexOf(String(each))] ?? String(each)), ...(attribute.missing === true ? list.slice(old.length) : [])];
  return mapLabels(attribute.labels, main, change);
}

/** An attribute that is asked on a condition, or of everybody without one. */
export function askedIf(attribute, when) {
  const { ask_if: _, not_asked: mark = askedIf.NOT_ASKED, size, categories, labels, ...rest } = attribute;
  const answers = answersOf(attribute);
  const at = markAt(attribute);
  if (!when === at < 0) return when ? { ...attribute, ask_if: when } : attribute;
  const changed = mapLabels(labels, MAIN, (list) => (when ? list.toSpliced(answers.length, 0, mark) : list.toSpliced(at, 1)));
  const made = { ...rest, categories: when ? [...answers.map((each) => (size === undefined ? each : String(each))), mark] : answers };
  if (changed !== undefined) made.labels = changed;
  return when ? { ...made, ask_if: when, ...(mark === askedIf.NOT_ASKED ? {} : { not_asked: mark }) } : made;
}
askedIf.NOT_ASKED = "not asked";

/** The tables that are estimated, as lists of names. */
export function tablesOf({ attributes, learn = "marginals" }) {
  const names = attributes.map(({ name }) => name);
  if (Array.isArray(learn)) return learn;
  const tables = learn === "pairs" ? names.flatMap((one, k) => names.slice(k + 1).map((other) => [one, other])) : names.map((name) => [name]);
  return tables.slice(0, MOST_TABLES);
}

/** Whether two tables have the same attributes. */
export function isRow(one, other) {
  return one.length === other.length && one.every((name) => other.includes(name));
}

export const tableName = (table) => table.join(" × ");

// The keys of an attribute that have a field of their own.
const FIELDS = { question: "question", labels: "labels", ask_if: "parent", not_asked: "parent", missing: "missing", name: "name" };
const KEYS = /^(total|n|releases|margin|prior|title|asker|introduction|thanks|language)\b(?! of)/;

/** The id of the field that an error of the program is about; null if it is about none. */
export function fieldOf(error, question) {
  const own = /^margin of (.+?) = /.exec(error);
  if (own) {
    const k = tablesOf(question).findIndex((table) => tableName(table) === own[1]);
    return k < 0 ? "margin" : `margin-${k}`;
  }
  const key = KEYS.exec(error)?.[1];
  if (key) return key === "prior" ? "prior-slider" : key;
  const number = /^attribute (\d+)\b/.exec(error);
  const k = number ? Number(number[1]) - 1 : question.attributes.findLastIndex(({ name }) => error.includes(`'${name}'`) || error.includes(`"${name}"`));
  if (k < 0 || k >= question.attributes.length) return /^(``workload``|table )/.test(error) ? "table-0" : null;
  const part = Object.keys(FIELDS).find((each) => new RegExp(`\\b${each}\\b`).test(error.replaceAll(`${question.attributes[k].name}`, "")));
  const named = /name|twice|duplicate/.test(error) && !part ? "name" : part;
  return `${named ? FIELDS[named] : "categories"}-${k}`;
}
