// "How your answers are protected": the reader's own question as an example, a trial, the promise, and the numbers.

import { n, number, t } from "./catalog.js";
import { button, element } from "./elements.js";
import { choicesOf } from "./fields.js";
import { draw } from "./optrr.js";
import { askedAbout, categoriesOf, chancesOf, flipOf, listsOf, membersOf, numberOf } from "./question.js";
import { quoted, spoken } from "./texts.js";
import { changeText, epsilonText, example, heldText, outOf100, promise, spentText } from "./words.js";

export const sharedText = () =>
  t("This browser keeps the randomized result, not your answers. Other people who use this browser can see that result, and they cannot answer this survey here.");

/** The notice; `spent` is the privacy budget of this browser's surveys, with this one; null on a device that many people use. */
export function protection({ deployment, wording, texts, asked, spent, trial }) {
  const epsilon = Number(deployment.epsilon.total);
  const more = spent && spentText(spent);
  return element(
    "section",
    { class: "notice", "aria-labelledby": "protection" },
    element("h2", { id: "protection" }, t("How your answers are protected")),
    element("p", {}, summary(deployment, asked)),
    (asked === undefined ? changed : held)({ deployment, wording, texts, asked }),
    trialOf({ deployment, wording, texts, asked, trial }),
    element("p", { class: "promise" }, promise(epsilon)),
    element("p", {}, example(epsilon)),
    more && element("p", {}, more),
    numbers({ deployment, texts, asked, isShared: spent === null }),
  );
}

/** What is asked and sent, in short. */
function summary(deployment, asked) {
  const changed = t("Your device changes some of your answers by chance, and sends only the result. Nobody can tell for certain which answers were changed.");
  if (asked === undefined) return changed;
  const { questions } = deployment;
  const count = askedAbout(deployment, asked).length;
  const all = new Set(questions.flatMap(({ attributes }) => attributes)).size;
  const chosen = count < all && n("You are asked {count} of the {all} questions of this survey. Chance has picked it.", "You are asked {count} of the {all} questions of this survey. Chance has picked them.", count, { all });
  const isOne = listsOf(deployment, asked).every(({ named }) => named === 1);
  const sent = isOne ? changed : t("Your device sends a few possible answers. Chance decides whether your own is among them. Nobody can tell for certain whether it is.");
  return [chosen, sent].filter((text) => text).join(" ");
}

function sample(texts, about, text) {
  const titles = about.flatMap((attribute) => [element("strong", spoken(texts.question(attribute)), texts.question(attribute).text), element("br")]);
  return element("p", { class: "example" }, ...titles, text);
}

function changed({ deployment, wording, texts }) {
  const [attribute] = deployment.attributes;
  const [first, other] = choicesOf(attribute, wording).map((code) => quoted(texts.answer(attribute, code)));
  return sample(texts, [attribute], changeText(flipOf(deployment, 0), first, attribute.categories.length === 2 && other));
}

function held({ deployment, wording, texts, asked }) {
  const [{ match }] = chancesOf(deployment, asked);
  const [{ about, named, from }] = listsOf(deployment, asked);
  // an answer that a person can choose
  const own = about.reduce((number, attribute) => number * attribute.categories.length + choicesOf(attribute, wording)[0], 0);
  const answer = inWords(texts, about, own);
  return sample(texts, about, named === 1 ? changeText(1 - match, answer, from === 2 && inWords(texts, about, 1 - own)) : heldText(match, answer));
}

/** The answers that a number of a list means, in words. */
export function inWords(texts, about, number) {
  const said = categoriesOf(about, number).map((category, i) => texts.answer(about[i], about[i].categories.indexOf(category)));
  return said.length === 1 ? quoted(said[0]) : element("bdi", {}, ...said.flatMap((each, i) => [i ? " · " : "", quoted(each)]));
}

/** What would be recorded of a made-up answer, drawn as the report is, as often as the reader likes; `trial` outlives a language switch. */
function trialOf({ deployment, wording, texts, asked, trial }) {
  const attributes = askedAbout(deployment, asked);
  const [about] = asked === undefined ? [[attributes[0]]] : listsOf(deployment, asked).map((list) => list.about);
  const outcome = element("div", { role: "status" });
  const selects = about.map((attribute, i) => {
    const select = element("select", { id: `trial-${i}` });
    for (const code of choicesOf(attribute, wording)) {
      const said = texts.answer(attribute, code);
      select.append(element("option", { value: code, selected: trial.codes?.[i] === code, ...spoken(said) }, said.text));
    }
    select.addEventListener("change", () => {
      trial.tally = new Map();
      report();
    });
    return select;
  });
  const codes = () => selects.map((select) => Number(select.value));
  const draws = () => {
    trial.codes = codes();
    const answers = Object.fromEntries(attributes.map(({ name, categories }) => [name, categories[0]]));
    for (const [i, { name, categories }] of about.entries()) answers[name] = categories[trial.codes[i]];
    const drawn = draw(deployment, answers, asked);
    const numbers = drawn.values ? [about[0].categories.indexOf(drawn.values[0])] : membersOf(deployment, drawn)[0];
    const isOwn = numbers.includes(numberOf(about, answers));
    trial.last = numbers;
    const key = drawn.values ? numbers[0] : isOwn;
    trial.tally.set(key, (trial.tally.get(key) ?? 0) + 1);
    report();
  };
  const report = () => {
    const tries = [...trial.tally.values()].reduce((sum, x) => sum + x, 0);
    if (tries === 0) return outcome.replaceChildren();
    const word = (code) => inWords(texts, about, code);
    const lines =
      asked === undefined
        ? [t("This time, “{answer}” would be recorded.", { answer: word(trial.last[0]) }), element("ul", {}, ...[...trial.tally].map(([code, times]) => element("li", {}, word(code), `: ${number(times)}`)))]
        : [
            element("p", {}, t("This time, your device would send:")),
            element("ul", {}, ...trial.last.slice(0, MOST_TRIED).map((code) => element("li", {}, word(code)))),
            n("The made-up answer was among them {count} time.", "The made-up answer was among them {count} times.", trial.tally.get(true) ?? 0),
          ];
    outcome.replaceChildren(...lines, element("p", { class: "quiet" }, n("{count} try so far", "{count} tries so far", tries)));
  };
  trial.tally ??= new Map();
  report();
  const labels = about.map((attribute, i) => {
    const said = texts.question(attribute);
    const own = about.length > 1 && element("span", spoken(said), `: ${said.text}`);
    return [element("label", { for: `trial-${i}` }, t("A made-up answer"), own || null), selects[i]];
  });
  return element(
    "div",
    { class: "trial" },
    element("p", { class: "quiet" }, t("Try it with a made-up answer. This is a trial: nothing is sent or stored.")),
    ...labels.flat(),
    button(t("Try it"), draws),
    outcome,
  );
}

// Maximum number of answers that a trial shows.
const MOST_TRIED = 8;

function numbers({ deployment, texts, asked, isShared }) {
  const program = element("a", { href: "optrr.js" }, t("a small program"));
  const file = element("a", { href: "sampler.json" }, t("a file of probabilities"));
  const digest = element("code", { dir: "ltr" }, deployment.design);
  return element(
    "details",
    {},
    element("summary", {}, t("The numbers, and how to check them")),
    element("p", {}, t("The promise holds for all that you send, no matter who sees it and what else they know. Experts call this differential privacy with ε = {epsilon}.", { epsilon: epsilonText(deployment.epsilon.total) })),
    element("p", {}, t("If you answer again on another device, or take part in other surveys, more can be learned about you.")),
    element("ul", {}, ...(asked === undefined ? changes(deployment, texts) : matches(deployment, texts, asked))),
    element("p", {}, isShared ? t("Many people answer on this device. The next person sees nothing of yours.") : sharedText()),
    element("p", {}, t("All of this happens in {program} and {file}, which anyone can read. The file belongs to the design {digest}.", { program, file, digest })),
  );
}

const row = (texts, about, text) => element("li", {}, ...sample(texts, about, text).childNodes);

/** How often each answer is replaced. */
const changes = (deployment, texts) =>
  deployment.attributes.map((attribute, i) => row(texts, [attribute], t("Of 100 people, {changed} are recorded with another answer than their own.", { changed: outOf100(flipOf(deployment, i)) })));

/** How often the answers that are sent include the person's own. */
function matches(deployment, texts, asked) {
  const chances = chancesOf(deployment, asked);
  return listsOf(deployment, asked).map(({ about, named, from }, i) => {
    const numbers = { named, from, match: outOf100(chances[i].match), blind: outOf100(chances[i].blind) };
    return row(texts, about, t("Your device sends {named} of {from} possible answers. For {match} of 100 people, their own is among them. If the device did not look at their answer, it would be for {blind}.", numbers));
  });
}
