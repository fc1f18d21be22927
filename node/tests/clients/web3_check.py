"""web3.py against a node: contract, events, errors, types 1 and 2, fee history, filters."""

import json
import os
import pathlib

from web3 import Web3
from web3.exceptions import ContractCustomError, ContractLogicError, Web3RPCError

KEY = "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"
vault = json.loads((pathlib.Path(__file__).parent / "vault.json").read_text())
w3 = Web3(Web3.HTTPProvider(os.environ.get("PHALANX_RPC", "http://127.0.0.1:8545")))
account = w3.eth.account.from_key(KEY)
checks = 0


def same(got, expected, what):
    global checks
    assert got == expected, f"{what}: {got} is not {expected}"
    checks += 1


def send(tx):
    tx = {"from": account.address, "nonce": w3.eth.get_transaction_count(account.address, "pending"), **tx}
    raw = account.sign_transaction(tx).raw_transaction
    return w3.eth.wait_for_transaction_receipt(w3.eth.send_raw_transaction(raw), timeout=30, poll_latency=0.05)


def build(call, **fields):
    nonce = w3.eth.get_transaction_count(account.address, "pending")
    return call.build_transaction({"from": account.address, "nonce": nonce, **fields})


same(w3.is_connected(), True, "a connection")
receipt = send(build(w3.eth.contract(abi=vault["abi"], bytecode=vault["bytecode"]).constructor("third", 50)))
contract = w3.eth.contract(address=receipt["contractAddress"], abi=vault["abi"])
same(contract.functions.label().call(), "third", "a string")
other = Web3.to_checksum_address("0x00000000000000000000000000000000000000bb")
entries = w3.eth.filter({"address": contract.address})
receipt = send(build(contract.functions.move(other, 9)))
event = contract.events.Moved().process_receipt(receipt)[0]["args"]
same((event["to"], event["amount"], event["count"]), (other, 9, 1), "an event")
same([log["transactionHash"] for log in entries.get_new_entries()], [receipt["transactionHash"]], "a filter")
same(len(contract.events.Moved().get_logs(from_block=0)), 2, "all events")

try:
    contract.functions.move(other, 99).call({"from": other})
    raise AssertionError("a custom error is expected")
except ContractCustomError:
    checks += 1
try:
    contract.functions.refuse(0).call()
    raise AssertionError("a reason is expected")
except ContractLogicError as error:
    same("kind is zero" in str(error), True, "a reason")

number, parent, chain, _, _ = contract.functions.setting().call()
same((chain, parent), (w3.eth.chain_id, w3.eth.get_block(number - 1)["hash"]), "the environment of a call")
listed = {
    "to": contract.address, "data": contract.encode_abi("move", [other, 1]), "gas": 200_000, "gasPrice": w3.eth.gas_price * 2,
    "chainId": chain, "type": 1, "accessList": [{"address": contract.address, "storageKeys": ["0x" + "0" * 64]}],
}
same(send(listed)["type"], 1, "type 1")
history = w3.eth.fee_history(3, "latest", [50.0])
same(len(history["baseFeePerGas"]), 4, "a fee history")
block = w3.eth.get_block("latest", True)
same(block["parentHash"], w3.eth.get_block(block["number"] - 1)["hash"], "the chain of hashes")
same(w3.eth.get_balance(other, "earliest"), 0, "a balance at the genesis")
try:
    nonce = w3.eth.get_transaction_count(account.address) - 1
    send({"to": other, "value": 1, "gas": 21_000, "gasPrice": w3.eth.gas_price * 2, "chainId": chain, "nonce": nonce})
    raise AssertionError("a used nonce")
except Web3RPCError as error:
    same("nonce too low" in str(error), True, "a used nonce")
print(f"web3.py: {checks} checks passed")
