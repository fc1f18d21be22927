// Compiles PhalanxToken.sol and writes its runtime bytecode; see README.md. Takes the output path as an argument.
import { readFileSync, writeFileSync } from "node:fs";
import solc from "solc";

const here = (name) => new URL(name, import.meta.url);
const input = {
  language: "Solidity",
  sources: { "PhalanxToken.sol": { content: readFileSync(here("PhalanxToken.sol"), "utf8") } },
  settings: {
    // London is the first fork with type 2 transactions, so the code runs wherever the workload does.
    evmVersion: "london",
    optimizer: { enabled: true, runs: 200 },
    // Without the metadata trailer the bytecode depends on the code alone, not on comments or paths.
    metadata: { appendCBOR: false, bytecodeHash: "none" },
    outputSelection: { "*": { PhalanxToken: ["evm.deployedBytecode.object", "storageLayout"] } },
  },
};

const output = JSON.parse(solc.compile(JSON.stringify(input)));
for (const error of output.errors ?? []) console.error(error.formattedMessage);
if ((output.errors ?? []).some((error) => error.severity === "error")) process.exit(1);

const token = output.contracts["PhalanxToken.sol"].PhalanxToken;
writeFileSync(process.argv[2] ?? here("PhalanxToken.runtime.hex"), token.evm.deployedBytecode.object + "\n");
for (const { label, slot } of token.storageLayout.storage) console.error(`slot ${slot}: ${label}`);
