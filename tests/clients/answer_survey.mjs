// People who answer a survey at the address given first, each in a browser of their own: every line of standard input is one
// person's answers as JSON. Prints how many reports were acknowledged.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [base, client] = process.argv.slice(2);
const { answerOnce, readDeployment } = await import(pathToFileURL(client));
const AT_ONCE = 32;

class NewBrowser {
  #kept = new Map();
  async update(key, change) {
    const entry = change(this.#kept.get(key));
    this.#kept.set(key, entry);
    return entry;
  }
}

const deployment = await readDeployment(await (await fetch(`${base}/sampler.json`)).arrayBuffer());
let acknowledged = 0;

async function answer(line) {
  const { report } = await answerOnce(deployment, JSON.parse(line), new NewBrowser());
  const reply = await fetch(`${base}/reports`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(report),
  });
  if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`);
  acknowledged += 1;
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function people() {
  for (let next = await lines.next(); !next.done; next = await lines.next()) await answer(next.value);
}
await Promise.all(Array.from({ length: AT_ONCE }, people));
console.log(acknowledged);
