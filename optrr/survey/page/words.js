// The page's sentences with numbers. Functions of numbers and texts, which can be tested without a page.

import { n, number, t } from "./catalog.js";

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// An ε below LONGEST's logarithm was rounded to a double, which moves its exponential by up to 14 · 2^-53, and Math.exp may be off
// by a unit in the last place: a factor is never understated.
const OUTWARD = 1 + 2 ** -48;

// From here a factor is written as a power of ten.
const LONGEST = 1e6;

/** e^ε with three digits, rounded up, so that the privacy loss is never understated. */
export function factorText(epsilon) {
  if (epsilon <= 0) return number(1);
  const factor = Math.exp(epsilon) * OUTWARD;
  return factor < LONGEST ? plain(factor) : power(epsilon);
}

/** The largest chance after a report if it was 50 % before, in percent, rounded up: 100 e^ε/(1 + e^ε). */
export function percentAtBest(epsilon) {
  return Math.min(100, Math.ceil((100 * OUTWARD) / (1 + Math.exp(-epsilon))));
}

/** The promise that the respondent reads before anything is drawn, as in optrr/core/display/text.py. */
export function promise(epsilon) {
  return t("Whatever you answer, what you send is at most {factor} times as likely with your answers as with any other answers.", { factor: factorText(epsilon) });
}

/** The promise as an example with percentages. */
export function example(epsilon) {
  const percent = percentAtBest(epsilon);
  if (epsilon <= 0) return t("Suppose someone has two guesses about your answers and finds both equally likely. After seeing what you send, they know no more than before.");
  if (percent === 100)
    return t("Suppose someone has two guesses about your answers and finds both equally likely. After seeing what you send, they can be almost certain of one of them. That protects you very little.");
  return t("Suppose someone has two guesses about your answers and finds both equally likely. After seeing what you send, they can be at most {percent} percent sure of one of them.", { percent });
}

/** A sentence about the surveys of this browser, with this one, or null if there is no other one. */
export function spentText({ entries, epsilon, unreadable }) {
  const factor = factorText(Number(epsilon));
  const known =
    entries.length > 1 &&
    n(
      "You take part in {count} survey at this address in this browser. Each one reveals a little, and this adds up: taken together, what you send is at most {factor} times as likely with your answers as with any other answers.",
      "You take part in {count} surveys at this address in this browser. Each one reveals a little, and this adds up: taken together, what you send is at most {factor} times as likely with your answers as with any other answers.",
      entries.length,
      { factor },
    );
  const unknown =
    unreadable > 0 && n("{count} more report in this browser cannot be read and is not counted.", "{count} more reports in this browser cannot be read and are not counted.", unreadable);
  return [known, unknown].filter((text) => text).join(" ") || null;
}

/** A proportion as a number of 100 people. */
export function outOf100(share) {
  const people = Math.round(100 * share);
  if (people === 0) return t("fewer than 1");
  return people === 100 ? t("nearly all") : number(people);
}

/** How often an answer is recorded as another one; `other` is the only other answer, if there is one. */
export function changeText(flip, answer, other) {
  const changed = outOf100(flip);
  if (other) return t("Of 100 people who would answer “{answer}”, {changed} are recorded as “{other}”.", { answer, changed, other });
  return t("Of 100 people who would answer “{answer}”, {changed} are recorded with another answer.", { answer, changed });
}

/** How often a person's answer is among those that are sent. */
export function heldText(match, answer) {
  return t("Of 100 people who would answer “{answer}”, {held} send answers that include it.", { answer, held: outOf100(match) });
}

// From this factor between a person's and everybody else's chance of a report, an answer is hardly protected (95 to 5).
const REVEALING = 20;

/** A proportion as a number of 100 people, or of 1,000 and so on, so that it is no fraction of a person. */
function outOf(share) {
  const people = [100, 1000, 10_000, 100_000].find((x) => share * x >= 2.5) ?? 1e6;
  return { people, changed: Math.round(share * people) || t("fewer than 1") };
}

/** What the recorded answer reveals: `answer` is its text, `sizes` the number of answers, `other` the only other one, if there is one. */
export function verdictText({ isSame, flip, sizes, answer, other }) {
  if (!isSame) return t("Changed by chance. This happens to {changed} of {people} people who answer like you.", outOf(flip));
  const alike = flip / (sizes - 1);
  const values = { ...outOf(alike), answer };
  if (1 - flip >= REVEALING * alike) return t("Recorded as you answered. Of {people} people with any other answer, only {changed} are recorded as “{answer}” as well. That protects this answer very little.", values);
  if (other) return t("Recorded as you answered. Nobody else can tell: of {people} people who would answer “{other}”, {changed} are recorded as “{answer}” as well.", { ...values, other });
  return t("Recorded as you answered. Nobody else can tell: of {people} people with any other answer, {changed} are recorded as “{answer}” as well.", values);
}

/** What the answers that were sent reveal: `match` is the chance that they include the own one of `from`. */
export function listVerdictText({ isHeld, match, named, from }) {
  if (!isHeld) return t("Your answer is not among them. This happens to {changed} of {people} people who answer like you.", outOf(1 - match));
  const alike = (named - match) / (from - 1);
  if (match >= REVEALING * alike) return t("Your answer is among them. Of {people} people with any other answer, only {changed} send it as well. That protects this answer very little.", outOf(alike));
  return t("Your answer is among them. Nobody else can tell: of {people} people with any other answer, {changed} send it as well.", outOf(alike));
}

/** The range of a bin of numbers, whose edges are null where it has no end. */
export function rangeText(least, most, closed) {
  const isLeft = closed !== "right";
  if (least === null) return isLeft ? t("below {most}", { most }) : t("up to {most}", { most });
  if (most === null) return isLeft ? t("{least} or more", { least }) : t("more than {least}", { least });
  return isLeft ? t("from {least} to below {most}", { least, most }) : t("more than {least}, up to {most}", { least, most });
}

/** An ε with three decimals, rounded up, from its decimal text with 15 places. */
export function epsilonText(text) {
  const thousandths = (BigInt(text.replace(".", "")) + 10n ** 12n - 1n) / 10n ** 12n;
  return number(Number(thousandths) / 1000, { minimumFractionDigits: 3 });
}

function plain(value) {
  const magnitude = Math.floor(Math.log10(value));
  const up =
    magnitude < 2
      ? Math.ceil(value * 10 ** (2 - magnitude)) / 10 ** (2 - magnitude)
      : Math.ceil(value / 10 ** (magnitude - 2)) * 10 ** (magnitude - 2);
  return number(up, { maximumFractionDigits: 2 });
}

function power(epsilon) {
  const log = epsilon / Math.LN10;
  let exponent = Math.floor(log);
  // far more than the digits that the logarithm lost
  let lead = Math.ceil(10 ** (log - exponent) * (1 + 1e-9) * 10) / 10;
  if (lead >= 10) [lead, exponent] = [lead / 10, exponent + 1];
  const raised = [...String(exponent)].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
  return `${number(lead)} × 10${raised}`;
}
