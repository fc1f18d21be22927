// ethers against a node: contract, events, errors, types 0 to 4, fees, WebSocket subscriptions.

import { ethers } from "ethers";
import { end, fails, keys, same, url, vault } from "./check.mjs";

const provider = new ethers.JsonRpcProvider(url, undefined, { pollingInterval: 50, cacheTimeout: -1 });
const [alice, bob] = keys.map((key) => new ethers.Wallet(key, provider));
const chain = (await provider.getNetwork()).chainId;
same(await provider.send("net_version", []), String(chain), "the network's id");

const factory = new ethers.ContractFactory(vault.abi, vault.bytecode, alice);
const contract = await factory.deploy("first", 1_000n);
await contract.waitForDeployment();
const address = await contract.getAddress();
same(await contract.label(), "first", "a string");
same(await contract.shares(alice.address), 1_000n, "a mapping");

const receipt = await (await contract.move(bob.address, 7n)).wait();
same(receipt.status, 1, "the receipt's status");
same(receipt.logs[0].args.toArray(), [alice.address, bob.address, 7n, 1n], "the decoded event");
const events = await contract.queryFilter(contract.filters.Moved(null, bob.address), 0, "latest");
same(events.map((event) => event.transactionHash), [receipt.hash], "filtered events");

await fails(() => contract.connect(bob).move.staticCall(alice.address, 99n), (error) => error.revert?.name === "TooFew", "a custom error");
await fails(() => contract.refuse(0), (error) => error.reason === "kind is zero", "a reason");
await fails(() => contract.refuse(1), (error) => error.revert?.name === "Panic", "a panic");
await fails(
  () => alice.sendTransaction({ to: bob.address, value: 10n ** 30n, gasLimit: 21_000 }),
  (error) => error.code === "INSUFFICIENT_FUNDS",
  "too large a payment",
);

for (const type of [0, 1, 2]) {
  const sent = await alice.sendTransaction({ type, to: bob.address, value: BigInt(type) + 1n });
  const included = await sent.wait();
  same(included.type, type, `type ${type}`);
  const read = await provider.getTransaction(sent.hash);
  same([read.from, read.to, read.value], [alice.address, bob.address, BigInt(type) + 1n], `fields of type ${type}`);
  // ethers computes the hash from the fields.
  same(ethers.Transaction.from(read).hash, sent.hash, `the hash of type ${type}`);
}
if (alice.authorize) {
  const carol = new ethers.Wallet(keys[2], provider);
  const authorization = await carol.authorize({ address });
  const sent = await alice.sendTransaction({ type: 4, to: bob.address, authorizationList: [authorization] });
  same((await sent.wait()).type, 4, "type 4");
  same(await provider.getCode(carol.address), `0xef0100${address.slice(2).toLowerCase()}`, "a delegation");
}

const nonce = await provider.getTransactionCount(alice.address);
await fails(
  async () => provider.broadcastTransaction(await alice.signTransaction({ ...(await alice.populateTransaction({ to: bob.address })), nonce: nonce - 1 })),
  (error) => error.code === "NONCE_EXPIRED",
  "a used nonce",
);
const many = await Promise.all([0, 1, 2, 3, 4].map((step) => alice.sendTransaction({ to: bob.address, value: 1n, nonce: nonce + step })));
const blocks = await Promise.all(many.map(async (sent) => (await sent.wait()).blockNumber));
same(blocks.every((number) => number > receipt.blockNumber), true, "transactions in flight");

const latest = await provider.getBlock("latest", true);
const before = await provider.getBlock(latest.number - 1);
same(latest.parentHash, before.hash, "the chain of hashes");
const [number, parent, id, , coinbase] = await contract.setting({ blockTag: latest.number });
same([Number(number), parent, id, coinbase], [latest.number, before.hash, chain, latest.miner], "the environment of a call");
const paid = await provider.getBalance(bob.address, before.number);
same(paid <= (await provider.getBalance(bob.address)), true, "an older balance");
const fees = await provider.getFeeData();
same(fees.maxFeePerGas > 0n && fees.gasPrice > 0n, true, "fee data");

const socket = new ethers.WebSocketProvider(url.replace("http", "ws"));
const heads = new Promise((resolve) => socket.once("block", resolve));
const moved = new Promise((resolve) => new ethers.Contract(address, vault.abi, socket).once("Moved", (...parts) => resolve(parts)));
await new Promise((resolve) => setTimeout(resolve, 200));
const last = await (await contract.move(bob.address, 1n)).wait();
same(await heads, last.blockNumber, "a subscription to heads");
same((await moved).slice(0, 3), [alice.address, bob.address, 1n], "a subscription to events");
await socket.destroy();
end("ethers");
