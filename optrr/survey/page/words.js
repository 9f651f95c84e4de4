// The page's sentences with numbers. Pure functions of numbers and texts, which can be tested without a page.

// The meaning of ε in words, as in optrr/core/display/text.py.
const SENTENCES = {
  promise: "Whatever you answer, what you send is at most {factor} times as likely with your answers as with any other answers.",
  nothing: "Suppose someone thinks that two sets of answers are equally likely to be yours. After seeing what you send, they know no more than before.",
  percent:
    "Suppose someone thinks that two sets of answers are equally likely to be yours. After seeing what you send, they can be at most {percent} percent sure of one of them.",
  certain:
    "Suppose someone thinks that two sets of answers are equally likely to be yours. After seeing what you send, they can be almost certain of one of them. That protects you very little.",
  changed: "In about {changed} of 100 reports this answer is replaced by another one.",
  hardly: "In fewer than 1 of 100 reports this answer is replaced by another one.",
  always: "In nearly all reports this answer is replaced by another one.",
};

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// An ε below LONGEST's logarithm was rounded to a double, which moves its exponential by up to 14 · 2^-53, and Math.exp may be off
// by a unit in the last place: a factor is never understated.
const OUTWARD = 1 + 2 ** -48;

// From here a factor is written as a power of ten.
const LONGEST = 1e6;

/** e^ε with three digits, rounded up, so that the privacy loss is never understated. */
export function factorText(epsilon) {
  if (epsilon <= 0) return "1";
  const factor = Math.exp(epsilon) * OUTWARD;
  return factor < LONGEST ? plain(factor) : power(epsilon);
}

/** The largest chance after a report if it was 50 % before, in percent, rounded up: 100 e^ε/(1 + e^ε). */
export function percentAtBest(epsilon) {
  return Math.min(100, Math.ceil((100 * OUTWARD) / (1 + Math.exp(-epsilon))));
}

/** The promise that the respondent reads before anything is drawn. */
export function promise(epsilon) {
  return SENTENCES.promise.replace("{factor}", factorText(epsilon));
}

/** The promise as an example with percentages. */
export function example(epsilon) {
  const percent = percentAtBest(epsilon);
  if (epsilon <= 0) return SENTENCES.nothing;
  return percent < 100 ? SENTENCES.percent.replace("{percent}", percent) : SENTENCES.certain;
}

/** The total privacy budget of a browser's surveys: `surveys` is a sentence with their number, `epsilon` their sum as decimal text. */
export function together(surveys, epsilon) {
  const factor = factorText(Number(epsilon));
  return `${surveys} Taken together (ε ${epsilonText(epsilon)}), what you sent is at most ${factor} times as likely with your answers as with any other answers. That holds even for someone who sees all of them.`;
}

/** A sentence about the surveys of this browser, or null if there is no other one; `surveys` turns their number into a sentence. */
export function spentText(surveys, { entries, epsilon, unreadable }) {
  const known = entries.length > 1 ? together(surveys(entries.length), epsilon) : "";
  const lost = unreadable === 1 ? "One further entry" : `${unreadable} further entries`;
  const unknown = unreadable > 0 ? `${lost} in this browser cannot be read and not counted.` : "";
  return [known, unknown].filter((text) => text).join(" ") || null;
}

/** How often an answer is replaced, as a whole number of 100 reports. */
export function changeText(flip) {
  const changed = Math.round(100 * flip);
  if (changed === 0) return SENTENCES.hardly;
  if (changed === 100) return SENTENCES.always;
  return SENTENCES.changed.replace("{changed}", changed);
}

/** A proportion of reports, as a whole number of 100. */
export function reportsText(share) {
  const reports = Math.round(100 * share);
  if (reports === 0) return "fewer than 1 of 100 reports";
  return reports === 100 ? "nearly all reports" : `about ${reports} of 100 reports`;
}

/** How often a list of answers, or of `combinations` of answers, holds the person's own. */
export function listText({ named, from, match, blind, combinations }) {
  const what = combinations ? "combinations of answers" : "answers";
  return `The list holds ${named} of ${from} ${what}. In ${reportsText(match)} it holds yours. A list drawn without a look at your answers would hold yours in ${reportsText(blind)}.`;
}

/** How often the set of lists that hold the person's answers is one that the file calls likely. */
export function togetherText({ likely, lists, match, blind }) {
  return `In ${reportsText(match)}, ${likelyText(likely, lists)}. For lists drawn without a look at your answers, this would happen in ${reportsText(blind)}.`;
}

// Maximum number of patterns that are listed one by one.
const MOST_PATTERNS = 4;

function likelyText(likely, lists) {
  if (likely.length > MOST_PATTERNS) return `the lists that hold your answers are one of ${likely.length} choices (of ${2 ** lists}) that the file calls likely`;
  const each = likely.map((pattern) => {
    const holding = Array.from({ length: lists }, (_, i) => i + 1).filter((number) => (pattern >> (number - 1)) & 1);
    if (holding.length === 0) return "no list holds your answer";
    if (holding.length === lists) return `${lists === 2 ? "both" : "all"} lists hold your answers`;
    return holding.length === 1 ? `only list ${holding[0]} holds your answer` : `only the lists ${holding.join(", ")} hold your answers`;
  });
  return each.length === 1 ? each[0] : `one of these is true: ${each.join("; ")}`;
}

/** An ε with three decimals, rounded up, from its decimal text with 15 places. */
export function epsilonText(text) {
  const thousandths = (BigInt(text.replace(".", "")) + 10n ** 12n - 1n) / 10n ** 12n;
  const digits = String(thousandths).padStart(4, "0");
  return `${digits.slice(0, -3)}.${digits.slice(-3)}`;
}

function plain(value) {
  const magnitude = Math.floor(Math.log10(value));
  const up =
    magnitude < 2
      ? Math.ceil(value * 10 ** (2 - magnitude)) / 10 ** (2 - magnitude)
      : Math.ceil(value / 10 ** (magnitude - 2)) * 10 ** (magnitude - 2);
  return up.toLocaleString("en", { maximumFractionDigits: 2 });
}

function power(epsilon) {
  const log = epsilon / Math.LN10;
  let exponent = Math.floor(log);
  // far more than the digits that the logarithm lost
  let lead = Math.ceil(10 ** (log - exponent) * (1 + 1e-9) * 10) / 10;
  if (lead >= 10) [lead, exponent] = [lead / 10, exponent + 1];
  const raised = [...String(exponent)].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
  return `${lead} × 10${raised}`;
}
