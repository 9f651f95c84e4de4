// Sends a report, and interprets the collector's answer. The contract is in the folder's __init__.py.

// Status codes after which the same report may be accepted later.
const LATER = new Set([408, 425, 429]);
const PATIENCE = 30_000;
const LONGEST = 300;
const SOMEBODY_ELSE = "The answer came from somewhere else. Does this network ask you to sign in first?";

/** Sends a report once: {state: "sent" | "waiting" | "refused", reason}. */
export async function deliver(report) {
  let response;
  try {
    response = await fetch("reports", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(report),
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch {
    return { state: "waiting", reason: "The survey could not be reached. Is this device online?" };
  }
  if (response.ok) return (await acknowledged(response)) ? { state: "sent", reason: null } : { state: "waiting", reason: SOMEBODY_ELSE };
  if (response.status >= 500 || LATER.has(response.status))
    return { state: "waiting", reason: `The survey cannot accept it now (answer ${response.status}).` };
  return { state: "refused", reason: await reasonOf(response) };
}

/** Whether the collector confirms that it keeps the report; the sign-in page of a network may answer with 200 as well. */
const acknowledged = (response) => response.json().then((body) => body?.kept === true, () => false);

async function reasonOf(response) {
  if (response.status === 410) return "The survey is closed.";
  if (response.status === 409) return "Another report has the same identifier.";
  const said = await response.json().then((body) => body?.error, () => null);
  const why = typeof said === "string" && said ? said.slice(0, LONGEST) : `answer ${response.status}`;
  return `The survey does not accept it: ${why}`;
}
