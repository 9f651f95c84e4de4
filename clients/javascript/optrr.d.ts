/** A category as a deployment file writes it; null stands for "missing". */
export type Category = string | null;

/** One category for each attribute's name. */
export type Answers = Readonly<Record<string, Category | number | boolean>>;

/** An answer to the question of a file of questions: its number, from 1, and the members of each subset, as `0 2|1`. */
export interface Answer {
  readonly table: number;
  readonly cells: string;
}

/** A deployment file that was checked. `layers` or `questions` is the client's own form of it: hand the object on as it is. */
export interface Deployment {
  readonly format: "optrr-deployment/1";
  readonly software: string;
  /** Digest of the design that the file belongs to: what "once" is counted by. */
  readonly design: string;
  readonly digest: string;
  readonly attributes: readonly { readonly name: string; readonly categories: readonly Category[] }[];
  readonly bits: number;
  /**
   * Nats, as decimal text with 15 places, rounded up. `total` and `conditional` are upper bounds in a file with choices or
   * second thresholds. `readDeployment` checks that the total is not too small; `attributes` and `conditional` are as stated,
   * and not in a file of questions.
   */
  readonly epsilon: {
    readonly total: string;
    readonly attributes?: readonly string[];
    readonly conditional?: readonly string[];
  };
  readonly layers?: readonly object[];
  readonly ends?: readonly string[];
  readonly questions?: readonly object[];
}

/** What is sent, and all that is sent: beside these three, what `draw` returns. */
export type Report = Sent & (Randomized | Answer);

/** The randomized record: one category for each attribute, in the file's order. */
export interface Randomized {
  readonly values: readonly Category[];
}

export interface Sent {
  readonly format: "optrr-report/1";
  readonly design: string;
  /** 128 random bits as 32 hexadecimal digits: a report that arrives twice is counted once. */
  readonly id: string;
}

/** What is remembered of a design. A store may be asked to keep more beside it. */
export interface Entry {
  readonly report: Report;
  /** Total ε of the design in nats, as decimal text with 15 places. */
  readonly epsilon: string;
}

/** Where entries are kept by the digest of their design. */
export interface Store {
  /**
   * Replaces the entry under `key` by what `change` makes of it (undefined: there was none) and of all entries, and returns
   * the new one.
   *
   * Nothing else, in no other tab or process, may read or write between the reading and the writing, and the promise
   * resolves only when the entry is written for good: a second draw is a second release.
   */
  update<E extends Entry | undefined>(key: string, change: (kept: Entry | undefined, all: Entry[]) => E): Promise<E>;
  /** All entries. */
  all(): Promise<Entry[]>;
}

/** What a client must refuse. The message names what does not fit and holds no answer. */
export class Refused extends Error {}

/** Checks the bytes of a deployment file. Throws Refused for everything that docs/deployment-format.md, §5, tells to refuse. */
export function readDeployment(bytes: ArrayBuffer | ArrayBufferView): Promise<Deployment>;

/**
 * Draws which question of a file of questions a person is asked: its number, from 1. Whoever asks about this question alone
 * keeps the number before it is shown, and hands it to `answerOnce` or `draw`; drawn again, people could choose their question.
 */
export function ask(deployment: Deployment): number;

/** The attributes that a question is about, in its order. Throws Refused for a number that is none. */
export function attributesOf(deployment: Deployment, asked: number): Deployment["attributes"];

/**
 * One draw of either kind of file, as `randomize`: `values`, or `table` and `cells`. Where the question was drawn by `ask`,
 * `answers` are to its attributes alone.
 */
export function draw(deployment: Deployment, answers: Answers, asked?: number): Randomized | Answer;

/**
 * One draw, with the bytes of `crypto.getRandomValues`: the randomized record, in the file's order. A file of questions has
 * none: use `draw`.
 *
 * Every draw that is shown to anybody spends ε again. Use `answerOnce`, unless you remember the record yourself.
 * Throws Refused where an answer is missing, undeclared or for an attribute that is not in the file.
 */
export function randomize(deployment: Deployment, answers: Answers): Category[];

/**
 * The entry that the store has for this design, whatever the answers are now; where there is none, a draw, which is
 * stored before it is returned (`isNew`). The answers are not kept.
 *
 * `limit` is the most, in nats, that all designs in the store may cost together. A design that would bring the sum above it
 * is refused before anything is drawn; what was sent before can be sent again whatever the limit is. A limit that is not a
 * number from 0 to 1e20 is refused, too. `asked` is as in `draw`.
 */
export function answerOnce(
  deployment: Deployment,
  answers: Answers,
  store: Store,
  limit?: number,
  asked?: number,
): Promise<Entry & { isNew: boolean }>;

/** Every design that was answered, and the sum of their ε in nats, added as decimals. */
export function ledger(store: Store): Promise<{ entries: Entry[]; epsilon: string }>;
