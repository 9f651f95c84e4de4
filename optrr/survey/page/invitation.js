// Invitations that nobody can join to a report: RSA blind signatures, RSABSSA-SHA384-PSS-Deterministic of RFC 9474.
//
// The browser draws the report's id, hides it with a random factor, and the collector signs what it sees for a token. Without the
// factor, the signature is one of the id. For every id and every hidden value there is a factor that fits.

const SALT_BYTES = 48;
const HASH = "SHA-384";

/** Hides a report's id: {blinded, secret}. Post `blinded` with the token; keep `secret` until the signature is there. */
export async function blind({ n, e }, id, salt = random(SALT_BYTES), factor = randomBelow(n)) {
  const modulus = number(n);
  const [hidden, inverse] = [power(factor, e, modulus), inverseOf(factor, modulus)];
  const encoded = number(hex(await encode(bytes(id), salt, modulus.toString(2).length - 1)));
  return { blinded: padded((encoded * hidden) % modulus, n), secret: padded(inverse, n) };
}

/** The signature of the id, from that of the hidden value; an error if it is wrong. */
export async function unblind({ n, e }, id, secret, signature) {
  const signed = padded((number(signature) * number(secret)) % number(n), n);
  const jwk = { kty: "RSA", n: base64url(bytes(n)), e: base64url(bytes(padded(BigInt(e), "000000"))) };
  const key = await crypto.subtle.importKey("jwk", jwk, { name: "RSA-PSS", hash: HASH }, false, ["verify"]);
  const right = await crypto.subtle.verify({ name: "RSA-PSS", saltLength: SALT_BYTES }, key, bytes(signed), bytes(id));
  if (!right) throw new Error("the signature of the invitation is wrong");
  return signed;
}

/** EMSA-PSS-ENCODE of RFC 8017, §9.1.1, with MGF1. */
async function encode(message, salt, bits) {
  const length = Math.ceil(bits / 8);
  const hash = await digest(new Uint8Array(8), await digest(message), salt);
  const block = new Uint8Array(length - hash.length - 1);
  block.set([1, ...salt], block.length - salt.length - 1);
  for (let start = 0, count = 0; start < block.length; start += hash.length, count += 1) {
    const mask = await digest(hash, new Uint8Array([count >> 24, count >> 16, count >> 8, count]));
    for (let k = start; k < Math.min(start + mask.length, block.length); k += 1) block[k] ^= mask[k - start];
  }
  block[0] &= 0xff >> (8 * length - bits);
  return new Uint8Array([...block, ...hash, 0xbc]);
}

const digest = async (...parts) => new Uint8Array(await crypto.subtle.digest(HASH, new Uint8Array(parts.flatMap((part) => [...part]))));

const random = (length) => crypto.getRandomValues(new Uint8Array(length));

/** A uniform number between 1 and n − 1. */
function randomBelow(n) {
  for (;;) {
    const drawn = number(hex(random(n.length / 2)));
    if (drawn > 0n && drawn < number(n)) return drawn;
  }
}

function power(base, exponent, modulus) {
  let [result, square] = [1n, base];
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = (result * square) % modulus;
    square = (square * square) % modulus;
  }
  return result;
}

function inverseOf(value, modulus) {
  let [a, b, x, y] = [value, modulus, 1n, 0n];
  while (b > 0n) [a, b, x, y] = [b, a % b, y, x - (a / b) * y];
  if (a !== 1n) throw new Error("the key of the invitations is wrong");
  return ((x % modulus) + modulus) % modulus;
}

const number = (text) => BigInt(`0x${text}`);
const padded = (value, like) => value.toString(16).padStart(like.length, "0");
const bytes = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const hex = (list) => Array.from(list, (byte) => byte.toString(16).padStart(2, "0")).join("");
const base64url = (list) => btoa(String.fromCharCode(...list)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
