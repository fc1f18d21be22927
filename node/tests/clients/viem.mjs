// viem against a node: contract, filters, fee history, overrides, EIP-7702, traces, WebSocket subscriptions.

import { createPublicClient, createWalletClient, defineChain, http, parseEther, webSocket } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { end, fails, keys, same, url, vault } from "./check.mjs";

const transport = http(url);
const id = await createPublicClient({ transport }).getChainId();
const chain = defineChain({
  id,
  name: "node",
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [url] } },
});
const reader = createPublicClient({ chain, transport, pollingInterval: 50 });
const alice = privateKeyToAccount(keys[0]);
const dave = privateKeyToAccount(keys[3]);
const writer = createWalletClient({ account: alice, chain, transport });
const { abi, bytecode } = vault;
const wait = (hash) => reader.waitForTransactionReceipt({ hash });

const deployed = await wait(await writer.deployContract({ abi, bytecode, args: ["second", 500n] }));
const address = deployed.contractAddress;
same(deployed.status, "success", "a deployment");
same(await reader.readContract({ address, abi, functionName: "label" }), "second", "a string");

const filter = await reader.createContractEventFilter({ address, abi, eventName: "Moved" });
const blocks = await reader.createBlockFilter();
const { request, result } = await reader.simulateContract({ account: alice, address, abi, functionName: "move", args: [dave.address, 5n] });
same(result, 1n, "a simulated result");
const moved = await wait(await writer.writeContract(request));
const changes = await reader.getFilterChanges({ filter });
same(changes.map((log) => log.args.amount), [5n], "changes of an event filter");
same((await reader.getFilterChanges({ filter: blocks })).includes(moved.blockHash), true, "changes of a block filter");
same(await reader.uninstallFilter({ filter }), true, "a removed filter");
const logs = await reader.getContractEvents({ address, abi, fromBlock: 0n });
same(logs.map((log) => [log.args.from, log.args.amount]), [["0x0000000000000000000000000000000000000000", 500n], [alice.address, 5n]], "events");

const failing = { account: dave, address, abi, functionName: "move", args: [alice.address, 999n] };
await fails(() => reader.simulateContract(failing), (error) => /TooFew/.test(error.message), "a custom error");
await fails(() => reader.readContract({ address, abi, functionName: "refuse", args: [0n] }), (error) => /kind is zero/.test(error.message), "a reason");

const history = await reader.getFeeHistory({ blockCount: 3, rewardPercentiles: [10, 90] });
same([history.baseFeePerGas.length, history.reward.length, history.reward[0].length], [4, 3, 2], "a fee history");
const { maxFeePerGas } = await reader.estimateFeesPerGas();
same(maxFeePerGas > 0n, true, "estimated fees");
same(await reader.estimateGas({ account: alice, to: dave.address, value: parseEther("1") }), 21_000n, "gas of a payment");

const stateOverride = [{ address: dave.address, balance: parseEther("123456789") }];
const rich = { account: dave.address, to: alice.address, value: parseEther("123456788") };
same((await reader.call({ ...rich, stateOverride })).data, undefined, "a call with an override");
await fails(() => reader.call(rich), (error) => /funds/i.test(error.message), "a call without it");
const listed = await reader.createAccessList({ account: alice.address, to: address, data: "0x7284e416" }).catch(() => null);
same(listed === null || Array.isArray(listed.accessList), true, "an access list");

const authorization = await createWalletClient({ account: dave, chain, transport }).signAuthorization({ contractAddress: address });
const delegated = await wait(await writer.sendTransaction({ to: alice.address, authorizationList: [authorization] }));
same(delegated.type, "eip7702", "type 4");
same(await reader.getCode({ address: dave.address }), `0xef0100${address.slice(2).toLowerCase()}`, "a delegation");
same(await reader.getStorageAt({ address, slot: "0x2" }), `0x${"1".padStart(64, "0")}`, "a slot");

const block = await reader.getBlock({ blockNumber: moved.blockNumber, includeTransactions: true });
same(block.transactions[0].hash, moved.transactionHash, "a block with transactions");
same((await reader.getTransaction({ blockHash: block.hash, index: 0 })).hash, moved.transactionHash, "a transaction by place");
same(await reader.getTransactionConfirmations({ hash: moved.transactionHash }) >= 1n, true, "confirmations");
const trace = await reader.request({ method: "debug_traceTransaction", params: [moved.transactionHash, { tracer: "callTracer" }] });
same([trace.to, BigInt(trace.gasUsed)], [address.toLowerCase(), moved.gasUsed], "a trace");

const socket = createPublicClient({ chain, transport: webSocket(url.replace("http", "ws")) });
const seen = { heads: [], events: [], pending: [] };
const stops = [
  socket.watchBlockNumber({ onBlockNumber: (number) => seen.heads.push(number) }),
  socket.watchContractEvent({ address, abi, eventName: "Moved", onLogs: (found) => seen.events.push(...found) }),
  socket.watchPendingTransactions({ onTransactions: (hashes) => seen.pending.push(...hashes) }),
];
await new Promise((resolve) => setTimeout(resolve, 300));
const again = await wait(await writer.writeContract({ address, abi, functionName: "move", args: [dave.address, 2n] }));
for (let tries = 0; tries < 100 && !(seen.heads.length && seen.events.length && seen.pending.length); tries += 1) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
same(seen.heads.includes(again.blockNumber), true, "a subscription to heads");
same(seen.events.map((log) => log.args.amount), [2n], "a subscription to events");
same(seen.pending, [again.transactionHash], "a subscription to transactions");
stops.forEach((stop) => stop());
end("viem");
