// Compiles the contracts and writes their bytecode; see README.md. Takes the output folder as an argument.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import solc from "solc";

const here = (name) => new URL(name, import.meta.url);
const folder = process.argv[2] ?? fileURLToPath(here("."));
// What a genesis installs, and what a transaction deploys.
const wanted = { PhalanxToken: ["runtime", "creation"], PhalanxPool: ["runtime"] };
const source = (name) => [`${name}.sol`, { content: readFileSync(here(`${name}.sol`), "utf8") }];
const input = {
  language: "Solidity",
  sources: Object.fromEntries(Object.keys(wanted).map(source)),
  settings: {
    // London is the first fork with type 2 transactions, so the code runs wherever the workload does.
    evmVersion: "london",
    optimizer: { enabled: true, runs: 200 },
    // Without the metadata trailer the bytecode depends on the code alone, not on comments or paths.
    metadata: { appendCBOR: false, bytecodeHash: "none" },
    outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object", "storageLayout"] } },
  },
};

const output = JSON.parse(solc.compile(JSON.stringify(input)));
for (const error of output.errors ?? []) console.error(error.formattedMessage);
if ((output.errors ?? []).some((error) => error.severity === "error")) process.exit(1);

for (const [name, kinds] of Object.entries(wanted)) {
  const { evm, storageLayout } = output.contracts[`${name}.sol`][name];
  const code = { runtime: evm.deployedBytecode.object, creation: evm.bytecode.object };
  for (const kind of kinds) writeFileSync(join(folder, `${name}.${kind}.hex`), code[kind] + "\n");
  for (const { label, slot, offset } of storageLayout.storage) console.error(`${name} slot ${slot}.${offset}: ${label}`);
}
