// The form and the question: one shows the other. No result is computed here.

import { answersOf, askedIf, entries, isRow, MAIN, mapLabels, markAt, relabelled, tableName, tablesOf, textIn, withText } from "./question.js";

const byId = (id) => document.getElementById(id);
const WHOLE = /^\s*\d{1,7}\s*$/;
// The answer that stands for a missing one, by language.
const OFFERED = JSON.parse(document.body.dataset.offered);
// Fields that hold a number of the question, and those that hold a text of the survey.
const NUMBERS = ["total", "n", "releases", "margin"];
const TEXTS = ["title", "asker", "introduction", "thanks"];
// Steps of the sliders: totals from 0.125 to 16 by twentieths of a doubling, people by twelfths of a factor of ten.
const TOTALS = Array.from({ length: 141 }, (_, k) => Number((0.125 * 2 ** (k / 20)).toPrecision(3)));
const PEOPLE = Array.from({ length: 61 }, (_, k) => Number((10 * 10 ** (k / 12)).toPrecision(2)));
const PRIORS = [1, 2, 5, ...Array.from({ length: 17 }, (_, k) => 10 + 5 * k), 95, 98, 99].map((percent) => percent / 100);

/** A slider over a list of numbers, from the least to the largest. */
class Slider {
  constructor(id, values) {
    [this.input, this.values] = [byId(id), values];
    [this.input.min, this.input.max, this.input.step] = [0, values.length - 1, 1];
  }

  get value() {
    return this.values[Number(this.input.value)];
  }

  /** Moves to the largest of its numbers that is at most `value`. */
  show(value, text = String(value)) {
    const above = this.values.findIndex((each) => each > value);
    this.input.value = above < 0 ? this.values.length - 1 : Math.max(above - 1, 0);
    this.input.setAttribute("aria-valuetext", text);
  }
}

export class Form {
  #state;
  #changed;
  // language in which the texts are written, by default the survey's
  #language;

  /** Calls `changed(state, kept)` after every change; `kept` is true for a step that can be undone. */
  constructor(changed) {
    this.#changed = changed;
    this.total = new Slider("total-slider", TOTALS);
    this.people = new Slider("n-slider", PEOPLE);
    this.prior = new Slider("prior-slider", PRIORS);
    this.#listen();
  }

  /** Shows a state, and changes it from now on. */
  show(state) {
    this.#state = state;
    byId("reason").value = state.reason;
    byId("keep").checked = this.question.keep === "records";
    this.#showNumbers();
    this.#showTexts();
    this.#showTables();
  }

  /** Sets keys of the question; undefined removes one. */
  set(choices, kept = true) {
    this.#put(this.question, choices);
    this.#showNumbers();
    this.#changed(this.#state, kept);
  }

  get question() {
    return this.#state.question;
  }

  get #main() {
    return this.question.language ?? MAIN;
  }

  #put(target, choices) {
    for (const [key, value] of Object.entries(choices)) {
      if (value === undefined) delete target[key];
      else target[key] = value;
    }
  }

  #listen() {
    byId("form").addEventListener("submit", (event) => event.preventDefault());
    for (const id of NUMBERS)
      for (const kind of ["input", "change"])
        byId(id).addEventListener(kind, () => {
          const text = byId(id).value;
          // an empty field during typing is not an answer yet
          if (text === "" && id !== "margin") return kind === "change" && this.#showNumbers();
          this.set({ [id]: text === "" ? undefined : Number(text) }, kind === "change");
        });
    for (const [slider, key] of [[this.total, "total"], [this.people, "n"], [this.prior, "prior"]])
      for (const kind of ["input", "change"]) slider.input.addEventListener(kind, () => this.set({ [key]: slider.value }, kind === "change"));
    for (const id of TEXTS)
      byId(id).addEventListener("change", () => this.set({ [id]: this.#written(this.question[id], byId(id).value.trim() || undefined) }));
    byId("language").addEventListener("change", () => {
      this.#language = undefined;
      this.set({ language: byId("language").value });
      this.#showTexts();
    });
    byId("texts-in").addEventListener("change", () => {
      this.#language = byId("texts-in").value;
      this.#showTexts();
    });
    byId("keep").addEventListener("change", () => this.set({ keep: byId("keep").checked ? "records" : undefined }));
    byId("reason").addEventListener("change", () => {
      this.#state.reason = byId("reason").value;
      this.#changed(this.#state, true);
    });
    for (const radio of document.querySelectorAll('input[name="learn"]')) radio.addEventListener("change", () => this.#learn(radio.value));
    byId("add-attribute").addEventListener("click", () => this.#addAttribute());
    byId("add-table").addEventListener("click", () => this.addTable([0, 1, 2].map((k) => byId(`table-${k}`).value).filter((name) => name)));
  }

  /** A text of the survey with what is written in the language that is shown. */
  #written(value, text) {
    return withText(value, this.#language ?? this.#main, this.#main, text);
  }

  #shown(value) {
    return textIn(value, this.#language ?? this.#main, this.#main);
  }

  #showNumbers() {
    const { total = 1, n = 1000, prior = 0.1, releases = 1, margin = "" } = this.question;
    for (const [id, value] of Object.entries({ total, n, releases, margin }))
      if (document.activeElement !== byId(id) || Number(byId(id).value) !== value) byId(id).value = value;
    this.total.show(total);
    this.people.show(n);
    byId("prior-text").textContent = `${Math.round(prior * 1000) / 10} of 100`;
    this.prior.show(prior, byId("prior-text").textContent);
  }

  #showTexts(anew = true) {
    for (const id of TEXTS) byId(id).value = this.#shown(this.question[id]) ?? "";
    for (const [id, code] of [["language", this.#main], ["texts-in", this.#language ?? this.#main]]) {
      if (![...byId(id).options].some((option) => option.value === code)) byId(id).add(new Option(code, code));
      byId(id).value = code;
    }
    const list = byId("attributes");
    if (anew || list.children.length !== this.question.attributes.length) {
      const open = new Set([...list.querySelectorAll("details[open]")].map((each) => each.id));
      list.replaceChildren(...this.question.attributes.map((_, k) => this.#row(k)));
      for (const each of list.querySelectorAll("details")) each.open = open.has(each.id);
    }
    this.question.attributes.forEach((attribute, k) => this.#fill(list.children[k], attribute, k));
  }

  /** A row of the list of questions; its fields keep their places, so that no click or focus is lost when they change. */
  #row(k) {
    const row = byId("attribute-row").content.firstElementChild.cloneNode(true);
    const at = () => this.question.attributes[k];
    const field = (kind, changed) => {
      const element = row.querySelector(`.${kind}`);
      element.id = `${kind}-${k}`;
      element.addEventListener("change", () => changed(element.value.trim(), element));
    };
    row.querySelector("details").id = `details-${k}`;
    row.querySelector(".when").id = `when-${k}`;
    row.querySelector(".remove").addEventListener("click", () => this.#remove(k));
    field("name", (text) => this.#rename(k, text));
    field("categories", (text) => this.#setCategories(k, text));
    field("question", (text) => this.#setOf(k, { question: this.#written(at().question, text || undefined) }));
    field("labels", (text) => this.#setLabels(k, text));
    field("missing", (_, { checked }) => {
      const change = (list, language) => (checked ? [...list, OFFERED[language] ?? OFFERED[MAIN]] : list.slice(0, -1));
      this.#setOf(k, { missing: checked || undefined, labels: mapLabels(at().labels, this.#main, change) });
    });
    field("parent", (name) => this.#setBranch(k, name));
    return row;
  }

  /** Writes an attribute into its row; what is unchanged is not touched. */
  #fill(row, attribute, k) {
    const set = (kind, key, value) => {
      const element = row.querySelector(`.${kind}`);
      if (element[key] !== value) element[key] = value;
      return element;
    };
    const labels = (this.#shown(attribute.labels) ?? []).filter((_, i) => i !== markAt(attribute));
    const offered = [...answersOf(attribute), ...(attribute.missing ? [OFFERED[this.#language ?? this.#main] ?? OFFERED[MAIN]] : [])];
    set("name", "value", attribute.name);
    set("categories", "value", entries(answersOf(attribute), attribute));
    set("question", "value", this.#shown(attribute.question) ?? "").placeholder = attribute.name;
    set("labels", "value", labels.join("\n")).placeholder = offered.join("\n");
    set("missing", "checked", Boolean(attribute.missing));
    row.querySelector("summary .aside").textContent = ` of ${attribute.name}`;
    row.querySelector(".remove").setAttribute("aria-label", `Remove the question ${attribute.name}`);
    const earlier = this.question.attributes.slice(0, k).map(({ name }) => name);
    const [parent, chosen] = Object.entries(attribute.ask_if ?? {})[0] ?? ["", []];
    const select = row.querySelector(".parent");
    if ([...select.options].slice(1).map(({ value }) => value).join("\n") !== earlier.join("\n") || !select.length)
      select.replaceChildren(new Option("of everybody", ""), ...earlier.map((name) => new Option(`depending on ${name}`, name)));
    select.value = parent;
    this.#fillBoxes(row.querySelector(".when"), parent, chosen, k);
  }

  /** A box for each answer of the question on which another one depends. */
  #fillBoxes(when, parent, chosen, k) {
    const from = this.question.attributes.find(({ name }) => name === parent);
    when.hidden = !from;
    const answers = from ? answersOf(from) : [];
    if (when.dataset.of !== JSON.stringify([parent, answers])) {
      when.dataset.of = JSON.stringify([parent, answers]);
      for (const old of when.querySelectorAll("label")) old.remove();
      for (const answer of answers) {
        const [label, box, span] = ["label", "input", "span"].map((tag) => document.createElement(tag));
        [label.className, box.type, span.dir, span.textContent] = ["option", "checkbox", "auto", String(answer)];
        box.addEventListener("change", () => {
          const { ask_if: given } = this.question.attributes[k];
          const kept = answers.filter((each) => (each === answer ? box.checked : given[parent].includes(each)));
          this.#setOf(k, { ask_if: { ...given, [parent]: kept } });
        });
        label.append(box, span);
        when.append(label);
      }
    }
    when.querySelectorAll("input").forEach((box, i) => (box.checked = chosen.includes(answers[i])));
  }

  #setOf(k, choices) {
    this.#put(this.question.attributes[k], choices);
    this.#attributesChanged();
  }

  #rename(k, name) {
    const old = this.question.attributes[k].name;
    const renamed = (table) => table.map((each) => (each === old ? name : each));
    const { learn, margins = {}, attributes } = this.question;
    const required = tablesOf(this.question).map((table) => [tableName(renamed(table)), margins[tableName(table)]]);
    attributes[k].name = name;
    if (Array.isArray(learn)) this.question.learn = learn.map(renamed);
    this.#setMargins(required);
    for (const { ask_if: when } of attributes)
      if (when?.[old]) {
        when[name] = when[old];
        delete when[old];
      }
    this.#attributesChanged();
  }

  #setCategories(k, text) {
    const attribute = this.question.attributes[k];
    if (text === entries(answersOf(attribute), attribute)) return;
    const before = { ...attribute };
    // other edges, marks of missing values and orders belong to the answers that were there
    for (const key of ["categories", "size", "bins", "closed", "rest"]) delete attribute[key];
    if (attribute.missing !== true) delete attribute.missing;
    if (WHOLE.test(text) && !attribute.ask_if) attribute.size = Number(text);
    else attribute.categories = [...listed(text), ...(attribute.ask_if ? [attribute.not_asked ?? askedIf.NOT_ASKED] : [])];
    this.#put(attribute, { labels: relabelled(before, attribute.categories ?? answersOf(attribute), this.#main) });
    this.#attributesChanged();
  }

  #setLabels(k, text) {
    const attribute = this.question.attributes[k];
    const texts = listed(text);
    // respondents never read the mark of a question that is not asked
    if (markAt(attribute) >= 0) texts.splice(markAt(attribute), 0, attribute.categories[markAt(attribute)]);
    this.#setOf(k, { labels: this.#written(attribute.labels, text ? texts : undefined) });
  }

  /** Asked only if an earlier question has some answers. */
  #setBranch(k, parent) {
    const from = this.question.attributes.find(({ name }) => name === parent);
    this.question.attributes[k] = askedIf(this.question.attributes[k], from && { [parent]: answersOf(from).slice(0, 1) });
    this.#attributesChanged();
  }

  #addAttribute() {
    const taken = new Set(this.question.attributes.map((attribute) => attribute.name));
    let number = this.question.attributes.length + 1;
    while (taken.has(`question ${number}`)) number += 1;
    this.question.attributes.push({ name: `question ${number}`, categories: ["yes", "no"] });
    this.#showTexts();
    this.#attributesChanged();
    const name = byId(`name-${this.question.attributes.length - 1}`);
    name.focus();
    name.select();
  }

  #remove(k) {
    const [{ name }] = this.question.attributes.splice(k, 1);
    const { learn } = this.question;
    if (Array.isArray(learn)) this.question.learn = learn.filter((table) => !table.includes(name));
    this.question.attributes = this.question.attributes.map((each) => (each.ask_if?.[name] ? askedIf(each) : each));
    this.#showTexts();
    this.#attributesChanged();
    this.#sayRemoved(name, "attributes", `name-${k}`);
  }

  /** Goes to a line below a list that says what was removed, so that keys typed on press no other button. */
  #sayRemoved(name, list, back) {
    const [line, shown, undo] = [byId("removed"), document.createElement("bdi"), document.createElement("button")];
    shown.textContent = name;
    Object.assign(undo, { type: "button", textContent: "Undo" });
    undo.addEventListener("click", () => {
      byId("undo").click();
      byId(back)?.focus();
    });
    byId(list).after(line);
    line.replaceChildren("Removed “", shown, "”. ", undo);
    line.focus();
  }

  #attributesChanged() {
    this.#showTexts(false);
    this.#showTables();
    this.set({});
  }

  #learn(kind) {
    this.#setTables(kind === "tables" ? this.question.attributes.map((attribute) => [attribute.name]) : kind);
  }

  /** Adds a table, or goes to the one that is there. */
  addTable(names) {
    const table = [...new Set(names)];
    const there = tablesOf(this.question).findIndex((each) => isRow(each, table));
    if (there < 0) this.#setTables([...this.question.learn, table]);
    byId(`margin-${there < 0 ? tablesOf(this.question).length - 1 : there}`)?.focus();
  }

  #setTables(learn) {
    this.question.learn = learn;
    this.#showTables();
    this.set({});
  }

  /** The tables with their margins; margins of tables that are no longer there are dropped. */
  #showTables() {
    const { learn = "marginals", margins = {} } = this.question;
    const own = Array.isArray(learn);
    const tables = tablesOf(this.question);
    this.#setMargins(tables.map((table) => [tableName(table), margins[tableName(table)]]));
    byId(`learn-${own ? "tables" : learn}`).checked = true;
    byId("tables").hidden = !own;
    const names = this.question.attributes.map((attribute) => attribute.name);
    for (const k of [0, 1, 2]) {
      const select = byId(`table-${k}`);
      const values = [...(k > 0 ? [""] : []), ...names];
      if ([...select.options].map(({ value }) => value).join("\n") !== values.join("\n"))
        select.replaceChildren(...values.map((name) => new Option(name || "(nothing)", name)));
    }
    const list = byId("table-list");
    if (list.children.length !== tables.length || list.dataset.own !== String(own)) {
      list.dataset.own = own;
      list.replaceChildren(...tables.map((_, k) => this.#tableRow(k, own)));
    }
    tables.forEach((table, k) => {
      const [row, points] = [list.children[k], this.question.margins?.[tableName(table)] ?? ""];
      row.querySelector("label").textContent = tableName(table);
      row.querySelector("button")?.setAttribute("aria-label", `Remove the result ${tableName(table)}`);
      const input = row.querySelector("input");
      if (document.activeElement !== input || Number(input.value) !== points) input.value = points;
    });
  }

  #tableRow(k, own) {
    const [row, label, span, input] = ["li", "label", "span", "input"].map((tag) => document.createElement(tag));
    [row.className, label.htmlFor, label.dir] = ["margin-row", `margin-${k}`, "auto"];
    Object.assign(input, { id: label.htmlFor, type: "number", min: 0.001, max: 50, step: "any", inputMode: "decimal" });
    input.setAttribute("aria-describedby", "margin-hint");
    for (const kind of ["input", "change"])
      input.addEventListener(kind, () => this.#setMargin(tablesOf(this.question)[k], input.value, kind === "change"));
    span.append("±\u00a0", input);
    row.append(label, span);
    if (!own) return row;
    const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "Remove" });
    remove.addEventListener("click", () => {
      const name = tableName(this.question.learn[k]);
      this.#setTables(this.question.learn.filter((_, i) => i !== k));
      this.#sayRemoved(name, "table-list", `margin-${k}`);
    });
    row.append(remove);
    return row;
  }

  #setMargin(table, text, kept) {
    this.#setMargins(Object.entries({ ...this.question.margins, [tableName(table)]: text === "" ? undefined : Number(text) }));
    this.set({}, kept);
  }

  /** Sets the margins of single tables, from pairs of a table's name and its margin or undefined. */
  #setMargins(pairs) {
    const given = pairs.filter(([, points]) => points !== undefined);
    this.#put(this.question, { margins: given.length ? Object.fromEntries(given) : undefined });
  }
}

function listed(text) {
  return (text.includes("\n") ? text.split("\n") : text.split(",")).map((each) => each.trim()).filter((each) => each);
}
