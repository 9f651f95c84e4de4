// The survey: load the questions, ask, randomize once, send only the result, show both records, forget what was entered.

import { browserStore } from "./browser-store.js";
import { button, element, newHeading } from "./elements.js";
import { surveyForm } from "./form.js";
import { answerOnce, ledger, readDeployment } from "./optrr.js";
import { reportView } from "./report.js";
import { deliver } from "./sending.js";

const BEFORE = "You have answered before in this browser. This is the report that was made then.";
const OTHER_TAB = "This browser had already answered, in another window. That report counts; what you entered now was not used.";

const content = document.getElementById("content");
const status = document.getElementById("status");
const store = browserStore();

async function start() {
  if (!isSecureContext)
    return notice("This page is not secure", "It has to come over https; otherwise somebody on the way could change it. Nothing is asked or sent.");
  status.textContent = "Loading the questions …";
  try {
    const [deployment, wording] = await Promise.all([loaded("sampler.json"), loaded("survey.json")]);
    await ask(await readDeployment(deployment), JSON.parse(new TextDecoder().decode(wording)));
  } catch (error) {
    notice("The survey could not be loaded", `${error.message}. Nothing was asked or sent.`, start);
  }
}

async function loaded(path) {
  const response = await fetch(path, { credentials: "omit" }).catch(() => {
    throw new Error("The survey's server cannot be reached");
  });
  if (!response.ok) throw new Error(`The server answered with ${response.status} for ${path}`);
  return response.arrayBuffer();
}

async function ask(deployment, wording) {
  introduce(wording);
  let kept;
  try {
    kept = await store.update(deployment.design, (entry) => entry);
  } catch {
    const why = "It is switched off for this page, or this is a private window. What was sent has to be remembered, so that nobody is asked twice.";
    return notice("This browser keeps nothing", `${why} Please allow it, or use another browser. Nothing was asked or sent.`, start);
  }
  if (kept) return showReport({ deployment, wording, entry: kept, answers: null, note: BEFORE });
  const submitted = (answers) => randomizeAndSend(deployment, wording, answers);
  const others = (await ledger(store)).entries;
  // what it will be is read before it is agreed to
  const spent = await ledger({ all: async () => [...others, { epsilon: deployment.epsilon.total }] });
  content.replaceChildren(surveyForm({ deployment, wording, spent, submitted }));
  status.textContent = "";
}

function introduce({ title, asker, introduction, language }) {
  const texts = { title, asker: asker && `Asked by ${asker}`, introduction };
  for (const [id, text] of Object.entries(texts)) {
    const place = document.getElementById(id);
    if (!text) continue;
    place.textContent = text;
    place.hidden = false;
    if (language) place.lang = language;
  }
  if (title) document.title = title;
}

/** Draws and stores the report, sends it and shows it; what went wrong where nothing could be drawn. */
async function randomizeAndSend(deployment, wording, answers) {
  let remembered;
  try {
    remembered = await answerOnce(deployment, answers, store);
  } catch (error) {
    return `The report could not be stored in this browser, so nothing was sent: ${error.message}`;
  }
  const { isNew, ...entry } = remembered;
  await showReport({ deployment, wording, entry, answers: isNew ? answers : null, note: isNew ? null : OTHER_TAB });
  return null;
}

/** Shows a report, and sends it unless the collector has it. */
async function showReport(shown) {
  const spent = await ledger(store);
  let answers = shown.answers;
  let outcome = { state: shown.entry.delivered ? "sent" : "sending" };
  const draw = () => {
    content.replaceChildren(reportView({ ...shown, answers, outcome, spent, again: send, forget }));
    status.textContent = outcome.state === "sending" ? "Sending your report …" : "";
    if (outcome.state !== "sending") document.getElementById("outcome").focus();
  };
  const forget = () => {
    answers = null;
    draw();
  };
  const send = async () => {
    outcome = { state: "sending" };
    draw();
    outcome = await deliver(shown.entry.report);
    if (outcome.state === "sent") await store.update(shown.entry.report.design, (entry) => ({ ...entry, delivered: true }));
    draw();
  };
  // see the form: what was entered is gone when the page is left
  addEventListener("pagehide", forget);
  return outcome.state === "sending" ? send() : draw();
}

function notice(heading, text, again) {
  const title = newHeading(heading);
  const retry = again ? button("Try again", again, "main") : null;
  content.replaceChildren(element("section", { class: "notice" }, title, element("p", {}, text), ...(retry ? [retry] : [])));
  status.textContent = "";
  title.focus();
}

start();
