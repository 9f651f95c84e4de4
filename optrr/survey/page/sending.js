// Sends reports, and interprets the collector's answers. The contract is in docs/survey.md, §9.

import { t } from "./catalog.js";

// Status codes after which the same report may be accepted later.
const LATER = new Set([408, 425, 429]);
const PATIENCE = 30_000;
const LONGEST = 300;
// Milliseconds between tries; they double from the first to the last.
const [SOON, SELDOM] = [5_000, 600_000];

/** One POST of JSON; null if no answer came. */
export const post = (path, content) =>
  fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(content),
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    signal: AbortSignal.timeout(PATIENCE),
  }).catch(() => null);

/** Sends a report once: {state: "sent" | "waiting" | "refused", status, said}. */
export async function deliver(report) {
  const response = await post("reports", report);
  if (!response) return { state: "waiting" };
  const { ok, status } = response;
  const body = await response.json().catch(() => null);
  // the sign-in page of a network may answer with 200 as well
  if (ok) return { state: body?.kept === true ? "sent" : "waiting", status };
  if (status >= 500 || LATER.has(status)) return { state: "waiting", status };
  return { state: "refused", status, said: typeof body?.error === "string" ? body.error.slice(0, LONGEST) : "" };
}

/** Why a report is not delivered, in words. */
export function reasonText({ state, status, said }) {
  if (state === "waiting" && !status) return t("The survey could not be reached. Is this device online?");
  if (state === "waiting" && status < 300) return t("The answer came from somewhere else. Does this network ask you to sign in first?");
  if (state === "waiting") return t("The survey cannot accept it now (answer {status}).", { status: String(status) });
  if (status === 410) return t("The survey is closed.");
  if (status === 409) return t("Another report has the same identifier.");
  const reason = said || t("answer {status}", { status: String(status) });
  return t("The survey does not accept it: {reason}", { reason });
}

/**
 * A function that calls `attempt`, which resolves to true if it must be called again: when the device is online again, when the
 * page is seen again, and after growing waits in between.
 */
export function repeated(attempt) {
  let [wait, timer, running, isOpen] = [SOON, null, null, false];
  const once = async () => {
    clearTimeout(timer);
    isOpen = await attempt();
    if (isOpen) timer = setTimeout(act, wait);
    wait = isOpen ? Math.min(2 * wait, SELDOM) : SOON;
  };
  const act = () => {
    running ??= once().finally(() => {
      running = null;
    });
    return running;
  };
  const wake = () => isOpen && document.visibilityState === "visible" && act();
  addEventListener("online", wake);
  document.addEventListener("visibilitychange", wake);
  return act;
}
