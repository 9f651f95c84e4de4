// This browser's memory: the report for this survey, and the privacy budget of all surveys at this address.
//
// A survey is a design and a wording. Surveys with different questions may share a design, so each has a separate entry, and
// its report names the wording. On a shared device (kiosk), only reports that wait to be sent are kept.

import { browserStore } from "./browser-store.js";
import { answerOnce, ask, draw, ledger } from "./optrr.js";
import { membersOf } from "./question.js";

/** This browser's data for this survey is invalid: the report, or the question, is unknown. */
export class Unreadable extends Error {}

const isHex = (text, digits) => typeof text === "string" && text.length === digits && !/[^0-9a-f]/.test(text);
const hasCost = (entry) => typeof entry?.epsilon === "string" && /^(0|[1-9]\d*)\.\d{15}$/.test(entry.epsilon);

/** A report's identifier: 128 random bits. */
export const newIdentifier = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (x) => x.toString(16).padStart(2, "0")).join("");

export function memoryOf(deployment, wording) {
  const { design, attributes, questions } = deployment;
  const key = `${design} ${wording.digest}`;
  const browser = browserStore();
  // the drawn questions before they are answered; they do not belong in a ledger of reports
  const drawn = browserStore("optrr-asked");
  // permissions to send a report, which personal links give
  const permits = browserStore("optrr-permits");
  // tells the other windows of this browser that there is a report, or that it arrived
  const windows = new BroadcastChannel("optrr");

  const isEntry = (entry) => {
    const { format, design: of, wording: asked, id, values } = entry?.report ?? {};
    const isOurs = format === "optrr-report/1" && of === design && asked === wording.digest && isHex(id, 32);
    if (!hasCost(entry) || !isOurs) return false;
    if (questions) return membersOf(deployment, entry.report) !== null;
    const isRecord = Array.isArray(values) && values.length === attributes.length;
    return isRecord && values.every((value, i) => attributes[i].categories.includes(value));
  };
  const update = (change) =>
    browser.update(key, (kept, all) => {
      if (kept !== undefined && !isEntry(kept)) throw new Unreadable("this browser's data for this survey cannot be read");
      return change(kept, all);
    });
  const announced = (entry) => {
    windows.postMessage(key);
    return entry;
  };

  return {
    /** The entry of this survey, or undefined. */
    entry: () => update((kept) => kept),
    /** The number of this person's question, drawn now if missing; undefined if everybody is asked everything. */
    asked: async () => {
      if (!questions || questions.length === 1) return questions && 1;
      const asked = await drawn.update(key, (kept) => kept ?? ask(deployment));
      if (!Number.isInteger(asked) || !questions[asked - 1]) throw new Unreadable("this browser's data for this survey cannot be read");
      return asked;
    },
    /** This person's permit to send a report, or what `change` makes of it. */
    permit: (change = (kept) => kept) => permits.update(key, change),
    /** The entry of this survey, drawn now if missing; answers are to the question `asked`, if there is one. */
    answer: (answers, asked, permit) => {
      // the report names its wording, and has the identifier that its permit was given for
      const named = ({ report, ...entry }) => ({ ...entry, report: { ...report, ...(permit && { id: permit.id }), wording: wording.digest, ...(permit && { invitation: permit.invitation }) } });
      const store = { update: (_, change) => update((kept, all) => kept ?? named(change(kept, all))) };
      return answerOnce(deployment, answers, store, undefined, asked).then(announced);
    },
    /** Restores an entry if the browser's data were deleted meanwhile; returns the stored one. */
    keep: (entry) => update((kept) => kept ?? entry),
    /** Remembers that the collector has this entry's report. */
    delivered: (entry) =>
      update((kept) => (kept === undefined || kept.report.id === entry.report.id ? { ...entry, delivered: true } : kept)).then(announced),
    /** Calls `changed` if another window of this browser has answered this survey or sent its report. */
    watch: (changed) => {
      windows.onmessage = ({ data }) => data === key && changed();
    },
    /** The ledger of all readable entries, with these further ones, and the number of unreadable ones. */
    spent: async (...further) => {
      const all = [...(await browser.all()), ...further];
      const readable = all.filter(hasCost);
      return { ...(await ledger({ all: async () => readable })), unreadable: all.length - readable.length };
    },
  };
}

/** The memory of a device that many people use: reports, as long as they wait to be sent. */
export function outboxOf(deployment, wording) {
  const reports = browserStore("optrr-outbox");
  const { design, questions } = deployment;
  return {
    // other surveys at this address have the same outbox
    waiting: async () => (await reports.all()).filter((report) => report?.design === design && report.wording === wording.digest),
    asked: () => questions && ask(deployment),
    /** A person's report, which is stored before it is sent. */
    answer: (answers, asked) => {
      const report = { format: "optrr-report/1", design, id: newIdentifier(), ...draw(deployment, answers, asked), wording: wording.digest };
      return reports.update(report.id, () => report);
    },
    delivered: ({ id }) => reports.remove(id),
  };
}
