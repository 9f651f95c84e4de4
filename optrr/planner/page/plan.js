// The planning page: it sends each choice to the program on this machine and shows the answer. No number is computed
// and nothing is drawn here.

import { Form } from "./form.js";
import { fieldOf } from "./question.js";
import { download, fromFragment, History, stateFrom, toFragment } from "./state.js";

const byId = (id) => document.getElementById(id);
const TOKEN = new URLSearchParams(location.search).get("token") ?? "";
const FOCUSABLE = "input, button, summary, a[href], [tabindex]";
// Milliseconds until a slider counts as at rest, and between requests for the progress of the computation.
const [REST, AGAIN] = [400, 600];
const ENDED = "The program behind this page has stopped, so nothing more can be computed. Your plan is still here: download it, start the program again, and open the plan there.";

const places = new Map();
const initial = { question: JSON.parse(document.body.dataset.state), reason: "" };
const form = new Form(changed);
let state = initial;
let steps;
// the state that was saved last, and what was said of it
let saved = null;
// whether a request is pending, and whether something has changed since
let [asking, stale] = [false, false];
let [resting, polling, finding] = [0, 0, 0];

start();

function start() {
  try {
    state = fromFragment(location.hash) ?? structuredClone(initial);
  } catch {
    text("note", "The plan in this page's address cannot be read. You see the plan with which the program was started.");
    state = structuredClone(initial);
  }
  steps = new History(state);
  form.show(state);
  listen();
  showSteps();
  preview(true);
}

function listen() {
  byId("undo").addEventListener("click", () => go(steps.undo()));
  byId("redo").addEventListener("click", () => go(steps.redo()));
  byId("reset").addEventListener("click", () => go(structuredClone(initial), true));
  byId("download").addEventListener("click", () => download(state));
  byId("upload").addEventListener("click", () => byId("upload-file").click());
  byId("upload-file").addEventListener("change", open);
  byId("print").addEventListener("click", () => print());
  byId("find-total").addEventListener("click", () => find("total", "total"));
  byId("find-people").addEventListener("click", () => find("people", "n"));
  byId("save").addEventListener("click", save);
  byId("unneeded").addEventListener("click", ({ target }) => target.dataset.addTable && form.addTable([target.dataset.addTable]));
  byId("ways").addEventListener("change", ({ target }) => form.set({ way: target.value || undefined }));
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button.dataset.copy));
  addEventListener("keydown", stepByKey);
  addEventListener("hashchange", () => location.hash !== toFragment(state) && location.reload());
  listenToDragging(byId("frontier"));
}

/** The dot of the frontier is the slider of totals: both axes are even in the total's logarithm. */
function listenToDragging(container) {
  const slider = form.total.input;
  const move = (event, kind) => {
    const chart = container.querySelector("svg[data-frontier]");
    if (!chart) return;
    const { left, width } = chart.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * chart.viewBox.baseVal.width;
    const share = (x - Number(chart.dataset.left)) / (Number(chart.dataset.right) - Number(chart.dataset.left));
    slider.value = Math.round(share * Number(slider.max));
    slider.dispatchEvent(new Event(kind));
  };
  container.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.target.closest("svg[data-frontier]")) return;
    event.preventDefault();
    container.setPointerCapture(event.pointerId);
    move(event, "input");
  });
  container.addEventListener("pointermove", (event) => container.hasPointerCapture(event.pointerId) && move(event, "input"));
  container.addEventListener("pointerup", (event) => container.hasPointerCapture(event.pointerId) && move(event, "change"));
}

function stepByKey(event) {
  const key = event.key.toLowerCase();
  // text fields have their own undo
  const inText = event.target.matches?.('input[type="text"], input[type="number"], textarea');
  if (!(event.ctrlKey || event.metaKey) || inText || !["z", "y"].includes(key)) return;
  event.preventDefault();
  go(key === "y" || event.shiftKey ? steps.redo() : steps.undo());
}

/** Shows another state; `isStep` makes it a step that can be undone. */
function go(other, isStep = false) {
  state = other;
  clearOld();
  if (isStep) steps.push(state);
  form.show(state);
  keepAddress();
  showSteps();
  preview(true);
}

function changed(next, isStep) {
  state = next;
  clearOld();
  if (isStep && steps.push(state)) keepAddress();
  showSteps();
  preview(false);
}

/** Removes what was said about the state before. */
function clearOld() {
  clearTimeout(finding);
  for (const id of ["note", "required", "removed"]) text(id, "");
  if (!saved) return;
  const said = saved.state === JSON.stringify(state) ? saved.said : ["Changed since saving; save again."];
  if (byId("saved").textContent !== said.map((each) => each.textContent ?? each).join("")) byId("saved").replaceChildren(...said);
}

function keepAddress() {
  history.replaceState(null, "", location.pathname + location.search + toFragment(state));
}

function showSteps() {
  for (const [id, can] of [["undo", steps.canUndo], ["redo", steps.canRedo]]) {
    // a button that is switched off under the keyboard's focus would lose it
    if (!can && document.activeElement === byId(id)) byId("reset").focus();
    byId(id).disabled = !can;
  }
}

/** Requests the fragments of the current choice; of changes during a request, only the newest is requested. */
async function preview(rests) {
  clearTimeout(resting);
  clearTimeout(polling);
  if (!rests) resting = setTimeout(() => preview(true), REST);
  if (asking) {
    stale = true;
    return;
  }
  asking = true;
  const answer = await ask("preview", { question: state.question, rests });
  asking = false;
  if (stale) {
    stale = false;
    // a late answer is still the newest available
    if (answer?.fragments) show(answer);
    preview(rests);
    return;
  }
  if (!answer) return;
  show(answer);
  if (answer.busy && rests) polling = setTimeout(() => preview(true), AGAIN);
}

function show(answer) {
  showFault(answer.fragments ? "" : answer.error);
  if (!answer.fragments) {
    byId("answer").classList.add("old");
    text("status", "These results are from before the mistake.");
    return;
  }
  text("error", answer.error ?? "");
  byId("answer").classList.remove("old");
  document.body.classList.toggle("preview", !answer.exact);
  text("status", answer.status);
  for (const [id, html] of Object.entries(answer.fragments)) put(id, html);
}

/** Puts an error at the field that it is about, or above the form; an empty one removes it. */
function showFault(error) {
  const id = error ? fieldOf(error, state.question) : null;
  if (/named ''/.test(error)) error = "Give the question a name.";
  const [, , twice] = /^attribute (['"])(.*)\1 is declared twice/s.exec(error) ?? [];
  if (twice) error = `Two questions have the name “${twice}”; give each its own name.`;
  const field = id && byId(id);
  text("error", field ? "" : error);
  for (const old of document.querySelectorAll(".fault")) {
    const former = byId(old.dataset.of);
    if (former === field && old.textContent === error) return;
    former?.removeAttribute("aria-invalid");
    former?.setAttribute("aria-describedby", (former.getAttribute("aria-describedby") ?? "").replace("fault", "").trim());
    old.remove();
  }
  if (!field) return;
  field.closest("details")?.setAttribute("open", "");
  const fault = Object.assign(document.createElement("p"), { id: "fault", className: "fault", textContent: error });
  fault.dataset.of = id;
  fault.setAttribute("role", "alert");
  const row = field.closest(".slider, .margin-row");
  if (row) row.append(fault);
  else (field.closest("label") ?? field).after(fault);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", `${field.getAttribute("aria-describedby") ?? ""} fault`.trim());
}

/** Puts a fragment in place, and keeps the focus and the horizontal scroll position. */
function put(id, html) {
  if (places.get(id) === html) return;
  places.set(id, html);
  const place = byId(id);
  const focus = [...place.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  const focused = document.activeElement.id;
  const moved = [...place.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  place.innerHTML = html;
  place.querySelectorAll(".scroll").forEach((each, k) => (each.scrollLeft = moved[k] ?? 0));
  if (focus >= 0) ((focused && byId(focused)) || place.querySelectorAll(FOCUSABLE)[focus])?.focus({ preventScroll: true });
}

/** The program's answer; {error} if it refuses, null if it has stopped. */
async function ask(path, body) {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Optrr-Token": TOKEN },
      body: JSON.stringify(body),
      cache: "no-store",
    });
    const answer = await response.json();
    text("ended", "");
    return answer;
  } catch {
    text("ended", ENDED);
    text("status", "The program has stopped.");
    return null;
  }
}

/** Puts the total or number of people for the required margin into the form, once the totals for it are computed. */
async function find(kind, key) {
  clearTimeout(finding);
  const asked = JSON.stringify(state.question);
  const answer = await ask("required", { question: state.question });
  // an answer to an older question must not change the new one
  if (!answer || asked !== JSON.stringify(state.question)) return;
  if (answer.error) return showFault(answer.error);
  const waits = answer.waiting[kind];
  if (!waits && answer[kind]) form.set({ [key]: answer[kind] });
  text("required", answer[`${kind}_said`]);
  if (waits) finding = setTimeout(() => find(kind, key), AGAIN);
}

async function save() {
  text("saved", "Saving …");
  byId("save").setAttribute("aria-disabled", "true");
  const sent = JSON.stringify(state);
  const answer = await ask("save", { question: state.question, reason: state.reason });
  byId("save").removeAttribute("aria-disabled");
  if (!answer) return text("saved", "Nothing was saved.");
  if (answer.error) return text("saved", `Nothing was saved: ${answer.error}`);
  const [first] = answer.saved;
  const place = first.includes("/") || first.includes("\\") ? first.slice(0, Math.max(first.lastIndexOf("/"), first.lastIndexOf("\\"))) : first;
  const link = Object.assign(document.createElement("a"), { href: `statement?token=${encodeURIComponent(TOKEN)}`, target: "_blank", textContent: "Open the statement for the board" });
  const files = document.createElement("details");
  files.append(Object.assign(document.createElement("summary"), { textContent: `All ${answer.saved.length} files` }), ...answer.saved.map(paragraph));
  const said = paragraph(`Saved in ${place}. `);
  said.append(link);
  saved = { state: sent, said: [said, files] };
  byId("saved").replaceChildren(...saved.said);
  clearOld();
}

function paragraph(content) {
  return Object.assign(document.createElement("p"), { textContent: content });
}

async function open() {
  const [file] = byId("upload-file").files;
  byId("upload-file").value = "";
  if (!file) return;
  try {
    go(stateFrom(await file.text()), true);
  } catch (error) {
    text("note", `${file.name} is not a plan: ${error.message}; open a file that this page has saved.`);
  }
}

async function copy(id) {
  const lines = byId(id).textContent.trim();
  const done = await navigator.clipboard.writeText(lines).then(() => true, () => false);
  if (!done) getSelection().selectAllChildren(byId(id));
  text("copied", done ? "Copied." : "The lines are selected; copy them with the keyboard.");
}

/** Sets a text only if it changed, so that screen readers do not repeat it; hides alerts without a text. */
function text(id, content) {
  const element = byId(id);
  if (element.textContent !== content) element.textContent = content;
  if (element.getAttribute("role") === "alert") element.hidden = !content;
}
