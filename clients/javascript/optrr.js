// Randomizes by docs/deployment-format.md; optrr.d.ts describes the exports.

export class Refused extends Error {}

const must = (holds, what) => {
  if (!holds) throw new Refused(what);
};
const isText = (x) => typeof x === "string" && !/\p{Cs}/u.test(x);
const isHex = (x, digits) => isText(x) && x.length === digits && !/[^0-9a-f]/.test(x);
const isBelow = (x, limit) => Number.isInteger(x) && x >= 0 && x < limit;
const isSet = (list) => Array.isArray(list) && new Set(list).size === list.length;
// escapes commas within keys
const keysOf = (x) => Object.keys(x).map(encodeURIComponent).join();
const hex = (bytes) => Array.from(bytes, (x) => x.toString(16).padStart(2, 0)).join("");
const random = (count) => crypto.getRandomValues(new Uint8Array(count));
// fills an array of 32-bit words; a call hands out 65536 bytes at most
const randomWords = (words) => {
  const all = new DataView(words.buffer);
  for (let at = 0; at < words.length; at += 16384)
    crypto.getRandomValues(new Uint8Array(words.buffer, 4 * at, 4 * Math.min(16384, words.length - at)));
  // the same numbers from the same bytes on every machine
  for (let i = 0; i < words.length; i++) words[i] = all.getUint32(4 * i);
  return words;
};
const wordOf = (bits) => hex(random(bits / 8));
const cut = (text, digits, s) => text.slice(digits * s, digits * (s + 1));

export async function readDeployment(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const file = JSON.parse(text);
    const { digest, ...content } = file;
    must(file.format === "optrr-deployment/1", "format");
    const { questions, trials } = file;
    const kind = questions ? "ends,epsilon,format,questions,software" : trials ? "epsilon,format,software,trials" : "epsilon,format,layers,software";
    // parsing keeps the order of keys
    must(keysOf(file) === `attributes,bits,design,digest,${kind}`, "keys");
    must(text.replace(/\n$/, "") === JSON.stringify(file), "not in canonical form");
    const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(content)));
    must(digest === hex(new Uint8Array(sum)), "digest");
    const { attributes, bits, design, software } = file;
    must(isText(software) && isHex(design, 64), "design");
    must(isBelow(bits, 6145) && bits && bits % 64 === 0, "bits");
    must(attributes.length && isSet(attributes.map((x) => x.name)) && attributes.every(isAttribute), "attributes");
    const [read, total] = questions ? readQuestions(file) : trials ? readTrials(file) : readLayers(file);
    checkEpsilon(file, total);
    return { ...file, ...read };
  } catch (cause) {
    throw new Refused("unusable file: " + cause.message, { cause });
  }
}

const isAttribute = (x) =>
  keysOf(x) === "categories,name" &&
  isText(x.name) &&
  x.name &&
  isSet(x.categories) &&
  isBelow(x.categories.length - 2, 999999) &&
  x.categories.every((category) => category === null || isText(category));

const FORM =
  /^(choice ends,kind,next|uniform attribute,kind,next|change attribute,changed,kept,kind,(second,second_threshold,)?threshold)$/;

// lists: the next states below each limit of texts, and beyond the last
function readLayers({ attributes, bits, layers }) {
  const digits = bits / 4;
  const visited = layers.flatMap((x) => (x.kind === "choice" ? [] : [x.attribute])).sort((a, b) => a - b);
  must(visited.length === attributes.length && visited.every((x, i) => x === i), "layers");
  must(layers.at(-1).kind !== "choice", "last layer");
  const read = layers.map((layer, k) => {
    const { kind, attribute, ends, next, second_threshold, threshold, second, changed, kept } = layer;
    const choice = kind === "choice";
    const given = (list) => list.filter((x) => x !== undefined);
    const texts = choice ? next.slice(1).map((_, c) => cut(ends, digits, c)) : given([second_threshold, threshold]);
    const lists = choice ? next.map((x) => [x]) : given([second, changed, kept, next]);
    const states = lists[0].length;
    must(isText(kind) && FORM.test(kind + " " + keysOf(layer)) && states, "layer " + k);
    must(lists.every((x) => Array.isArray(x) && x.length === states), "layer " + k);
    must(texts.every((x) => isHex(x, digits * states) && (!choice || /^.{16}0*$/.test(x))), "thresholds of layer " + k);
    must(!choice || texts.join("") === ends, "ends of layer " + k);
    return { kind, attribute, size: choice ? 1 : attributes[attribute].categories.length, texts, lists };
  });
  return [{ layers: read }, totalOf(read, bits)];
}

// §9
function readTrials({ attributes, bits, trials }) {
  const { balls, count, ends, uniform } = trials;
  must(keysOf(trials) === "balls,count,ends,uniform" && bits === 64 && isBelow(count - 1, 4096), "trials");
  must(Array.isArray(balls) && isHex(uniform, 16) && isHex(ends, 16 * (balls.length - 1)), "trials");
  const limits = pieces(ends, 16);
  must(isAscending(limits, "0".repeat(16)), "ends");
  const read = { count, uniform, ends: limits, balls: balls.map((ball, k) => readBall(ball, attributes.length, k)) };
  must(read.balls.reduce((sum, { end }) => sum + end * attributes.length, 0) <= 2 ** 24, "totals");
  return [{ trials: read }, costOfTrials(read, attributes)];
}

const pieces = (text, digits) => Array.from({ length: text.length / digits }, (_, i) => cut(text, digits, i));

function readBall(ball, m, k) {
  const { acceptance, least, log_ratio: unit, second_thresholds, thresholds, weights } = ball;
  const what = "ball " + k;
  must(keysOf(ball) === "acceptance,least,log_ratio,second_thresholds,thresholds,weights", what);
  must(isText(acceptance) && isHex(acceptance, acceptance.length & ~7) && /[^0]/.test(acceptance), what);
  must(isHex(thresholds, 16 * m) && isHex(second_thresholds, 16 * m) && isBelow(least, 2 ** 24), what);
  must(Number.isSafeInteger(unit) && Array.isArray(weights) && weights.length === m, what);
  const end = least + acceptance.length / 8;
  must(Math.abs(unit) * end <= 2500 * 2 ** 40, what);
  const [changed, second] = [thresholds, second_thresholds].map((text) => pieces(text, 16));
  must(weights.every((x) => isBelow(x, end + 1)) && second.every((x, i) => x <= changed[i]), what);
  return { least, end, weights, rho: unit / 2 ** 40, changed, second, accepted: pieces(acceptance, 8) };
}

// how far a threshold of 64 bits is above another one, over 2^64: exact where doubles would cancel
const gap = (high, low) => Number(high - low) / 2 ** 64;
const FULL = 2n ** 64n;

// ln of the chance that no trial is accepted, and of the largest density of what is accepted
function costOfBall({ least, end, weights, rho, changed, second, accepted }, attributes, count) {
  const chances = accepted.map((x) => parseInt(x, 16) / 2 ** 32);
  let f = new Float64Array(end);
  f[0] = 1;
  let most = chances.reduce((best, x, k) => Math.max(best, Math.log(x) - rho * (least + k)), -Infinity);
  let no = 0;
  changed.forEach((text, i) => {
    const [a, b, w, r] = [BigInt("0x" + text), BigInt("0x" + second[i]), weights[i], attributes[i].categories.length];
    const [kept, p, q] = [gap(FULL, a), gap(a, b), gap(b, 0n)];
    const change = logSum([Math.log(p), Math.log(q) + rho]) + rho * w + Math.log(r / (r - 1));
    most += Math.max(Math.log(kept * r), change);
    const tail = (from) => f.subarray(Math.max(0, from)).reduce((sum, x) => sum + x, 0);
    no += p * tail(end - w) + q * tail(end - w - 1);
    f = f.map((x, k) => x * kept + (k < w ? 0 : f[k - w] * p) + (k <= w ? 0 : f[k - w - 1] * q));
  });
  const a = chances.reduce((sum, x, k) => sum + x * f[least + k], 0);
  f.forEach((x, k) => (no += k < least ? x : x * (1 - chances[k - least])));
  must(a >= 1e-290, "hardly any trial is accepted");
  return [count * (a < 0.5 ? Math.log1p(-a) : Math.log(no)), most - Math.log(a)];
}

function costOfTrials({ balls, count, ends, uniform }, attributes) {
  const limits = [0n, ...ends.map((x) => BigInt("0x" + x)), FULL];
  const c = BigInt("0x" + uniform);
  const costs = balls.map((ball) => costOfBall(ball, attributes, count));
  const tried = balls.map((_, k) => gap(FULL, c) * gap(limits[k + 1], limits[k]));
  const alpha = gap(c, 0n) + tried.reduce((sum, x, k) => sum + x * Math.exp(costs[k][0]), 0);
  must(alpha >= 1e-290, "an answer is hardly ever uniform");
  return logSum([0, ...costs.map(([none, most], k) => Math.log(tried[k] / alpha) + Math.log(-Math.expm1(none)) + most)]);
}

const isNumbers = (list, limit) => isSet(list) && list.length && list.every((x) => isBelow(x, limit));
const isAscending = (list, least) => list.every((x, i) => x > (i ? list[i - 1] : least));

// parts: how many categories, or cells, each subset is taken from
function readQuestions({ attributes, bits, ends, questions }) {
  const digits = bits / 4;
  must(Array.isArray(questions) && isHex(ends, digits * (questions.length - 1)), "ends");
  const limits = questions.slice(1).map((_, k) => cut(ends, digits, k));
  must(isAscending(limits, "0".repeat(digits)), "ends");
  const read = questions.map((question, k) => {
    const { attributes: members, likely, subset_sizes: chosen, threshold } = question;
    const what = "question " + k;
    must(keysOf(question) === "attributes,likely,subset_sizes,threshold" && isNumbers(members, attributes.length), what);
    const sizes = members.map((i) => attributes[i].categories.length);
    const cells = sizes.reduce((product, r) => product * BigInt(r), 1n);
    const parts = chosen.length === sizes.length ? sizes : [Number(cells)];
    must(Array.isArray(chosen) && chosen.length === parts.length && parts.length <= 12, what);
    must(cells <= (parts.length > 1 ? 2n ** 62n : 65536n) && chosen.every((x, i) => x && isBelow(x, parts[i])), what);
    const patterns = 2 ** parts.length;
    must(isNumbers(likely, patterns) && likely.length < patterns && isAscending(likely, -1), what);
    must(isHex(threshold, digits) && /[^0]/.test(threshold), "threshold of " + what);
    return { ...question, sizes, parts };
  });
  must(read.reduce((sum, { parts }) => sum + 2 ** parts.length, 0) <= 2 ** 20, "patterns");
  return [{ ends: limits, questions: read }, Math.max(...read.map(costOf(bits)))];
}

// the patterns of matches with their weights, unlikely ones first
function kindsOf({ parts, subset_sizes, likely }) {
  const weights = parts.reduce(
    (list, r, i) => [r - subset_sizes[i], subset_sizes[i]].flatMap((x) => list.map((weight) => weight * BigInt(x))),
    [1n],
  );
  const kinds = [[], []];
  const chosen = new Set(likely);
  weights.forEach((weight, pattern) => kinds[+chosen.has(pattern)].push([pattern, weight]));
  return kinds;
}

const weightOf = (kind) => kind.reduce((sum, [, weight]) => sum + weight, 0n);

const costOf = (bits) => (question) => {
  const [unlikely, likely] = kindsOf(question).map((kind) => log(weightOf(kind), 0));
  const a = BigInt("0x" + question.threshold);
  return Math.abs(log((1n << BigInt(bits)) - a, bits) + unlikely - log(a, bits) - likely);
};

// ln(x/2^bits)
const log = (x, bits) => {
  must(x > 0n, "thresholds");
  const text = x.toString(16);
  return Math.log(Number("0x" + text.slice(0, 13).padEnd(13, 0))) + (4 * text.length - 52 - bits) * Math.LN2;
};

const logSum = (logs) => {
  const most = Math.max(...logs);
  return most === -Infinity ? most : most + Math.log(logs.reduce((sum, x) => sum + Math.exp(x - most), 0));
};

// §4, with ln of top and bottom
function totalOf(layers, bits) {
  let after = [[0, 0]];
  for (const { kind, size, texts, lists } of [...layers].reverse())
    after = lists[0].map((_, s) => {
      const bounds = [0n, ...texts.map((x) => BigInt("0x" + cut(x, bits / 4, s))), 1n << BigInt(bits)];
      const logs = lists.map((x, k) => log(bounds[k + 1] - bounds[k], bits));
      must(lists.every((x) => isBelow(x[s], after.length)), "next state");
      return [Math.max, Math.min].map((pick, side) => {
        const paths = lists.map((x, k) => logs[k] + after[x[s]][side]);
        return kind === "change"
          ? pick(paths.pop(), logSum(paths) - Math.log(size - 1))
          : logSum(paths) - Math.log(size);
      });
    });
  must(after.length === 1, "layer 0");
  return after[0][0] - after[0][1];
}

const nats = (text) => {
  must(isText(text) && /^(?!-0\.0*$)-?(0|[1-9]\d*)\.\d{15}$/.test(text), "form of an epsilon");
  return BigInt(text.replace(".", ""));
};

function checkEpsilon({ attributes, epsilon, questions }, truth) {
  const none = attributes.map(() => "0." + "0".repeat(15));
  const lists = questions ? [none, none] : [epsilon.attributes, epsilon.conditional];
  const [own, conditional] = lists.map((list) => list.map(nats));
  const total = nats(epsilon.total);
  must(keysOf(epsilon) === (questions ? "" : "attributes,conditional,") + "total", "epsilon");
  must(own.length === attributes.length, "epsilon");
  must(conditional.length === own.length && [total, ...conditional].every((x) => x >= 0n && x <= total), "epsilon");
  must(truth < Infinity && truth <= Number(epsilon.total) + 1e-9 * (1 + truth), "epsilon is too small");
}

const numberBelow = (n) => {
  for (;;) {
    const w = n > 1 ? randomWords(new Uint32Array(1))[0] : 0;
    // the rest would favour some numbers
    if (w < 2 ** 32 - (2 ** 32 % n)) return w % n;
  }
};

const wideBelow = (n) => {
  for (;;) {
    const w = n > 1n ? BigInt("0x" + hex(random(8))) : 0n;
    if (w < 2n ** 64n - (2n ** 64n % n)) return w % n;
  }
};

function codesOf(attributes, answers) {
  const codes = attributes.map(({ name, categories }) => {
    const x = answers?.[name];
    const code = categories.indexOf(/^[bn]/.test(typeof x) ? x + "" : x);
    must(x !== undefined, `the answer to ${name} is missing`);
    must(code >= 0, `the answer to ${name} is not one of its declared categories`);
    return code;
  });
  must(Object.keys(answers).length === codes.length, "remove keys that are not attributes");
  return codes;
}

export function attributesOf({ attributes, questions }, table) {
  must(isBelow(table - 1, questions.length), "table");
  return questions[table - 1].attributes.map((i) => attributes[i]);
}

// the first word, taken before the person is asked
export function ask({ bits, ends }) {
  const asking = wordOf(bits);
  return 1 + ends.filter((x) => x <= asking).length;
}

export function draw(deployment, answers, asked) {
  const { attributes, bits, questions } = deployment;
  if (!questions) return { values: randomize(deployment, answers) };
  const given = asked === undefined ? attributes : attributesOf(deployment, asked);
  const codes = codesOf(given, answers);
  const table = asked ?? ask(deployment);
  const matching = wordOf(bits);
  const question = questions[table - 1];
  const { attributes: members, parts, sizes, subset_sizes, threshold } = question;
  const kinds = kindsOf(question);
  // both are taken, since how much is taken must not show the answer
  const numbers = kinds.map((kind) => wideBelow(weightOf(kind)));
  const kind = +(threshold <= matching);
  const [pattern] = kinds[kind].find(([, weight]) => (numbers[kind] -= weight) < 0n);
  const truth = members.map((i) => codes[given.indexOf(attributes[i])]);
  const own = parts.length === sizes.length ? truth : [truth.reduce((cell, code, i) => cell * sizes[i] + code, 0)];
  const subsets = parts.map((r, i) => {
    const size = subset_sizes[i];
    const others = [...Array(r).keys()].filter((x) => x !== own[i]);
    for (let j = 0; j < size; j++) {
      const at = j + numberBelow(r - 1 - j);
      [others[j], others[at]] = [others[at], others[j]];
    }
    const chosen = (pattern >> i) & 1 ? [own[i], ...others.slice(0, size - 1)] : others.slice(0, size);
    return chosen.sort((a, b) => a - b).join(" ");
  });
  return { table, cells: subsets.join("|") };
}

export function randomize({ attributes, bits, layers, trials }, answers) {
  must(layers || trials, "a file of questions: use draw");
  const codes = codesOf(attributes, answers);
  if (trials) return drawTrials(trials, attributes, codes);
  let s = 0;
  for (const { kind, attribute, size, texts, lists } of layers) {
    const word = kind === "uniform" || wordOf(bits);
    const way = texts.filter((x) => cut(x, bits / 4, s) <= word).length;
    // always taken, since how much is taken must not show the answer
    const step = kind === "change" ? 1 + numberBelow(size - 1) : numberBelow(size);
    if (kind === "uniform") codes[attribute] = step;
    if (kind === "change" && way < texts.length) codes[attribute] = (codes[attribute] + step) % size;
    s = lists[way][s];
  }
  return codes.map((code, i) => attributes[i].categories[code]);
}

const isWordBelow = (words, limits, k) => +(words[k] < limits[k] || (words[k] === limits[k] && words[k + 1] < limits[k + 1]));

// every trial is made, since how many are made must not show the answer
function drawTrials({ balls, count, ends, uniform }, attributes, codes) {
  const isUniform = wordOf(64) < uniform;
  const place = wordOf(64);
  const { least, weights, changed, second, accepted } = balls[ends.filter((x) => x <= place).length];
  const halves = (list) => Uint32Array.from(list.flatMap((x) => pieces(x, 8)), (x) => parseInt(x, 16));
  const [limits, heavier, limit] = [changed, second, accepted].map(halves);
  const m = weights.length;
  const words = new Uint32Array(2 * m + 1);
  let chosen;
  for (let trial = 0; trial < count; trial++) {
    randomWords(words);
    const set = new Uint8Array(m);
    let total = -least;
    for (let i = 0; i < m; i++) {
      set[i] = isWordBelow(words, limits, 2 * i);
      total += set[i] * weights[i] + isWordBelow(words, heavier, 2 * i);
    }
    if (words[2 * m] < limit[total]) chosen ??= set;
  }
  return codes.map((code, i) => {
    const { categories } = attributes[i];
    const [free, step] = [numberBelow(categories.length), 1 + numberBelow(categories.length - 1)];
    return categories[isUniform || !chosen ? free : chosen[i] ? (code + step) % categories.length : code];
  });
}

const spent = (entries) => entries.reduce((sum, x) => sum + nats(x.epsilon), 0n);

export async function answerOnce(deployment, answers, store, limit, asked) {
  const { design, epsilon: { total: epsilon } } = deployment;
  let isNew = false;
  const entry = await store.update(design, (kept, all) => {
    if (kept) return kept;
    if (limit !== undefined) {
      const what = `limit ${limit} (${typeof limit}): give a number of nats from 0 to 1e20`;
      must(Number.isFinite(limit) && limit >= 0 && limit <= 1e20, what);
      must(spent([...all, { epsilon }]) <= nats(limit.toFixed(15)), "with this design, the total epsilon would be above the limit");
    }
    isNew = true;
    const drawn = draw(deployment, answers, asked);
    return { epsilon, report: { format: "optrr-report/1", design, id: hex(random(16)), ...drawn } };
  });
  return { ...entry, isNew };
}

export async function ledger(store) {
  const entries = await store.all();
  return { entries, epsilon: String(spent(entries)).padStart(16, 0).replace(/.{15}$/, ".$&") };
}
