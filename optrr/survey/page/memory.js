// What this browser remembers: the report that was made for this survey, and what all surveys at this address cost.
//
// A survey is a design and a wording. Surveys that ask different questions may have the same design, so each has an entry of its
// own, and its report says which questions it answers.

import { browserStore } from "./browser-store.js";
import { answerOnce, ledger } from "./optrr.js";

/** This browser has an entry for this survey that cannot be one: what was sent is not known. */
export class Unreadable extends Error {}

const isHex = (text, digits) => typeof text === "string" && text.length === digits && !/[^0-9a-f]/.test(text);
const hasCost = (entry) => typeof entry?.epsilon === "string" && /^(0|[1-9]\d*)\.\d{15}$/.test(entry.epsilon);

export function memoryOf(deployment, wording) {
  const { design, attributes } = deployment;
  if (!isHex(wording.digest, 64)) throw new Error("The server does not say which questions these are");
  const key = `${design} ${wording.digest}`;
  const browser = browserStore();

  const isEntry = (entry) => {
    const { format, design: of, wording: asked, id, values } = entry?.report ?? {};
    const isOurs = format === "optrr-report/1" && of === design && asked === wording.digest && isHex(id, 32);
    const isRecord = Array.isArray(values) && values.length === attributes.length;
    return hasCost(entry) && isOurs && isRecord && values.every((value, i) => attributes[i].categories.includes(value));
  };
  const update = (change) =>
    browser.update(key, (kept, all) => {
      if (kept !== undefined && !isEntry(kept)) throw new Unreadable("what this browser kept of this survey cannot be read");
      return change(kept, all);
    });
  /** The client's store, in which this survey's entry stands under its design and its report names its wording. */
  const named = (entry) => ({ ...entry, report: { ...entry.report, wording: wording.digest } });
  const store = { update: (_, change) => update((kept, all) => kept ?? named(change(kept, all))) };

  return {
    /** The entry of this survey, or undefined. */
    entry: () => update((kept) => kept),
    /** The entry of this survey, drawn now where there was none. */
    answer: (answers) => answerOnce(deployment, answers, store),
    /** Puts an entry back where the browser's data were deleted meanwhile; returns the one that is there. */
    keep: (entry) => update((kept) => kept ?? entry),
    /** Remembers that the collector has this entry's report. */
    delivered: (entry) =>
      update((kept) => (kept === undefined || kept.report.id === entry.report.id ? { ...entry, delivered: true } : kept)),
    /** The ledger of all entries that can be read, with these further ones, and how many cannot be read. */
    spent: async (...further) => {
      const all = [...(await browser.all()), ...further];
      const readable = all.filter(hasCost);
      return { ...(await ledger({ all: async () => readable })), unreadable: all.length - readable.length };
    },
  };
}
