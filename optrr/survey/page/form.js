// The form: the privacy notice, the questions, and the consent.

import { element } from "./elements.js";
import { askedAbout, chancesOf, listsOf } from "./question.js";
import { changeText, epsilonText, example, listText, promise, spentText, togetherText } from "./words.js";

// Maximum number of categories shown as radio buttons; more become a drop-down list.
const MOST_RADIOS = 8;

/** A category in words, so that no radio button is without a label. */
export const label = (category) => {
  if (category === null) return "No answer";
  return category.trim() === "" ? "(empty)" : category;
};

/** A question's text. An attribute may have the name of an object property: `constructor`, `__proto__`. */
export const questionOf = ({ name }, { questions = {} }) => (Object.hasOwn(questions, name) ? questions[name] : name);

/**
 * The form as an element, with all questions or the question `asked`. `spent` is the privacy budget of this browser's surveys, with this one: see memory.js. `submitted` gets the answers by
 * attribute once every question has one and consent is given, and resolves to an error message or null. The form has no
 * address to be sent to, and nothing else ever reads it.
 */
export function surveyForm({ deployment, wording, asked, spent, submitted }) {
  const questions = questionsFor(askedAbout(deployment, asked), wording);
  const consent = consentFor();
  const mistakes = element("div", { id: "mistakes", role: "alert", tabIndex: -1 });
  const failure = element("p", { class: "mistake", role: "alert" });
  const press = element("button", { type: "submit", class: "main" }, "Randomize my answers and send the result");
  const form = element(
    "form",
    { autocomplete: "off", noValidate: true, method: "dialog" },
    protection(deployment, wording, asked, spent),
    mistakes,
    ...questions.map((question) => question.block),
    consent.block,
    element("p", { class: "quiet" }, isChosen(deployment) ? CHOSEN : "Nothing is sent or stored before you press the button."),
    failure,
    press,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const open = [...questions, consent].filter((field) => field.mark());
    show(mistakes, open);
    if (open.length > 0) return;
    press.disabled = true;
    failure.replaceChildren();
    const problem = await submitted(Object.fromEntries(questions.flatMap((question) => question.answers())));
    press.disabled = false;
    if (problem) failure.replaceChildren(problem);
    else form.reset();
  });
  // a page cached for the back button must not show the answers to the next person
  addEventListener("pagehide", () => form.reset());
  return form;
}

const CHOSEN = "Only the random choice named above is stored before you press the button. Nothing is sent before that.";

/** Whether this person's question was drawn at random. */
const isChosen = ({ questions = [] }) => questions.length > 1;

const REPLACED =
  "Your answers are changed here, in your browser: by chance, some of them are replaced by others. Only the result is sent, " +
  "and you will see it. Your true answers are not sent and not kept.";

/** The notice for a person who is asked one question of several. */
function listed(deployment, asked) {
  const { questions } = deployment;
  const lists = listsOf(deployment, asked);
  const count = askedAbout(deployment, asked).length;
  const all = new Set(questions.flatMap((question) => question.attributes)).size;
  const remembered = "was drawn by chance. The choice says nothing about you, and this browser remembers it. ";
  const ways = isChosen(deployment) ? `Which of the ${questions.length} kinds of lists you get ${remembered}` : "";
  const chosen = count < all ? `You are asked ${count} of the ${all} questions of this survey. Which ${count === 1 ? "one" : "ones"} ${remembered}` : ways;
  const of = lists.length === count ? `some of the possible answers to ${count === 1 ? "the" : "each"} question` : "some of the combinations of answers to these questions";
  const [these, are, them] = lists.length > 1 ? ["these lists", "are", "them"] : ["this list", "is", "it"];
  const sent = isChosen(deployment) ? `${these} and the number of your question are` : `${these} ${are}`;
  return (
    `${chosen}Your answers are not sent. Instead, your browser draws a list of ${of}. Chance decides whether your answers are listed; ` + `the numbers below say how often they are. Only ${sent} sent, and you will see ${them}. ` +
    "Your true answers are not kept." );
}

function protection(deployment, wording, asked, spent) {
  const answered = spentText((count) => `With this one, you will have answered ${count} surveys at this address from this browser.`, spent);
  const epsilon = Number(deployment.epsilon.total);
  return element(
    "section",
    { class: "notice", "aria-labelledby": "protection" },
    element("h2", { id: "protection" }, "How your answers are protected"),
    element("p", { class: "promise" }, promise(epsilon)),
    element("p", {}, example(epsilon)),
    answered && element("p", {}, answered),
    element("p", {}, asked === undefined ? REPLACED : listed(deployment, asked)),
    numbers(deployment, wording, asked, epsilon),
  );
}

/** How often each answer is replaced, as elements of a list. */
function changes(deployment, wording) {
  return deployment.attributes.map((attribute, i) => {
    const others = attribute.categories.length - 1;
    const flip = others / (others + Math.exp(Number(deployment.epsilon.attributes[i])));
    return explained([attribute], wording, changeText(flip));
  });
}

/** How often each list holds the person's answer, and all lists together. */
function matches(deployment, wording, asked) {
  const { lists, together } = chancesOf(deployment, asked);
  const each = listsOf(deployment, asked).map(({ about, named, from }, i) =>
    explained(about, wording, listText({ named, from, ...lists[i], combinations: about.length > 1 })),
  );
  const { likely } = deployment.questions[asked - 1];
  if (lists.length === 1) return each;
  return [...each, element("li", {}, element("strong", {}, "All lists together"), element("br"), togetherText({ likely, lists: lists.length, ...together }))];
}

function explained(about, wording, text) {
  const names = about.flatMap((attribute) => [element("strong", { lang: wording.language }, questionOf(attribute, wording)), element("br")]);
  return element("li", {}, ...names, text);
}

function numbers(deployment, wording, asked, epsilon) {
  const rows = asked === undefined ? changes(deployment, wording) : matches(deployment, wording, asked);
  return element(
    "details",
    {},
    element("summary", {}, "The numbers, and how to check them"),
    element(
      "p",
      {},
      `The promise holds for the whole report, no matter who sees it and what else they know. Its ε is ${epsilonText(deployment.epsilon.total)}. ` +
        "You answer once in this browser. If you send more reports, from elsewhere or for other surveys, more can be learned: " + "their factors multiply.",
    ),
    element("ol", {}, ...rows),
    element(
      "p",
      {},
      "Everything that happens here is in ",
      element("a", { href: "optrr.js" }, "a small program"),
      " and ",
      element("a", { href: "sampler.json" }, "a file of probabilities"),
      " that anyone can read. The file belongs to the design with the digest ",
      element("code", {}, deployment.design),
      ".",
    ),
  );
}

/** A question for each attribute, and one for all options of a column with several answers. */
function questionsFor(attributes, wording) {
  const { options = {} } = wording;
  const columns = new Map();
  for (const attribute of attributes) {
    const column = Object.hasOwn(options, attribute.name) ? options[attribute.name][0] : attribute;
    columns.set(column, [...(columns.get(column) ?? []), attribute]);
  }
  return [...columns].map(([column, members], i) => (typeof column === "string" ? boxesFor(column, members, i, wording) : questionFor(column, i, wording)));
}

/** Check boxes: an option that is not ticked means no, whichever category is declared first. */
function boxesFor(column, attributes, i, wording) {
  const { language: lang, options, questions = {} } = wording;
  const inputs = attributes.map((_, k) => element("input", { type: "checkbox", id: `q-${i}-${k}` }));
  const text = (attribute) => (Object.hasOwn(questions, attribute.name) ? questionOf(attribute, wording) : label(options[attribute.name][1]));
  const rows = inputs.map((input, k) => element("label", { class: "option", lang }, input, element("span", {}, text(attributes[k]))));
  const block = element("fieldset", {}, element("legend", { lang }, column), element("p", { class: "quiet" }, "Tick all that apply."), ...rows);
  return { block, mark: () => false, answers: () => attributes.map(({ name }, k) => [name, inputs[k].checked ? "yes" : "no"]) };
}

function questionFor(attribute, i, wording) {
  const { name, categories } = attribute;
  const text = questionOf(attribute, wording);
  const lang = wording.language;
  const few = categories.length <= MOST_RADIOS;
  const field = few ? radios(categories, i, lang) : choices(categories, i, lang);
  const mistake = element("p", { class: "mistake", id: `mistake-${i}`, hidden: true }, "Please choose an answer.");
  const block = few
    ? element("fieldset", {}, element("legend", { lang }, text), mistake, ...field.rows)
    : element("div", { class: "field" }, element("label", { for: `q-${i}`, lang }, text), mistake, ...field.rows);
  const mark = () => marked(field.chosen() === undefined, few ? block : field.first, mistake);
  return { text, lang, block, mark, first: field.first, answers: () => [[name, categories[field.chosen()]]] };
}

function radios(categories, i, lang) {
  const inputs = categories.map((_, code) => element("input", { type: "radio", name: `q-${i}`, id: `q-${i}-${code}`, required: true }));
  const rows = inputs.map((input, code) =>
    element("label", { class: "option", lang }, input, element("span", {}, label(categories[code]))),
  );
  const chosen = () => (inputs.some((x) => x.checked) ? inputs.findIndex((x) => x.checked) : undefined);
  return { rows, chosen, first: inputs[0] };
}

function choices(categories, i, lang) {
  const options = categories.map((category, code) => element("option", { value: code, lang }, label(category)));
  const select = element("select", { id: `q-${i}`, required: true }, element("option", { value: "" }, "Choose …"), ...options);
  return { rows: [select], chosen: () => (select.value === "" ? undefined : Number(select.value)), first: select };
}

function consentFor() {
  const box = element("input", { type: "checkbox", id: "consent", required: true });
  const mistake = element("p", { class: "mistake", id: "mistake-consent", hidden: true }, "Without your consent nothing is sent.");
  const text = "I have read how my answers are protected. I want to send my randomized answers.";
  const row = element("label", { class: "option" }, box, element("span", {}, text));
  const block = element("div", { class: "field" }, mistake, row);
  return { text: "Your consent", block, first: box, mark: () => marked(!box.checked, box, mistake) };
}

/** Shows or hides the mistake of a field; returns whether there is one. */
function marked(wrong, described, mistake) {
  mistake.hidden = !wrong;
  for (const [name, value] of [["aria-describedby", mistake.id], ["aria-invalid", "true"]]) {
    // a group of radio buttons has no state of being invalid
    if (name === "aria-invalid" && described.localName === "fieldset") continue;
    if (wrong) described.setAttribute(name, value);
    else described.removeAttribute(name);
  }
  return wrong;
}

function show(mistakes, open) {
  if (open.length === 0) return mistakes.replaceChildren();
  const count = open.length === 1 ? "One answer is missing" : `${open.length} answers are missing`;
  const links = open.map(({ text, lang, first }) => {
    const go = (event) => {
      event.preventDefault();
      first.focus();
    };
    return element("li", {}, element("a", { href: `#${first.id}`, onclick: go, lang }, text));
  });
  mistakes.replaceChildren(element("h2", {}, count), element("ul", {}, ...links));
  mistakes.focus();
}
