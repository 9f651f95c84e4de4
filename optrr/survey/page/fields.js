// One question on the page. Everything that is entered goes to `entered`, in memory only, so that a language switch and Back keep it.

import { t, typedNumber } from "./catalog.js";
import { element } from "./elements.js";
import { binOf } from "./path.js";
import { at, spoken } from "./texts.js";
import { rangeText } from "./words.js";

// Maximum number of answers shown as radio buttons; more become a drop-down list.
const MOST_RADIOS = 8;

/** Shows or hides the mistake of a field. */
export function mark(field, mistake, text) {
  mistake.textContent = text ?? "";
  mistake.hidden = !text;
  for (const [name, value] of [["aria-describedby", mistake.id], ["aria-invalid", "true"]]) {
    if (text) field.setAttribute(name, value);
    else field.removeAttribute(name);
  }
}

/** Codes of the categories that a person can choose. */
export const choicesOf = ({ name, categories }, wording) =>
  [...categories.keys()].filter((code) => !(at(wording.branches, name) && categories[code] === at(wording.branches, name).otherwise));

/**
 * The question about these attributes: an element, its heading, and `check`, which marks a mistake and gives its field the focus.
 * `place` makes the ids unique.
 */
export function questionField({ members, wording, texts, entered, place }) {
  const [attribute] = members;
  const mistake = element("p", { class: "mistake", id: "mistake", hidden: true });
  if (at(wording.boxes, attribute.name)) return boxes({ members, wording, texts, entered, place, mistake });
  const given = { attribute, choices: choicesOf(attribute, wording), texts, entered, place, mistake };
  if (at(wording.numbers, attribute.name)) return numberField({ ...given, bins: wording.numbers[attribute.name] });
  return given.choices.length <= MOST_RADIOS ? radios(given) : dropDown(given);
}

function group({ said, hint, mistake, rows, role = null }) {
  const heading = element("h2", { tabIndex: -1, id: "question", ...spoken(said) }, said.text);
  const block = element("fieldset", { role }, element("legend", {}, heading), hint, mistake, ...rows);
  return { block, heading };
}

/** Check boxes: an option that is not ticked means no, whichever category is declared first. */
function boxes({ members, wording, texts, entered, place, mistake }) {
  const rows = members.map((attribute, k) => {
    if (!entered.has(attribute.name)) entered.set(attribute.name, false);
    const input = element("input", { type: "checkbox", id: `${place}-${k}`, checked: entered.get(attribute.name) });
    input.addEventListener("change", () => entered.set(attribute.name, input.checked));
    return option(input, texts.option(attribute));
  });
  const said = texts.column(at(wording.boxes, members[0].name)[0]);
  return { ...group({ said, hint: element("p", { class: "quiet" }, t("Tick all that apply.")), mistake, rows }), check: () => true };
}

const option = (input, said) => element("label", { class: "option" }, input, element("span", spoken(said), said.text));

function radios({ attribute, choices, texts, entered, place, mistake }) {
  const inputs = choices.map((code) => {
    const input = element("input", { type: "radio", name: place, id: `${place}-${code}`, checked: entered.get(attribute.name) === code });
    input.addEventListener("change", () => entered.set(attribute.name, code));
    return input;
  });
  const rows = inputs.map((input, k) => option(input, texts.answer(attribute, choices[k])));
  const field = group({ said: texts.question(attribute), mistake, rows, role: "radiogroup" });
  return { ...field, check: checking(field.block, inputs[0], mistake, () => (entered.has(attribute.name) ? null : t("Please choose an answer."))) };
}

function checking(field, first, mistake, problem) {
  return () => {
    const text = problem();
    mark(field, mistake, text);
    if (text) first.focus();
    return !text;
  };
}

function labelled({ attribute, texts, place, mistake, hint, input }) {
  const said = texts.question(attribute);
  const heading = element("h2", { tabIndex: -1, id: "question" }, element("label", { for: place, ...spoken(said) }, said.text));
  return { heading, block: element("div", { class: "field" }, heading, hint, mistake, ...input) };
}

function dropDown({ attribute, choices, texts, entered, place, mistake }) {
  const chosen = entered.get(attribute.name);
  const options = choices.map((code) => {
    const said = texts.answer(attribute, code);
    return element("option", { value: code, selected: code === chosen, ...spoken(said) }, said.text);
  });
  const select = element("select", { id: place }, element("option", { value: "" }, t("Choose …")), ...options);
  select.addEventListener("change", () => (select.value === "" ? entered.delete(attribute.name) : entered.set(attribute.name, Number(select.value))));
  const field = labelled({ attribute, texts, place, mistake, input: [select] });
  return { ...field, check: checking(select, select, mistake, () => (entered.has(attribute.name) ? null : t("Please choose an answer."))) };
}

/** A number, of which only the bin is used; the categories after the bins have boxes of their own. */
function numberField({ attribute, choices, bins, texts, entered, place, mistake }) {
  const typed = entered.get(attribute.name);
  const input = element("input", { type: "text", inputMode: "decimal", id: place, value: typeof typed === "string" ? typed : "", autocomplete: "off" });
  // some browsers send what is typed to be checked
  input.spellcheck = false;
  const others = choices.filter((code) => code >= bins.edges.length - 1);
  const ticks = others.map((code) => element("input", { type: "checkbox", id: `${place}-${code}`, checked: typed === code }));
  input.addEventListener("input", () => {
    for (const tick of ticks) tick.checked = false;
    if (input.value.trim() === "") entered.delete(attribute.name);
    else entered.set(attribute.name, input.value);
  });
  ticks.forEach((tick, k) =>
    tick.addEventListener("change", () => {
      input.value = "";
      for (const other of ticks) other.checked &&= other === tick;
      if (tick.checked) entered.set(attribute.name, others[k]);
      else entered.delete(attribute.name);
    }),
  );
  const problem = () => {
    const value = entered.get(attribute.name);
    if (typeof value === "number") return null;
    if (Number.isNaN(typedNumber(value ?? ""))) return t("Please enter a number.");
    if (binOf(bins, typedNumber(value)) !== undefined) return null;
    return t("Please enter a number in this range: {range}.", { range: rangeText(bins.edges[0], bins.edges.at(-1), bins.closed) });
  };
  const hint = element("p", { class: "quiet" }, t("Your device turns the number into a range, such as “{range}”. The number itself is not used.", { range: texts.answer(attribute, 0).text }));
  const rows = others.map((code, k) => option(ticks[k], texts.answer(attribute, code)));
  const field = labelled({ attribute, texts, place, mistake, hint, input: [input, ...rows] });
  return { ...field, check: checking(input, input, mistake, problem) };
}
