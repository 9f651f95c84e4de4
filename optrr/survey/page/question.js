// The question that a person is asked in a survey with several, and the lists that answer it (deployment-format.md, §8).
// A question is about a few attributes and has a number from 1; it is undefined if everybody is asked everything.

import { attributesOf } from "./optrr.js";

/** The attributes of a person's question. */
export const askedAbout = (deployment, asked) => (asked === undefined ? deployment.attributes : attributesOf(deployment, asked));

/** Each list of a report: its attributes (one or all), and how many of how many answers, or combinations, it holds. */
export function listsOf(deployment, asked) {
  const { parts, subset_sizes } = deployment.questions[asked - 1];
  const attributes = attributesOf(deployment, asked);
  const groups = parts.length === attributes.length ? attributes.map((attribute) => [attribute]) : [attributes];
  return groups.map((about, i) => ({ about, named: subset_sizes[i], from: parts[i] }));
}

/** The numbers in each list of a report; null if the report does not fit this deployment. */
export function membersOf({ questions }, { table, cells }) {
  const question = Number.isInteger(table) ? questions[table - 1] : undefined;
  if (!question || typeof cells !== "string") return null;
  const lists = cells.split("|").map((text) => text.split(" ").map(Number));
  const written = lists.map((list) => list.join(" ")).join("|") === cells;
  const isList = (list, i) =>
    list.length === question.subset_sizes[i] && list.every((x, k) => Number.isInteger(x) && x > (list[k - 1] ?? -1) && x < question.parts[i]);
  return written && lists.length === question.parts.length && lists.every(isList) ? lists : null;
}

/** The number that a list has for these answers, by attribute; the last attribute's categories follow each other. */
export const numberOf = (about, answers) =>
  about.reduce((number, { name, categories }) => number * categories.length + categories.indexOf(answers[name]), 0);

/** The category of each attribute that a number of a list means. */
export const categoriesOf = (about, number) =>
  about.reduceRight(([rest, after], { categories: { length }, categories }) => [Math.floor(rest / length), [categories[rest % length], ...after]], [number, []])[1];

/** How often each list holds the person's answer, as they are in {match}; lists drawn without looking at the answers do in {blind}. */
export function chancesOf({ questions }, asked) {
  const { parts, subset_sizes, likely, threshold } = questions[asked - 1];
  const share = (list) => list.reduce((sum, x) => sum + x, 0);
  const blind = parts.reduce((list, r, i) => [1 - subset_sizes[i] / r, subset_sizes[i] / r].flatMap((x) => list.map((chance) => chance * x)), [1]);
  const unlikely = Number("0x" + threshold.slice(0, 13)) / 2 ** 52;
  const isLikely = blind.map((_, pattern) => likely.includes(pattern));
  const held = share(blind.filter((_, pattern) => isLikely[pattern]));
  const rest = share(blind.filter((_, pattern) => !isLikely[pattern]));
  const match = blind.map((chance, pattern) => (isLikely[pattern] ? (chance / held) * (1 - unlikely) : (chance / rest) * unlikely));
  const holding = (chances, i) => share(chances.filter((_, pattern) => (pattern >> i) & 1));
  return parts.map((_, i) => ({ match: holding(match, i), blind: holding(blind, i) }));
}

/** How often an attribute's answer is replaced by another one. */
export function flipOf({ attributes, epsilon }, i) {
  const others = attributes[i].categories.length - 1;
  return others / (others + Math.exp(Number(epsilon.attributes[i])));
}
