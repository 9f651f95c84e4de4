// What the page says in numbers. Pure functions of numbers and texts, so that they can be tested without a page.

// What an ε means, in words: optrr/core/display/sentences.json, which the server hands out as a module and reports read, too.
import { SENTENCES } from "./sentences.js";

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// An ε below LONGEST's logarithm was rounded to a double, which moves its exponential by up to 14 · 2^-53, and Math.exp may be off
// by a unit in the last place: a factor is never said to be smaller than it is.
const OUTWARD = 1 + 2 ** -48;

// From here a factor is written as a power of ten.
const LONGEST = 1e6;

/** e^ε with three digits, rounded up; what is read is never below what is spent. */
export function factorText(epsilon) {
  if (epsilon <= 0) return "1";
  const factor = Math.exp(epsilon) * OUTWARD;
  return factor < LONGEST ? plain(factor) : power(epsilon);
}

/** The odds after a report where they were even before, in percent, rounded up: 100 e^ε/(1 + e^ε). */
export function percentAtBest(epsilon) {
  return Math.min(100, Math.ceil((100 * OUTWARD) / (1 + Math.exp(-epsilon))));
}

/** The sentence that is read before anything is drawn. */
export function promise(epsilon) {
  return SENTENCES.promise.replace("{factor}", factorText(epsilon));
}

/** The same for a reader who does not think in odds. */
export function example(epsilon) {
  const percent = percentAtBest(epsilon);
  if (epsilon <= 0) return SENTENCES.before + SENTENCES.nothing;
  if (percent < 100) return SENTENCES.before + SENTENCES.percent.replace("{percent}", percent);
  return SENTENCES.before + SENTENCES.certain;
}

/** What a browser's surveys cost taken together: `surveys` says which, and `epsilon` is their sum as decimal text. */
export function together(surveys, epsilon) {
  const factor = factorText(Number(epsilon));
  return `${surveys} Taken together (ε ${epsilonText(epsilon)}), anyone who sees all reports can at best change their odds by a factor of ${factor}.`;
}

/** What is said of a browser's surveys, or null where there is no other one; `surveys` makes a sentence of how many they are. */
export function spentText(surveys, { entries, epsilon, unreadable }) {
  const known = entries.length > 1 ? together(surveys(entries.length), epsilon) : "";
  const lost = unreadable === 1 ? "One further entry" : `${unreadable} further entries`;
  const unknown = unreadable > 0 ? `${lost} of this browser cannot be read: what was sent for it is not counted here.` : "";
  return [known, unknown].filter((text) => text).join(" ") || null;
}

/** How often an answer is replaced, to the nearest whole number of 100 people. */
export function changeText(flip) {
  const changed = Math.round(100 * flip);
  if (changed === 0) return SENTENCES.hardly;
  if (changed === 100) return SENTENCES.always;
  return SENTENCES.changed.replace("{changed}", changed);
}

/** In how many reports something is so, to the nearest whole number of 100. */
export function reportsText(share) {
  const reports = Math.round(100 * share);
  if (reports === 0) return "fewer than 1 of 100 reports";
  return reports === 100 ? "nearly all reports" : `about ${reports} of 100 reports`;
}

/** How often a list that names some answers, or `combinations` of answers, holds the person's own. */
export function listText({ named, from, match, blind, combinations }) {
  const what = combinations ? "combinations of answers" : "answers";
  return `The list names ${named} of ${from} ${what}. In ${reportsText(match)} it holds yours; a list drawn without looking would in ${reportsText(blind)}.`;
}

/** How often the lists that hold the person's answers are as the file calls likely. */
export function togetherText({ likely, lists, match, blind }) {
  return `In ${reportsText(match)} ${likelyText(likely, lists)}. Of lists drawn without looking it would be so in ${reportsText(blind)}.`;
}

// More patterns than this are not read one by one.
const MOST_PATTERNS = 4;

function likelyText(likely, lists) {
  if (likely.length > MOST_PATTERNS) return `the lists that hold your answers are one of ${likely.length} choices, of ${2 ** lists}, that the file calls likely`;
  const each = likely.map((pattern) => {
    const holding = Array.from({ length: lists }, (_, i) => i + 1).filter((number) => (pattern >> (number - 1)) & 1);
    if (holding.length === 0) return "no list holds your answer";
    if (holding.length === lists) return `${lists === 2 ? "both" : "all"} lists hold your answers`;
    return holding.length === 1 ? `only list ${holding[0]} holds your answer` : `only the lists ${holding.join(", ")} hold your answers`;
  });
  return each.length === 1 ? each[0] : `one of these is so: ${each.join("; ")}`;
}

/** An ε from its decimal text with 15 places as people read it: three decimals, rounded up. */
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
