// Checks that the scripts share.

import fs from "node:fs";
import { strict as assert } from "node:assert";

export const url = process.env.PHALANX_RPC ?? "http://127.0.0.1:8545";
export const vault = JSON.parse(fs.readFileSync(new URL("./vault.json", import.meta.url)));
// The keys that development tools share.
export const keys = [
  "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
  "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
  "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
  "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
];

let passed = 0;

export function same(got, expected, what) {
  assert.deepEqual(got, expected, what);
  passed += 1;
}

export async function fails(action, check, what) {
  let error;
  try {
    await action();
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `${what} should fail`);
  assert.ok(check(error), `${what}: ${error.shortMessage ?? error.message}`);
  passed += 1;
}

export function end(name) {
  console.log(`${name}: ${passed} checks passed`);
  process.exit(0);
}
