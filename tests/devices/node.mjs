// Reads {client, task, input} from standard input, runs that task of the harness with the client in that file, and prints the result.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import * as harness from "./harness.js";

const { client, task, input } = JSON.parse(readFileSync(0, "utf-8"));
if (input.codesFile) {
  const codes = readFileSync(input.codesFile);
  input.codes = new Uint32Array(codes.buffer, codes.byteOffset, codes.length / 4);
  input.stream = readFileSync(input.streamFile);
}
const result = await harness[task](await import(pathToFileURL(client)), input);
process.stdout.write(JSON.stringify(result));
