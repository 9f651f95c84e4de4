// Runs the JavaScript client over given bytes and records, in Node and in browsers alike.

const encode = (text) => new TextEncoder().encode(text);
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (x) => parseInt(x, 16));

/** Puts a stream in the place of the system's random bytes; returns how many were taken. */
export function feed(stream) {
  let at = 0;
  crypto.getRandomValues = (array) => {
    if (at + array.length > stream.length) throw new Error("the stream is used up");
    array.set(stream.subarray(at, at + array.length));
    at += array.length;
    return array;
  };
  return () => at;
}

const answersOf = (deployment, values) => Object.fromEntries(deployment.attributes.map((x, i) => [x.name, values[i]]));

/** For every case of every vector the randomized record, what was taken of its stream, and what a stream shorter by a byte gives. */
export function vectors(client, list) {
  return Promise.all(list.map((vector) => cases(client, vector)));
}

async function cases(client, { deployment: text, cases: given }) {
  const deployment = await client.readDeployment(encode(text));
  return given.map(({ bytes, record }) => {
    const answers = answersOf(deployment, record);
    const stream = bytesOf(bytes);
    const taken = feed(stream);
    const randomized = attempt(() => drawn(client, deployment, answers));
    const all = taken();
    feed(stream.subarray(0, -1));
    const shorter = attempt(() => drawn(client, deployment, answers));
    feed(stream);
    return { randomized, taken: all, shorter, asked: deployment.questions && attempt(() => askedFirst(client, deployment, answers)) };
  });
}

/** The same where the question is drawn first, and only its attributes are answered. */
function askedFirst(client, deployment, answers) {
  const asked = client.ask(deployment);
  const few = client.attributesOf(deployment, asked).map(({ name }) => [name, answers[name]]);
  return client.draw(deployment, Object.fromEntries(few), asked);
}

/** The values of a randomized record, or the answer to a question. */
function drawn(client, deployment, answers) {
  const { values, ...answer } = client.draw(deployment, answers);
  return values ?? answer;
}

function attempt(act) {
  try {
    return act();
  } catch (error) {
    return String(error.message);
  }
}

/** The message with which each file is refused, null where it is taken. */
export async function refusedFiles(client, { files }) {
  const refused = [];
  for (const { text } of files) {
    const error = await client.readDeployment(encode(text)).then(() => null, (error) => error);
    refused.push(error && [error instanceof client.Refused, error.message]);
  }
  return refused;
}

/** The message with which each record is refused before any byte is taken, null where it is not. */
export async function refusedRecords(client, { deployment: text, records }) {
  const deployment = await client.readDeployment(encode(text));
  return records.map(({ record }) => {
    feed(new Uint8Array());
    try {
      client.randomize(deployment, record);
      return null;
    } catch (error) {
      return [error instanceof client.Refused, error.message];
    }
  });
}

/** The record that each client draws, from the same bytes, of answers that are booleans and numbers. */
export async function plainAnswers(client, { text, records, stream }) {
  const deployment = await client.readDeployment(encode(text));
  return records.map((record) => {
    feed(Uint8Array.from(stream));
    return client.randomize(deployment, record);
  });
}

/** SHA-256 of the randomized codes of many records, as 32 bits each, and how many bytes of the stream they took. */
export async function many(client, { text, codes, stream }) {
  const deployment = await client.readDeployment(encode(text));
  const lists = deployment.attributes.map((x) => x.categories);
  const positions = lists.map((list) => new Map(list.map((category, code) => [category, code])));
  const out = new Uint32Array(codes.length);
  const taken = feed(stream);
  for (let at = 0; at < codes.length; at += lists.length) {
    const record = answersOf(deployment, lists.map((list, i) => list[codes[at + i]]));
    client.randomize(deployment, record).forEach((category, i) => (out[at + i] = positions[i].get(category)));
  }
  const sum = await crypto.subtle.digest("SHA-256", out);
  return { taken: taken(), digest: Array.from(new Uint8Array(sum), (x) => x.toString(16).padStart(2, "0")).join("") };
}

/** The same for several laws of a few records each. */
export async function manyLaws(client, laws) {
  const results = [];
  for (const { text, codes, stream } of laws)
    results.push(await many(client, { text, codes: Uint32Array.from(codes), stream: bytesOf(stream) }));
  return results;
}

/** How often each record came out of one, drawn with the system's own bytes. */
export async function draws(client, { deployment: text, record, count }) {
  const deployment = await client.readDeployment(encode(text));
  const answers = answersOf(deployment, record);
  const seen = new Map();
  for (let k = 0; k < count; k++) {
    const key = JSON.stringify(client.randomize(deployment, answers));
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  return [...seen].map(([key, times]) => [JSON.parse(key), times]);
}

/** Answers each design twice, differently the second time, with a store that a module makes: reports, news, ledger. */
export async function answering(client, { deployments, storeModule, path }) {
  const { fileStore } = await import(storeModule);
  const rounds = [];
  for (const pick of [0, 1]) {
    for (const text of deployments) {
      const deployment = await client.readDeployment(encode(text));
      const answers = answersOf(deployment, deployment.attributes.map((x) => x.categories[pick]));
      rounds.push(await client.answerOnce(deployment, answers, fileStore(path)));
    }
  }
  return { rounds, ledger: await client.ledger(fileStore(path)) };
}

/** Answers each design with a limit: the message where it is refused, and how many bytes were drawn, null where it is answered. */
export async function limited(client, { deployments, storeModule, path, limit: number, written }) {
  const { fileStore } = await import(storeModule);
  // JSON cannot hold every limit that a program can give
  const limit = written === undefined ? number : new Function("return " + written)();
  const refused = [];
  for (const text of deployments) {
    const deployment = await client.readDeployment(encode(text));
    const answers = answersOf(deployment, deployment.attributes.map((x) => x.categories[0]));
    const taken = feed(new Uint8Array(1000));
    const answering = client.answerOnce(deployment, answers, fileStore(path), limit);
    refused.push(await answering.then(() => null, (error) => [error instanceof client.Refused, error.message, taken()]));
  }
  return { refused, ledger: await client.ledger(fileStore(path)) };
}

/** What a store that fails gives, and whether bytes were drawn for an entry that was there. */
export async function notAnswering(client, { text }) {
  const deployment = await client.readDeployment(encode(text));
  const answers = answersOf(deployment, deployment.attributes.map((x) => x.categories[0]));
  const full = { update: async (_, change) => (change(undefined), Promise.reject(new Error("the disk is full"))) };
  const failed = await client.answerOnce(deployment, answers, full).catch((error) => error.message);
  feed(new Uint8Array());
  const kept = { epsilon: "1.000000000000000", report: { id: "kept" } };
  // a limit is no reason not to send again what was sent
  const again = await client.answerOnce(deployment, answers, { update: async (_, change) => change(kept, [kept]) }, 0);
  return { failed, again };
}
