// The views after sending: thanks, and the record that was sent next to the answers that were entered.

import { n, t } from "./catalog.js";
import { button, element, newHeading } from "./elements.js";
import { inWords, sharedText } from "./protection.js";
import { chancesOf, flipOf, listsOf, membersOf, numberOf } from "./question.js";
import { reasonText } from "./sending.js";
import { quoted, spoken } from "./texts.js";
import { listVerdictText, spentText, verdictText } from "./words.js";

const headings = () => ({
  sending: t("Your report is being sent"),
  sent: t("Thank you. Your report was sent."),
  waiting: t("Your report has not been sent yet"),
  refused: t("Your report was refused"),
  unkept: t("Your report was not sent"),
});

const nextSteps = () => ({
  sent: t("You can close this page."),
  waiting: t("This browser keeps the report and sends it as soon as it can: while this page is open, or when you come back. No new one is drawn."),
  refused: t("This browser keeps the report, and no new one is drawn. Please tell the people who asked you."),
  unkept: t("This browser could not store the report. It is sent only if it is stored, so that nobody answers twice. Please allow this page to store data, and send it again."),
});

function outcomeOf({ outcome, texts, next }) {
  const thanks = outcome.state === "sent" && texts.general("thanks");
  const isKnown = ["waiting", "refused"].includes(outcome.state);
  return [
    Object.assign(newHeading(headings()[outcome.state]), { id: "outcome" }),
    thanks && element("p", { class: "thanks", ...spoken(thanks) }, thanks.text),
    isKnown && element("p", { class: "mistake" }, reasonText(outcome)),
    next && element("p", {}, next),
  ];
}

/**
 * The view of a report. `answers` are the entered answers, or null if they are forgotten; `outcome` is that of sending.js.
 *
 * `again` sends the same report again, `forget` shows the report without the entered answers.
 */
export function reportView({ deployment, texts, entry, answers, outcome, spent, note, again, forget }) {
  const isOpen = !["sent", "sending"].includes(outcome.state);
  const more = spentText(spent);
  return element(
    "section",
    { "aria-labelledby": "outcome" },
    ...outcomeOf({ outcome, texts, next: nextSteps()[outcome.state] }),
    note && element("p", { class: "notice" }, note),
    isOpen && button(t("Send the same report again"), again, "main"),
    element("h3", {}, answers ? t("Your answers and the report") : t("The report")),
    answers && element("p", {}, t("Only you see your answers, here on this screen. They were not sent or stored, and are gone when you leave this page.")),
    answers && button(t("Clear my answers from the screen"), forget),
    recordView({ deployment, texts, report: entry.report, answers }),
    !answers && element("p", {}, t("Your answers were not stored, so this page cannot tell which of these are yours.")),
    element("p", {}, sharedText()),
    more && element("p", {}, more),
  );
}

/** The view on a device that many people use: nothing of the report, unless it is asked for. */
export function kioskView({ deployment, texts, report, answers, outcome, seconds, again, next }) {
  const isOpen = ["refused", "waiting"].includes(outcome.state);
  const kept = isOpen && t("This device keeps the randomized report and sends it later. You do not need to wait.");
  const show = button(t("Show what was recorded"), () => {
    const heading = element("h3", { tabIndex: -1 }, t("Your answers and the report"));
    show.replaceWith(heading, recordView({ deployment, texts, report, answers }));
    heading.focus();
  });
  return element(
    "section",
    { "aria-labelledby": "outcome" },
    ...outcomeOf({ outcome, texts, next: kept }),
    isOpen && button(t("Send the same report again"), again),
    element("p", {}, t("Your answers will be gone from this screen in {seconds} seconds.", { seconds })),
    button(t("Next person"), next, "main"),
    show,
  );
}

function recordView({ deployment, texts, report, answers }) {
  const view = element(
    "div",
    {},
    element("ol", { class: "cards" }, ...(report.values ? changed : listed)({ deployment, texts, report, answers })),
    element(
      "details",
      {},
      element("summary", {}, t("The exact report")),
      element("pre", { tabIndex: 0, role: "region", dir: "ltr", "aria-label": t("The report as it is sent") }, JSON.stringify(report, null, 1)),
    ),
  );
  // a browser that translates the page would send the answers to others
  view.translate = false;
  return view;
}

const line = (term, ...said) => element("div", {}, element("dt", {}, term), element("dd", {}, ...said));

function card({ texts, about, entered, sent, isSame, verdict }) {
  const titles = about.map((attribute) => element("h4", spoken(texts.question(attribute)), texts.question(attribute).text));
  return element("li", {}, ...titles, element("dl", {}, entered && line(t("You answered"), entered), sent), verdict && element("p", { class: `verdict ${isSame ? "same" : "replaced"}` }, verdict));
}

/** The entered and the recorded answer to each question. */
function changed({ deployment, texts, report, answers }) {
  return deployment.attributes.map((attribute, i) => {
    const { name, categories } = attribute;
    const word = (category) => quoted(texts.answer(attribute, categories.indexOf(category)));
    const recorded = report.values[i];
    const isSame = answers?.[name] === recorded;
    const other = categories.length === 2 && word(categories.find((x) => x !== recorded));
    const verdict = answers && verdictText({ isSame, flip: flipOf(deployment, i), sizes: categories.length, answer: word(recorded), other });
    return card({ texts, about: [attribute], entered: answers && word(answers[name]), sent: line(t("Recorded"), word(recorded)), isSame, verdict });
  });
}

// Maximum length of a list on the screen.
const MOST_LISTED = 40;

/** The answers that were sent to each question, and whether the entered one is among them. */
function listed({ deployment, texts, report, answers }) {
  const [members, chances] = [membersOf(deployment, report), chancesOf(deployment, report.table)];
  return listsOf(deployment, report.table).map(({ about, named, from }, i) => {
    const own = answers && numberOf(about, answers);
    const shown = members[i].slice(0, MOST_LISTED).map((number) => element("li", {}, inWords(texts, about, number)));
    const more = members[i].length - shown.length;
    const rest = more > 0 && element("li", {}, n("and {count} more, under “The exact report” below", "and {count} more, under “The exact report” below", more));
    const isHeld = members[i].includes(own);
    const verdict = answers && listVerdictText({ isHeld, match: chances[i].match, named, from });
    return card({ texts, about, entered: answers && inWords(texts, about, own), sent: line(t("Your device sent"), element("ul", {}, ...shown, rest)), isSame: isHeld, verdict });
  });
}
