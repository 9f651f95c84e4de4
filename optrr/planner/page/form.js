// The form and the question: one shows the other. Numbers are looked up among those that the program gave, never computed.

const byId = (id) => document.getElementById(id);
const ANY_COMMA = /[,\n]/;
const WHOLE = /^\s*\d{1,7}\s*$/;

/** A slider over a list of numbers, from the least to the largest. */
class Slider {
  constructor(id) {
    this.input = byId(id);
    this.values = JSON.parse(this.input.dataset.values);
    [this.input.min, this.input.max, this.input.step] = [0, this.values.length - 1, 1];
  }

  get value() {
    return this.values[Number(this.input.value)];
  }

  /** Moves to the largest of its numbers that is at most `value`. */
  show(value) {
    const above = this.values.findIndex((each) => each > value);
    const step = above < 0 ? this.values.length - 1 : Math.max(above - 1, 0);
    this.input.value = step;
    this.input.setAttribute("aria-valuetext", String(value));
  }
}

export class Form {
  #state;
  #changed;

  /** Calls `changed(state, kept)` after every change; `kept` is true for a step that can be undone. */
  constructor(changed) {
    this.#changed = changed;
    this.total = new Slider("total-slider");
    this.people = new Slider("n-slider");
    this.prior = new Slider("prior-slider");
    this.#listen();
  }

  /** Shows a state, and changes it from now on. */
  show(state) {
    this.#state = state;
    this.#showTexts();
    this.#showNumbers();
    this.#showAttributes();
    this.#showTables();
  }

  /** Sets keys of the question; undefined removes one. */
  set(choices, kept = true) {
    for (const [key, value] of Object.entries(choices)) {
      if (value === undefined) delete this.#state.question[key];
      else this.#state.question[key] = value;
    }
    this.#showNumbers();
    this.#changed(this.#state, kept);
  }

  get question() {
    return this.#state.question;
  }

  #listen() {
    byId("form").addEventListener("submit", (event) => event.preventDefault());
    const numbers = { total: "total", n: "n", releases: "releases", margin: "margin" };
    for (const [id, key] of Object.entries(numbers)) {
      for (const kind of ["input", "change"])
        byId(id).addEventListener(kind, () => {
          const text = byId(id).value;
          // an empty field during typing is not an answer yet
          if (text === "" && key !== "margin") return kind === "change" && this.#showNumbers();
          this.set({ [key]: text === "" ? undefined : Number(text) }, kind === "change");
        });
    }
    for (const [slider, key] of [[this.total, "total"], [this.people, "n"], [this.prior, "prior"]])
      for (const kind of ["input", "change"]) slider.input.addEventListener(kind, () => this.set({ [key]: slider.value }, kind === "change"));
    byId("title").addEventListener("change", () => this.set({ title: byId("title").value.trim() || undefined }));
    byId("keep").addEventListener("change", () => this.set({ keep: byId("keep").checked ? "records" : undefined }));
    byId("reason").addEventListener("change", () => {
      this.#state.reason = byId("reason").value;
      this.#changed(this.#state, true);
    });
    for (const radio of document.querySelectorAll('input[name="learn"]')) radio.addEventListener("change", () => this.#learn(radio.value));
    byId("add-attribute").addEventListener("click", () => this.#addAttribute());
    byId("add-table").addEventListener("click", () => this.#addTable());
  }

  #showTexts() {
    byId("title").value = this.question.title ?? "";
    byId("reason").value = this.#state.reason;
    byId("keep").checked = this.question.keep === "records";
  }

  #showNumbers() {
    const { total = 1, n = 1000, prior = 0.1, releases = 1, margin = "" } = this.question;
    for (const [id, value] of Object.entries({ total, n, releases, margin }))
      if (document.activeElement !== byId(id) || Number(byId(id).value) !== value) byId(id).value = value;
    this.total.show(total);
    this.people.show(n);
    this.prior.show(prior);
    byId("prior-text").textContent = JSON.parse(this.prior.input.dataset.texts)[Number(this.prior.input.value)];
    this.prior.input.setAttribute("aria-valuetext", byId("prior-text").textContent);
  }

  #showAttributes() {
    byId("attributes").replaceChildren(...this.question.attributes.map((attribute, k) => this.#row(attribute, k)));
  }

  #row(attribute, k) {
    const row = byId("attribute-row").content.firstElementChild.cloneNode(true);
    const [name, categories, remove] = [".name", ".categories", ".remove"].map((kind) => row.querySelector(kind));
    [name.id, categories.id] = [`name-${k}`, `categories-${k}`];
    name.value = attribute.name;
    categories.value = categoriesText(attribute);
    remove.setAttribute("aria-label", `Remove the question ${attribute.name}`);
    name.addEventListener("change", () => this.#rename(k, name.value.trim()));
    categories.addEventListener("change", () => this.#setCategories(k, categories.value));
    remove.addEventListener("click", () => this.#remove(k));
    return row;
  }

  #rename(k, name) {
    const old = this.question.attributes[k].name;
    this.question.attributes[k].name = name;
    if (Array.isArray(this.question.learn)) this.question.learn = this.question.learn.map((table) => table.map((each) => (each === old ? name : each)));
    this.#showTables();
    this.set({});
  }

  #setCategories(k, text) {
    const attribute = this.question.attributes[k];
    if (text === categoriesText(attribute)) return;
    const given = text.includes("\n") ? text.split("\n") : text.split(",");
    // other edges, marks of missing values and orders belong to the answers that were there
    for (const key of ["categories", "size", "bins", "closed", "missing", "rest"]) delete attribute[key];
    if (WHOLE.test(text)) attribute.size = Number(text);
    else attribute.categories = given.map((each) => each.trim()).filter((each) => each);
    this.set({});
  }

  #addAttribute() {
    const taken = new Set(this.question.attributes.map((attribute) => attribute.name));
    let number = this.question.attributes.length + 1;
    while (taken.has(`question ${number}`)) number += 1;
    this.question.attributes.push({ name: `question ${number}`, categories: ["yes", "no"] });
    this.#attributesChanged();
    const name = byId(`name-${this.question.attributes.length - 1}`);
    name.focus();
    name.select();
  }

  #remove(k) {
    const [{ name }] = this.question.attributes.splice(k, 1);
    const { learn } = this.question;
    if (Array.isArray(learn)) this.question.learn = learn.filter((table) => !table.includes(name));
    this.#attributesChanged();
    (byId("attributes").children[Math.max(k - 1, 0)]?.querySelector(".remove") ?? byId("add-attribute")).focus();
  }

  #attributesChanged() {
    this.#showAttributes();
    this.#showTables();
    this.set({});
  }

  #learn(kind) {
    const named = this.question.attributes.map((attribute) => [attribute.name]);
    this.set({ learn: kind === "tables" ? named : kind });
    this.#showTables();
  }

  #addTable() {
    const names = [0, 1, 2].map((k) => byId(`table-${k}`).value).filter((name) => name);
    this.set({ learn: [...this.question.learn, [...new Set(names)]] });
    this.#showTables();
  }

  #showTables() {
    const { learn = "marginals" } = this.question;
    const own = Array.isArray(learn);
    byId(`learn-${own ? "tables" : learn}`).checked = true;
    byId("tables").hidden = !own;
    const names = this.question.attributes.map((attribute) => attribute.name);
    for (const k of [0, 1, 2]) {
      const options = [...(k > 0 ? [new Option("(nothing)", "")] : []), ...names.map((name) => new Option(name, name))];
      byId(`table-${k}`).replaceChildren(...options);
    }
    if (own) byId("table-list").replaceChildren(...learn.map((table, k) => this.#tableRow(table, k)));
  }

  #tableRow(table, k) {
    const [row, remove] = [document.createElement("li"), document.createElement("button")];
    remove.type = "button";
    remove.textContent = "Remove";
    remove.setAttribute("aria-label", `Remove the table ${table.join(" × ")}`);
    remove.addEventListener("click", () => {
      this.set({ learn: this.question.learn.filter((_, i) => i !== k) });
      this.#showTables();
      byId("add-table").focus();
    });
    row.append(table.join(" × "), " ", remove);
    return row;
  }
}

/** The answers of an attribute as the form shows them; values that cannot be written in a list stay unchanged. */
function categoriesText({ categories, size, bins }) {
  if (categories === undefined) return size === undefined ? `bins: ${(bins ?? []).join(", ")}` : String(size);
  const texts = categories.map((each) => (each === null ? "(missing)" : String(each)));
  return texts.join(texts.some((text) => ANY_COMMA.test(text)) ? "\n" : ", ");
}
