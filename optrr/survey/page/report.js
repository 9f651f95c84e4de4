// The view of a report: the record that was sent next to the answers that were entered.

import { button, element, newHeading } from "./elements.js";
import { label, questionOf } from "./form.js";
import { categoriesOf, listsOf, membersOf, numberOf } from "./question.js";
import { spentText } from "./words.js";

const HEADINGS = {
  sending: "Your report is being sent",
  sent: "Your report was sent",
  waiting: "Your report has not been sent yet",
  refused: "Your report was refused",
  unkept: "Your report was not sent",
};

const NEXT = {
  sending: "",
  sent: "Thank you. It has arrived.",
  waiting:
    "This browser keeps it. Send it again in a while, or come back to this page later. The same report will be sent; no new one is drawn.",
  refused: "This browser keeps it, and no new one is drawn. Please tell the people who asked you.",
  unkept: "This browser could not store it. It is sent only if it is stored, so that you are not asked twice. Please allow this page to store data, and send it again.",
};

/**
 * The view of a report. `answers` are the entered answers, or null if they are forgotten; `outcome` is {state, reason}.
 *
 * `again` sends the same report again, `forget` shows the report without the entered answers.
 */
export function reportView({ deployment, wording, entry, answers, outcome, spent, note, again, forget }) {
  return element(
    "section",
    { "aria-labelledby": "outcome" },
    Object.assign(newHeading(HEADINGS[outcome.state]), { id: "outcome" }),
    outcome.reason ? element("p", { class: "mistake" }, outcome.reason) : null,
    NEXT[outcome.state] ? element("p", {}, NEXT[outcome.state]) : null,
    note ? element("p", { class: "notice" }, note) : null,
    outcome.state === "sending" ? null : button("Send the same report again", again, ["waiting", "unkept"].includes(outcome.state) ? "main" : "plain"),
    element("h3", {}, answers ? "Your answers and the report" : "The report"),
    element("ol", { class: "cards" }, ...(entry.report.values ? replaced : listed)(deployment, wording, entry.report, answers)),
    answers
      ? element("p", {}, "Your true answers are only on this screen. They were not sent or stored, and are gone when you leave the page.")
      : element("p", {}, "Your true answers were not stored, so this page cannot tell which of these are yours."),
    answers ? button("Clear my true answers from the screen", forget) : null,
    element(
      "details",
      {},
      element("summary", {}, "The exact report"),
      element("pre", { tabIndex: 0, role: "region", "aria-label": "The report as it is sent" }, JSON.stringify(entry.report, null, 1)),
    ),
    spending(spent),
  );
}

/** The entered and the sent answer to each question. */
function replaced(deployment, wording, { values }, answers) {
  const lang = wording.language;
  return deployment.attributes.map((attribute, i) => {
    const own = answers?.[attribute.name];
    const says = element("div", {}, element("dt", {}, "The report says"), element("dd", { lang }, label(values[i])));
    const entered = answers && element("div", {}, element("dt", {}, "You entered"), element("dd", { lang }, label(own)));
    const kind = own === values[i] ? "same" : "replaced";
    const verdict = answers && element("p", { class: `verdict ${kind}` }, kind === "same" ? "The same." : "Replaced by chance.");
    return element("li", {}, element("h4", { lang }, questionOf(attribute, wording)), element("dl", {}, entered, says), verdict);
  });
}

// Maximum length of a list on the screen.
const MOST_LISTED = 40;

/** Each sent list, and whether it holds the entered answer. */
function listed(deployment, wording, report, answers) {
  const [lang, members] = [wording.language, membersOf(deployment, report)];
  return listsOf(deployment, report.table).map(({ about }, i) => {
    const own = answers && numberOf(about, answers);
    const inWords = (number) => categoriesOf(about, number).map(label).join(" · ");
    const shown = members[i].slice(0, MOST_LISTED).map((number) => element("li", { lang }, inWords(number)));
    const more = members[i].length - shown.length;
    const rest = more > 0 && element("li", {}, `and ${more} more, under “The exact report” below`);
    const says = element("div", {}, element("dt", {}, "The report lists"), element("dd", {}, element("ul", {}, ...shown, rest || null)));
    const entered = answers && element("div", {}, element("dt", {}, "You entered"), element("dd", { lang }, inWords(own)));
    const isListed = members[i].includes(own);
    const verdict = answers && element("p", { class: `verdict ${isListed ? "same" : "replaced"}` }, isListed ? "Your answer is listed." : "Your answer is not listed.");
    const titles = about.map((attribute) => element("h4", { lang }, questionOf(attribute, wording)));
    return element("li", {}, ...titles, element("dl", {}, entered, says), verdict);
  });
}

function spending(spent) {
  const answered = spentText((count) => `From this browser you have answered ${count} surveys at this address.`, spent);
  return answered && element("p", { class: "quiet" }, answered);
}
