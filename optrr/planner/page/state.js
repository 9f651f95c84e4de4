// The state of the page: one object {question, reason}, its history, the address's fragment, and its file.

const MOST_STEPS = 200;

/** The states for undo and redo; every state is JSON. */
export class History {
  #past = [];
  #future = [];

  constructor(state) {
    this.now = JSON.stringify(state);
  }

  /** Adds a state as the newest; false if nothing changed. */
  push(state) {
    const text = JSON.stringify(state);
    if (text === this.now) return false;
    this.#past.push(this.now);
    if (this.#past.length > MOST_STEPS) this.#past.shift();
    [this.now, this.#future] = [text, []];
    return true;
  }

  undo() {
    return this.#step(this.#past, this.#future);
  }

  redo() {
    return this.#step(this.#future, this.#past);
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }

  #step(from, to) {
    if (from.length > 0) {
      to.push(this.now);
      this.now = from.pop();
    }
    return JSON.parse(this.now);
  }
}

/** A state from a file or an address; throws if it is not one. The program checks the content of the question. */
export function stateFrom(text) {
  const given = JSON.parse(text);
  const question = given?.question ?? given;
  if (typeof question !== "object" || question === null || !Array.isArray(question.attributes) || !question.attributes.every((a) => typeof a === "object" && a !== null && typeof a.name === "string"))
    throw new Error("it has no question with attributes");
  return { question, reason: typeof given.reason === "string" ? given.reason : "" };
}

/** The state as a fragment of an address, and back; null without a fragment. */
export function toFragment(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return `#plan=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

export function fromFragment(fragment) {
  if (!fragment.startsWith("#plan=")) return null;
  const binary = atob(fragment.slice(6).replaceAll("-", "+").replaceAll("_", "/"));
  return stateFrom(new TextDecoder().decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0))));
}

/** Hands the state to the person as a file. */
export function download(state) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${JSON.stringify(state, null, 1)}\n`], { type: "application/json" }));
  link.download = "plan.json";
  link.click();
  URL.revokeObjectURL(link.href);
}
