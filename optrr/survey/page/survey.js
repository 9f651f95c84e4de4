// The survey: load the questions, ask, randomize once, send only the result, show both records, forget the true answers.

import { button, element, newHeading } from "./elements.js";
import { surveyForm } from "./form.js";
import { memoryOf, Unreadable } from "./memory.js";
import { readDeployment } from "./optrr.js";
import { reportView } from "./report.js";
import { deliver } from "./sending.js";

const BEFORE = "You have answered before in this browser. This is your report from then.";
const OTHER_TAB = "You have already answered in another window of this browser. That report counts; the answers you entered now were not used.";
const LOST =
  "The data that this browser stored for this survey cannot be read, so we cannot tell if you have answered. To keep anyone from answering twice, nothing is asked or sent. " +
  "If you are sure that you have not answered here, delete this site's data in your browser and try again.";

const content = document.getElementById("content");
const status = document.getElementById("status");

async function start() {
  if (!isSecureContext)
    return notice("This page is not secure", "Its address must begin with https. Otherwise, others could change the page on its way to you. Nothing is asked or sent.");
  // start only once: a second load would replace a form that is being filled in
  content.replaceChildren();
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
    throw new Error("The server of the survey cannot be reached");
  });
  if (!response.ok) throw new Error(`The server answered with ${response.status} for ${path}`);
  return response.arrayBuffer();
}

async function ask(deployment, wording) {
  introduce(wording);
  const survey = { deployment, wording, memory: memoryOf(deployment, wording) };
  let kept, asked;
  try {
    kept = await survey.memory.entry();
    if (!kept) asked = await survey.memory.asked();
  } catch (error) {
    if (error instanceof Unreadable) return notice("We cannot tell if you have answered", LOST, start);
    const why = "Storage is switched off for this page, or this is a private window. The browser must remember your report, so that you are not asked twice.";
    return notice("This browser cannot store your report", `${why} Please allow it, or use another browser. Nothing was asked or sent.`, start);
  }
  if (kept) return showReport({ ...survey, entry: kept, answers: null, note: BEFORE });
  const submitted = (answers) => randomizeAndSend(survey, answers, asked);
  // the total is shown before consent
  const spent = await survey.memory.spent({ epsilon: deployment.epsilon.total });
  content.replaceChildren(surveyForm({ deployment, wording, asked, spent, submitted }));
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

/** Draws, stores, sends and shows the report; returns an error message if nothing could be drawn. */
async function randomizeAndSend(survey, answers, asked) {
  let remembered;
  try {
    remembered = await survey.memory.answer(answers, asked);
  } catch (error) {
    return `This browser could not store the report, so nothing was sent: ${error.message}`;
  }
  const { isNew, ...entry } = remembered;
  await showReport({ ...survey, entry, answers: isNew ? answers : null, note: isNew ? null : OTHER_TAB });
  return null;
}

/** Shows a report, and sends it unless the collector has it. */
async function showReport({ memory, ...shown }) {
  const spent = await memory.spent();
  let { entry, answers, note } = shown;
  let outcome = { state: entry.delivered ? "sent" : "sending" };
  const draw = () => {
    content.replaceChildren(reportView({ ...shown, entry, answers, note, outcome, spent, again: send, forget }));
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
    outcome = await keep().then(() => deliver(entry.report), () => ({ state: "unkept", reason: null }));
    // if this is not remembered, the same report is sent again at the next visit
    if (outcome.state === "sent") await memory.delivered(entry).catch(() => {});
    draw();
  };
  // the browser's data may have been deleted since the report was made, and another window may have made another one
  const keep = async () => {
    const { id } = entry.report;
    entry = await memory.keep(entry);
    if (entry.report.id !== id) [answers, note] = [null, OTHER_TAB];
  };
  // see the form: the entered answers are gone when the page is left
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
