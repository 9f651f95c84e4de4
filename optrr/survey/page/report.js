// What the person sees of a report: the record that was sent beside the one that was entered.

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
  sent: "Thank you. The collector has it.",
  waiting:
    "It is kept in this browser. Send it again in a while, or come back to this page later: it will be the same report, nothing is drawn anew.",
  refused: "It is kept in this browser, and nothing is drawn anew. Please tell those who asked you.",
  unkept: "This browser did not keep it, and what it does not keep is not sent: you could be asked twice. Please let this page store data and send it again.",
};

/**
 * The view of a report. `answers` are what was entered, or null where that is forgotten; `outcome` is {state, reason}.
 *
 * `again` sends the same report again, `forget` shows the report without what was entered.
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
    element("h3", {}, answers ? "What you entered and what the report says" : "What the report says"),
    element("ol", { class: "cards" }, ...(entry.report.values ? replaced : listed)(deployment, wording, entry.report, answers)),
    answers
      ? element("p", {}, "What you entered is only on this screen. It was not sent or stored, and is gone when you leave the page.")
      : element("p", {}, "What you entered was not stored: this page cannot tell any more which of these answers are yours."),
    answers ? button("Clear what I entered from the screen", forget) : null,
    element(
      "details",
      {},
      element("summary", {}, "Exactly what is sent"),
      element("pre", { tabIndex: 0, role: "region", "aria-label": "The report as it is sent" }, JSON.stringify(entry.report, null, 1)),
    ),
    spending(spent),
  );
}

/** Each answer that was entered, and the one that was sent. */
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

// Longer lists are not shown to their end.
const MOST_LISTED = 40;

/** Each list that was sent, and whether it holds what was entered. */
function listed(deployment, wording, report, answers) {
  const [lang, members] = [wording.language, membersOf(deployment, report)];
  return listsOf(deployment, report.table).map(({ about }, i) => {
    const own = answers && numberOf(about, answers);
    const inWords = (number) => categoriesOf(about, number).map(label).join(" · ");
    const shown = members[i].slice(0, MOST_LISTED).map((number) => element("li", { lang }, inWords(number)));
    const more = members[i].length - shown.length;
    const rest = more > 0 && element("li", {}, `and ${more} more, in “Exactly what is sent” below`);
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
