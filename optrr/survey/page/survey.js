// The survey: load the questions, explain, ask one question a page, randomize once, send only the result, forget the answers.

import { n, nameOf, number, preferred, speak, t, translated, typedNumber } from "./catalog.js";
import { button, element, newHeading } from "./elements.js";
import { mark, questionField } from "./fields.js";
import { memoryOf, newIdentifier, outboxOf, Unreadable } from "./memory.js";
import { readDeployment } from "./optrr.js";
import { involved, pagesOf, pathOf } from "./path.js";
import { protection } from "./protection.js";
import { askedAbout } from "./question.js";
import { kioskView, reportView } from "./report.js";
import { deliver, post, repeated } from "./sending.js";
import { spoken, textsOf } from "./texts.js";

const before = () => t("You have answered before in this browser. This is your report from then.");
const otherLink = () => t("A report was already sent from this browser. If this link belongs to another person, please open it in another browser.");
const otherWindow = () => t("You have already answered in another window of this browser. That report counts; the answers you entered now were not used.");

// Seconds after which a device that many people use is ready for the next person: after sending, and if nobody touches it.
const [SHOWN, IDLE] = [30, 180];

const content = document.getElementById("content");
const status = document.getElementById("status");

// a personal link: its token must not stay in the address bar
const token = new URLSearchParams(location.hash.slice(1)).get("i");
if (token) history.replaceState(null, "", location.pathname + location.search);

let survey, view, language, texts;
let person = newPerson();

/** What is known of the person: in memory only. */
function newPerson() {
  return { entered: new Map(), isWilling: false, trial: {}, asked: undefined };
}

/** Shows a view, and again after a language switch. A view returns its element, and focuses what it wants. */
function show(next) {
  const isFirst = !view;
  view = next;
  status.textContent = "";
  draw();
  if (isFirst || content.contains(document.activeElement)) return;
  document.getElementById("title").focus();
  scrollTo(0, 0);
}

function draw() {
  drawHeader();
  content.replaceChildren(view());
  content.querySelector("[tabindex='-1']")?.focus();
}

async function start() {
  if (!isSecureContext)
    return notice(() => [t("This page is not secure"), t("Its address must begin with https. Otherwise, others could change the page on its way to you. Nothing is asked or sent.")]);
  // start only once: a second load would replace a form that is being filled in
  content.replaceChildren();
  status.textContent = t("Loading the questions …");
  try {
    const [deployment, wording] = await Promise.all([loaded("sampler.json"), loaded("survey.json").then(parsed)]);
    if (!/^[0-9a-f]{64}$/.test(wording.digest)) throw new Error(t("The server does not state which questions these are"));
    survey = { deployment: await readDeployment(deployment), wording };
    await switchTo(preferred(wording.languages));
    await (wording.kiosk ? begin() : resume());
    // so that languages can be switched without a network
    await Promise.allSettled(wording.languages.map((each) => translated(each, catalogue)));
  } catch (error) {
    const { message } = error;
    notice(() => [t("The survey could not be loaded"), t("{reason}. Nothing was asked or sent.", { reason: message })], start);
  }
}

async function loaded(path) {
  const response = await fetch(path, { credentials: "omit" }).catch(() => {
    throw new Error(t("The server of the survey cannot be reached"));
  });
  if (!response.ok) throw new Error(t("The server answered with {status} for {path}", { status: String(response.status), path }));
  return response.arrayBuffer();
}

const parsed = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

const catalogue = (path) => loaded(path).then(parsed);

async function switchTo(next) {
  await speak(next, catalogue);
  language = next;
  texts = textsOf(survey.wording, next);
}

/** Title, asker and introduction, and a switch where there are several languages. */
function drawHeader(isStart = view === startView) {
  const say = (id, said, text) => {
    const place = document.getElementById(id);
    place.hidden = !said;
    if (said) place.replaceChildren(element("span", spoken(said), text ?? said.text));
  };
  const [title, asker] = [texts?.general("title"), texts?.general("asker")];
  if (texts) document.title = title?.text ?? t("Survey");
  say("title", title ?? { text: t("Survey") });
  say("asker", asker, asker && t("Asked by {asker}", { asker: asker.text }));
  say("introduction", isStart && texts?.general("introduction"));
  const languages = texts && survey.wording.languages.length > 1 ? survey.wording.languages : [];
  const choices = languages.map((each) =>
    element("button", { type: "button", lang: each, dir: "auto", "aria-pressed": String(each === language), onclick: () => choose(each) }, nameOf(each)),
  );
  const place = document.getElementById("languages");
  place.hidden = languages.length === 0;
  place.setAttribute("aria-label", t("Language"));
  place.replaceChildren(...choices);
}

async function choose(next) {
  // "1.500" is another number in another language
  const numbers = [...(person?.entered ?? [])].flatMap(([name, text]) => (typeof text === "string" ? [[name, text, typedNumber(text)]] : []));
  try {
    await switchTo(next);
  } catch (error) {
    status.textContent = error.message;
    return;
  }
  for (const [name, text, value] of numbers)
    if (person?.entered.get(name) === text && !Number.isNaN(value)) person.entered.set(name, number(value, { useGrouping: false, maximumFractionDigits: 20 }));
  status.textContent = "";
  draw();
  document.querySelector("#languages [aria-pressed='true']").focus();
}

/** An ordinary visit: the report of this browser, if there is one, or else the questions. */
async function resume() {
  const { deployment, wording } = survey;
  let kept;
  try {
    survey.memory = memoryOf(deployment, wording);
    kept = await survey.memory.entry();
    if (!kept) person.asked = await survey.memory.asked();
    // with this survey: the total is shown before consent
    survey.spent = await survey.memory.spent(...(kept ? [] : [{ epsilon: deployment.epsilon.total }]));
    survey.permit = wording.invitations && (await survey.memory.permit());
  } catch (error) {
    if (error instanceof Unreadable)
      return notice(
        () => [
          t("We cannot tell if you have answered"),
          t("The data that this browser stored for this survey cannot be read, so we cannot tell if you have answered. To keep anyone from answering twice, nothing is asked or sent."),
          t("If you are sure that you have not answered here, delete this site's data in your browser and try again."),
        ],
        start,
      );
    return notice(
      () => [
        t("This browser cannot store your report"),
        t("Storage is switched off for this page, or this is a private window. The browser must remember your report, so that you are not asked twice."),
        t("Please allow it, or use another browser. Nothing was asked or sent."),
      ],
      start,
    );
  }
  if (kept) return showReport({ entry: kept, note: token ? otherLink : before });
  if (wording.invitations && !token && !survey.permit)
    return notice(() => [t("Please open your personal link"), t("This survey is open only to people who have a personal link. Please open the link that you were given once more.")]);
  // another window may be the first to answer, or have answered while this one slept
  const look = async () => {
    if (!person) return;
    const entry = await survey.memory.entry().catch(() => undefined);
    if (entry && person) showReport({ entry, note: person.entered.size ? otherWindow : before });
  };
  survey.memory.watch(look);
  document.addEventListener("visibilitychange", look);
  show(startView);
}

/** A device that many people use is ready for the next person. */
async function begin() {
  const { deployment, wording } = survey;
  survey.outbox ??= outboxOf(deployment, wording);
  clearInterval(leaving);
  person = newPerson();
  person.asked = survey.outbox.asked();
  survey.spent = null;
  try {
    survey.waiting = (await survey.outbox.waiting()).length;
  } catch {
    return notice(() => [t("This browser cannot store your report"), t("Please allow it, or use another browser. Nothing was asked or sent.")], start);
  }
  survey.send ??= repeated(async () => {
    const reports = await survey.outbox.waiting();
    survey.waiting = reports.length;
    for (const report of reports) {
      const { state } = await deliver(report);
      if (state === "waiting") return true;
      // one that is refused does not hold up the others
      if (state === "refused") continue;
      await survey.outbox.delivered(report);
      survey.waiting -= 1;
    }
    return survey.waiting > 0;
  });
  if (survey.waiting) survey.send();
  await switchTo(preferred(wording.languages));
  show(startView);
}

/** The person's path, and the pages of the questions. */
function way() {
  const attributes = involved(survey.deployment, person.asked, survey.wording);
  return { pages: pagesOf(attributes, survey.wording), path: pathOf(attributes, survey.wording, person.entered) };
}

function startView() {
  const { deployment, wording, spent } = survey;
  const mistake = element("p", { class: "mistake", id: "mistake", hidden: true });
  const box = element("input", { type: "checkbox", id: "consent", checked: person.isWilling });
  box.addEventListener("change", () => {
    person.isWilling = box.checked;
  });
  const failure = element("p", { class: "mistake", role: "alert" });
  const press = element("button", { type: "submit", class: "main" }, t("Start"));
  const form = element(
    "form",
    { autocomplete: "off", noValidate: true },
    protection({ deployment, wording, texts, asked: person.asked, spent, trial: person.trial }),
    element("div", { class: "field" }, mistake, element("label", { class: "option" }, box, element("span", {}, t("I have read how my answers are protected. I want to send my randomized answers.")))),
    element("p", { class: "quiet" }, beforeSending()),
    survey.outbox && element("p", { class: "quiet" }, n("If nobody touches this device for {count} minute, this page starts over.", "If nobody touches this device for {count} minutes, this page starts over.", IDLE / 60)),
    survey.waiting > 0 && element("p", { class: "quiet" }, n("{count} report waits on this device and is sent later.", "{count} reports wait on this device and are sent later.", survey.waiting)),
    failure,
    press,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    mark(box, mistake, box.checked ? null : t("Without your consent nothing is sent."));
    if (!box.checked) return box.focus();
    press.disabled = true;
    const problem = await admitted().catch(() => t("The answer came from somewhere else. Does this network ask you to sign in first?"));
    press.disabled = false;
    if (problem === null) show(() => questionView(0));
    else if (problem) failure.replaceChildren(problem);
  });
  return form;
}

/** What is sent and stored before the report. */
function beforeSending() {
  const { deployment, wording } = survey;
  if (wording.invitations) return t("When you start, your link is checked. The check does not show which report will be yours. Nothing of your answers is sent or stored before you press the last button.");
  if (deployment.questions?.length > 1 && !wording.kiosk)
    return t("Before you press the last button, nothing is sent, and this browser stores only which questions chance picked for you.");
  return t("Nothing is sent or stored before you press the last button.");
}

/** Exchanges a personal link for the permit to send one report, which cannot be joined to the link; an error message, or null; undefined if a notice says it. */
async function admitted() {
  const { wording, memory } = survey;
  if (!wording.invitations || survey.permit?.invitation) return null;
  const { blind, unblind } = await import("./invitation.js");
  const fresh = async () => {
    const id = newIdentifier();
    return { token, id, ...(await blind(wording.invitations, id)) };
  };
  // kept first: the same link is answered only once
  const made = await fresh();
  const permit = await memory.permit((kept) => (kept && (kept.invitation || !token || kept.token === token) ? kept : made));
  if (!permit.invitation) {
    const response = await post("invitations", { token: permit.token, blinded: permit.blinded });
    // throws if a network's sign-in page answered; the collector may have signed before its answer was lost
    const isRefused = [403, 409].includes(response?.status);
    const { signature } = response?.ok || isRefused ? await response.json() : {};
    // a link that admits nobody here leaves nothing
    if (isRefused && permit.id === made.id) await memory.permit((kept) => (kept?.id === permit.id ? undefined : kept));
    if (response?.status === 403)
      return notice(() => [t("This link is not known"), t("Please open the whole link that you were given, or ask for a new one. Nothing was asked or sent.")]);
    if (response?.status === 409)
      return notice(() => [t("This link was already used"), t("It was opened in another browser. Please go on there. Each link is good for one person and one browser.")]);
    if (!response?.ok) return t("The survey could not be reached. Is this device online?");
    const invitation = await unblind(wording.invitations, permit.id, permit.secret, signature);
    survey.permit = await memory.permit((kept) => (kept?.invitation ? kept : { id: permit.id, invitation }));
  } else survey.permit = permit;
  return null;
}

function questionView(k) {
  const { wording } = survey;
  const { pages, path } = way();
  const asked = new Set(path.members(k));
  const members = pages[k].filter(({ name }) => asked.has(name));
  // what only decides the next questions is used on this device alone
  const isUsed = members.some((member) => askedAbout(survey.deployment, person.asked).includes(member));
  const field = questionField({ members, wording, texts, entered: person.entered, place: `q-${k}` });
  const failure = element("p", { class: "mistake", role: "alert" });
  const press = element("button", { type: "submit", class: "main" });
  const label = element("p", { id: "progress", class: "quiet" });
  const bar = element("progress", { "aria-hidden": "true" });
  const describe = () => {
    const { k: position, n: count, isOpen } = way().path.progress(k);
    label.textContent = isOpen ? t("Question {k} of at most {n}", { k: position, n: count }) : t("Question {k} of {n}", { k: position, n: count });
    [bar.max, bar.value] = [count, position];
    press.textContent = way().path.next(k) < 0 ? t("Randomize my answers and send the result") : t("Next");
  };
  const back = () => show(path.back(k) < 0 ? startView : () => questionView(path.back(k)));
  const form = element(
    "form",
    { autocomplete: "off", noValidate: true },
    label,
    bar,
    field.block,
    !isUsed && element("p", { class: "quiet" }, t("This answer is not sent. It only decides what you are asked next.")),
    failure,
    element("div", { class: "steps" }, press, button(t("Back"), back)),
    survey.outbox && button(t("Start over for the next person"), begin),
  );
  // a browser that translates the page would send the questions of this person's path to others
  form.translate = !wording.branches;
  field.heading.setAttribute("aria-describedby", "progress");
  describe();
  form.addEventListener("change", describe);
  form.addEventListener("input", describe);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!field.check()) return;
    const next = way().path.next(k);
    if (next >= 0) return show(() => questionView(next));
    press.disabled = true;
    const problem = await randomizeAndSend(way().path.record(askedAbout(survey.deployment, person.asked)));
    press.disabled = false;
    if (problem) failure.replaceChildren(problem);
  });
  return form;
}

/** Draws, stores, sends and shows the report; returns an error message if nothing could be drawn. */
async function randomizeAndSend(answers) {
  try {
    if (survey.outbox) showKiosk(await survey.outbox.answer(answers, person.asked), answers);
    else {
      const { isNew, ...entry } = await survey.memory.answer(answers, person.asked, survey.permit);
      showReport({ entry, answers: isNew ? answers : null, note: isNew ? null : otherWindow });
    }
  } catch (error) {
    return t("This browser could not store the report, so nothing was sent: {reason}", { reason: error.message });
  }
  return null;
}

/** Shows a report, and sends it unless the collector has it; `answers` are the entered ones, if they are known. */
function showReport({ entry, answers = null, note = null }) {
  const { memory } = survey;
  person = null;
  let outcome = { state: entry.delivered ? "sent" : "sending" };
  const forget = () => {
    answers = null;
    draw();
  };
  const again = () => {
    status.textContent = t("Sending your report …");
    return sending();
  };
  const redraw = (next) => {
    const isNew = next.state !== outcome.state || next.status !== outcome.status || status.textContent;
    outcome = next;
    status.textContent = "";
    if (isNew) draw();
  };
  // the browser's data may have been deleted since the report was made, and another window may have made another one
  const keep = async () => {
    const { id } = entry.report;
    entry = await memory.keep(entry);
    if (entry.report.id !== id) [answers, note] = [null, otherWindow];
  };
  const attempt = async () => {
    const next = await keep().then(
      () => (entry.delivered ? { state: "sent" } : deliver(entry.report)),
      () => ({ state: "unkept" }),
    );
    // if this is not remembered, the same report is sent again at the next visit
    if (next.state === "sent") await memory.delivered(entry).catch(() => {});
    return next;
  };
  const sending = repeated(async () => {
    // one window after the other: what one has sent, the others need not
    const next = await navigator.locks.request("optrr", attempt);
    redraw(next);
    return next.state === "waiting";
  });
  memory.watch(async () => {
    const kept = await memory.entry().catch(() => undefined);
    if (kept?.delivered && outcome.state !== "sent") sending();
  });
  addEventListener("pagehide", forget);
  show(() => reportView({ ...survey, texts, entry, answers, note: note?.(), outcome, again, forget }));
  if (outcome.state === "sending") sending();
}

/** Thanks one of many people on a device, and gets ready for the next one. */
async function showKiosk(report, answers) {
  person = null;
  restartIdle();
  const shown = { report, answers, outcome: { state: "sending" } };
  const send = async () => {
    shown.outcome = await deliver(report);
    // if this is not remembered, the same report is sent again later
    if (shown.outcome.state === "sent") await survey.outbox.delivered(report).catch(() => {});
    survey.send();
    if (view === thanks) draw();
  };
  const thanks = () => kioskView({ ...survey, ...shown, texts, seconds: SHOWN, again: send, next: begin });
  show(thanks);
  await send();
}

let leaving;

/** On a device that many people use, starts over if nobody touches it. */
function restartIdle() {
  clearInterval(leaving);
  if (!survey?.outbox) return;
  let seconds = person ? IDLE : SHOWN;
  // timers stand still while a device sleeps, and clocks may be set back
  const end = Date.now() + 1000 * seconds;
  leaving = setInterval(() => {
    seconds -= 1;
    if (seconds <= 0 || Date.now() >= end) begin();
  }, 1000);
}

function notice(text, again) {
  show(() => {
    const [heading, ...sentences] = text();
    return element("section", { class: "notice" }, newHeading(heading), ...sentences.map((each) => element("p", {}, each)), again && button(t("Try again"), again, "main"));
  });
  status.textContent = "";
}

// a page cached for the back button must not show the answers to the next person
addEventListener("pagehide", () => {
  if (survey?.outbox) return content.replaceChildren();
  if (!person) return;
  person = { ...newPerson(), asked: person.asked };
  if (view !== startView && texts) show(startView);
});
addEventListener("pageshow", ({ persisted }) => persisted && survey?.outbox && begin());
// a personal link that is opened in the window of this page
addEventListener("hashchange", () => location.reload());
for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, restartIdle);

start();
