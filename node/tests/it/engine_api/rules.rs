//! Refusals, with their code or state: tokens, versions, hashes, ancestors.

use super::beacon::{Driven, Payload, ROOT, attributes, driven, said, state, token};
use crate::kit::{Call, address, genesis, signed};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use phalanx::alloy::genesis::Genesis;
use phalanx_node::{Durability, Node};
use serde_json::{Value, json};

/// Seconds between two forks of a chain that has all of them.
const AGE: u64 = 1_000;

/// Genesis on Paris, with the next fork every [`AGE`] seconds up to Osaka.
pub(super) fn forks() -> Genesis {
    let mut genesis = genesis();
    let config = &mut genesis.config;
    (config.shanghai_time, config.cancun_time) = (Some(AGE), Some(2 * AGE));
    (config.prague_time, config.osaka_time) = (Some(3 * AGE), Some(4 * AGE));
    genesis
}

#[test]
fn a_power_cut_may_not_take_chosen_blocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = driven(folder.path(), genesis());
    settings.durability = Durability::Async;
    let refused = Node::start(&settings).expect_err("refused");
    assert!(refused.to_string().contains("power cut"), "{refused}");
}

#[test]
fn requests_need_a_fresh_token_of_the_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut chain = genesis();
    chain.difficulty = U256::from(0x400);
    let driven = Driven::start(&driven(folder.path(), chain));
    let ask = |line: &str| driven.raw(line, "eth_chainId", &json!([])).0;
    assert_eq!(ask(&token(&[7; 32], 0)), 200);
    assert_eq!([ask(&token(&[7; 32], 50)), ask(&token(&[7; 32], -50))], [200, 200], "clocks differ");
    for refused in [token(&[7; 32], 90), token(&[7; 32], -90), token(&[8; 32], 0), String::new()] {
        assert_eq!(ask(&refused), 401, "{refused}");
    }
    // The public port has no such methods, and the other one has those of the specification.
    assert_eq!(driven.client.error("engine_exchangeCapabilities", json!([[]])).0, -32601);
    for (method, params) in [
        ("eth_blockNumber", json!([])),
        ("eth_call", json!([{ "to": address(0) }, "latest"])),
        ("eth_chainId", json!([])),
        ("eth_getCode", json!([address(0), "latest"])),
        ("eth_getBlockByHash", json!([B256::ZERO, false])),
        ("eth_getBlockByNumber", json!(["latest", false])),
        ("eth_getLogs", json!([{}])),
        ("eth_syncing", json!([])),
    ] {
        driven.get(method, &params);
    }
    let tx = signed(2, &Call::to(0, 0, address(1), 1), vec![]);
    driven.get("eth_sendRawTransaction", &json!([tx]));
    let capabilities = driven.get("engine_exchangeCapabilities", &json!([["engine_newPayloadV1"]]));
    let names: Vec<String> = serde_json::from_value(capabilities).expect("names");
    assert!(names.iter().all(|name| name.starts_with("engine_") && name != "engine_exchangeCapabilities"));
    for name in &names {
        // A method that is there finds its arguments missing.
        assert_eq!(driven.error(name, &json!([])), -32602, "{name}");
    }
    let merged = |difficulty: &str| json!({ "terminalTotalDifficulty": difficulty, "terminalBlockHash": B256::ZERO, "terminalBlockNumber": "0x0" });
    for theirs in ["0x0", "0x400"] {
        let ours = driven.get("engine_exchangeTransitionConfigurationV1", &json!([merged(theirs)]));
        assert_eq!(ours, merged("0x0"), "of the node's genesis, whatever the client says");
    }
    let version = json!([{ "code": "LS", "name": "a client", "version": "1", "commit": "00000000" }]);
    let own = driven.get("engine_getClientVersionV1", &version)[0].clone();
    assert_eq!((&own["name"], &own["commit"]), (&json!("Phalanx"), &json!("abcd0001")));
    driven.stop();
}

#[test]
fn the_transition_is_that_of_the_nodes_genesis() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut chain = genesis();
    chain.config.terminal_total_difficulty = Some(U256::from(0x300));
    let driven = Driven::start(&driven(folder.path(), chain));
    let method = "engine_exchangeTransitionConfigurationV1";
    let of = |difficulty: &str, hash: Value| json!([{ "terminalTotalDifficulty": difficulty, "terminalBlockHash": hash, "terminalBlockNumber": "0x0" }]);
    for theirs in ["0x0", "0x300", "0x301"] {
        let ours = driven.get(method, &of(theirs, json!(B256::ZERO)));
        assert_eq!(json!([ours]), of("0x300", json!(B256::ZERO)), "whatever the client says");
    }
    for wrong in [json!("0xzz"), json!("0x00"), json!(format!("0x{}", "zz".repeat(32)))] {
        assert_eq!(driven.error(method, &of("0x300", wrong.clone())), -32602, "{wrong}");
    }
    assert_eq!(driven.error(method, &of("0xzz", json!(B256::ZERO))), -32602);
    driven.stop();
}

/// A payload on the genesis of a chain with all forks, of each of them.
fn of_each_fork(driven: &Driven) -> Vec<Payload> {
    let genesis = driven.genesis();
    (1..=5u8).map(|fork| driven.build(fork, genesis, &attributes(fork, (u64::from(fork) - 1) * AGE + 12, 1))).collect()
}

#[test]
fn every_version_takes_its_fork_and_its_fields_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let driven = Driven::start(&driven(folder.path(), forks()));
    let payloads = of_each_fork(&driven);
    for payload in &payloads {
        assert_eq!(driven.offer(payload), ("VALID".into(), Some(payload.hash())), "fork {}", payload.fork);
        for method in 1..=5u8 {
            let (own, _) = payload.args();
            if method == own {
                continue;
            }
            let (_, args) = Payload { fork: [1, 2, 3, 4, 6][usize::from(method) - 1], ..payload.clone() }.args();
            let answer = driven.raw(&token(&[7; 32], 0), &format!("engine_newPayloadV{method}"), &args).1;
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            match (method, payload.fork) {
                // The structure is the older one, without a field that the time demands.
                (2, 1) => assert_eq!(said(&answer["result"]).0, "VALID"),
                (2, 3..) => assert_eq!(answer["error"]["code"], json!(-38005), "{answer}"),
                (3 | 4, 3..) => assert_eq!(answer["error"]["code"], json!(-38005), "{method}: {answer}"),
                _ => assert_eq!(answer["error"]["code"], json!(-32602), "{method} of {}: {answer}", payload.fork),
            }
        }
        // A field too few, null, and one too many.
        let (method, args) = payload.args();
        let method = format!("engine_newPayloadV{method}");
        for (field, value) in [("gasUsed", Value::Null), ("slotNumber", json!("0x1")), ("parentHash", json!("0x12"))] {
            let mut changed = args.clone();
            changed[0][field] = value;
            assert_eq!(driven.error(&method, &changed), -32602, "{field}");
        }
        if payload.fork >= 4 {
            for requests in [json!(null), json!(["0x00"]), json!(["0x0101", "0x0001"]), json!(["0x0101", "0x0102"])] {
                let mut changed = args.clone();
                changed[3] = requests;
                assert_eq!(driven.error(&method, &changed), -32602);
            }
        }
    }
    let genesis = driven.genesis();
    for fork in 1..=5u8 {
        let time = (u64::from(fork) - 1) * AGE + 24;
        for method in 1..=4u8 {
            let own = [1, 2, 3, 3, 3][usize::from(fork) - 1];
            let structure = [1, 2, 3, 6][usize::from(method) - 1];
            let wanted = attributes(structure, time, 1);
            let params = json!([state(genesis, B256::ZERO, B256::ZERO), wanted]);
            let name = format!("engine_forkchoiceUpdatedV{method}");
            if method == own {
                assert!(driven.get(&name, &params)["payloadId"].is_string());
                let other = if fork == 1 { 2 } else { structure - 1 };
                let params = json!([state(genesis, B256::ZERO, B256::ZERO), attributes(other, time, 1)]);
                assert_eq!(driven.error(&name, &params), -38003, "{name} of {fork}");
            } else {
                let expected = if (method, fork) == (2, 1) { -38003 } else { -38005 };
                assert_eq!(driven.error(&name, &params), expected, "{name} of {fork}");
            }
        }
        // Jobs of one fork are not fetched by the versions of others.
        let id = driven.begin(fork, genesis, &attributes(fork, time, 2));
        for method in 1..=6u8 {
            let fits = method == fork || (method, fork) == (2, 1);
            let name = format!("engine_getPayloadV{method}");
            if fits {
                driven.get(&name, &json!([id]));
            } else {
                assert_eq!(driven.error(&name, &json!([id])), -38005, "{name} of {fork}");
            }
        }
    }
    assert_eq!(driven.error("engine_getPayloadV1", &json!(["0x0000000000000000"])), -38001);
    assert_eq!(driven.error("engine_getPayloadV1", &json!(["0x00"])), -32602);
    driven.stop();
}

#[test]
fn wrong_payloads_are_invalid_and_so_are_their_descendants() {
    let folder = tempfile::tempdir().expect("a folder");
    let driven = Driven::start(&driven(folder.path(), genesis()));
    let genesis = driven.genesis();
    driven.client.send(&signed(2, &Call::to(0, 0, address(1), 1), vec![]));
    let first = driven.build_with(5, genesis, 12, 1);
    // Known without a parent: the hash, and the blobs that the client expects.
    let mut hash = first.clone();
    hash.body["blockHash"] = json!(B256::repeat_byte(1));
    let broken = ("INVALID".to_owned(), None);
    assert_eq!(driven.offer(&hash), broken);
    // The block has its own hash, and is remembered with its descendants.
    let long = json!(Bytes::from(vec![0; 33]));
    let wrong = ("INVALID".to_owned(), Some(genesis));
    for (field, value, expected) in [
        // An entry that is no transaction: the payload itself is answered without an ancestor.
        ("transactions", json!(["0x"]), &broken),
        ("transactions", json!([first.txs()[0], "0x"]), &broken),
        ("transactions", json!(["0x03c0"]), &broken),
        ("transactions", json!(["0x02c0"]), &broken),
        ("transactions", json!(["0x7f00"]), &broken),
        ("extraData", long.clone(), &wrong),
    ] {
        let unsound = first.with(field, value.clone());
        for _ in 0..2 {
            assert_eq!(&driven.offer(&unsound), expected, "{field} {value}");
            assert_eq!(driven.choose(unsound.hash(), genesis, genesis), wrong, "{field} {value}");
        }
        let child = first.with("parentHash", json!(unsound.hash())).with("blockNumber", json!("0x2"));
        assert_eq!(driven.offer(&child), wrong, "a child of {field} {value}");
        let grandchild = first.with("parentHash", json!(child.hash())).with("transactions", json!(["0x"]));
        assert_eq!(driven.offer(&grandchild), broken, "an entry that is none, behind a wrong {field} {value}");
    }
    let params = json!([first.body, [B256::repeat_byte(1)], ROOT, first.requests]);
    assert_eq!(said(&driven.get("engine_newPayloadV4", &params)), broken, "a blob that no transaction has");
    // Known from the parent, and from the execution.
    let fields = [
        ("stateRoot", json!(B256::repeat_byte(1))),
        ("receiptsRoot", json!(B256::repeat_byte(1))),
        ("gasUsed", json!("0x1")),
        ("gasLimit", json!("0x1000")),
        ("baseFeePerGas", json!("0x1")),
        ("blockNumber", json!("0x2")),
        ("timestamp", json!("0x0")),
        ("logsBloom", json!(Bytes::from(vec![1; 256]))),
        ("blobGasUsed", json!("0x20000")),
        ("excessBlobGas", json!("0x20000")),
        ("transactions", json!([first.txs()[0], first.txs()[0]])),
    ];
    for (field, value) in fields {
        let changed = first.with(field, value);
        for _ in 0..2 {
            assert_eq!(driven.offer(&changed), wrong, "{field}");
        }
        // It is never the head, nor is what is said to be behind it.
        assert_eq!(driven.choose(changed.hash(), B256::ZERO, B256::ZERO), wrong, "{field}");
        let child = first.with("parentHash", json!(changed.hash()));
        assert_eq!(driven.offer(&child), wrong, "a child of a wrong {field}");
    }
    assert_eq!(driven.tagged("latest"), Some(genesis));
    let extra = first.with("extraData", json!("0x70"));
    assert_eq!(driven.offer(&extra), wrong, "the state binds its block");
    let mut unnamed = first.clone();
    unnamed.body["extraData"] = long;
    assert_eq!(driven.offer(&unnamed), broken, "its hash is another's");
    assert_eq!(driven.offer(&first), ("VALID".into(), Some(first.hash())), "the sound one is");
    // A descendant that came first is invalid as soon as its ancestor is.
    let bad = first.with("gasUsed", json!("0x2"));
    let child =
        first.with("parentHash", json!(bad.hash())).with("blockNumber", json!("0x2")).with("timestamp", json!("0x20"));
    let grandchild = child
        .with("parentHash", json!(child.hash()))
        .with("blockNumber", json!("0x3"))
        .with("timestamp", json!("0x30"));
    let syncing = ("SYNCING".to_owned(), None);
    assert_eq!([driven.offer(&grandchild), driven.offer(&child)], [syncing.clone(), syncing.clone()]);
    assert_eq!(driven.choose(grandchild.hash(), B256::ZERO, B256::ZERO), syncing);
    assert_eq!(driven.offer(&bad), wrong);
    assert_eq!([driven.offer(&grandchild), driven.offer(&child)], [wrong.clone(), wrong.clone()]);
    assert_eq!(driven.choose(grandchild.hash(), B256::ZERO, B256::ZERO), wrong);
    driven.stop();
}

#[test]
fn the_first_version_has_a_state_for_a_wrong_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let driven = Driven::start(&driven(folder.path(), forks()));
    let mut payload = driven.build(1, driven.genesis(), &attributes(1, 12, 1));
    payload.body["blockHash"] = json!(B256::repeat_byte(1));
    assert_eq!(driven.offer(&payload), ("INVALID_BLOCK_HASH".into(), None));
    driven.stop();
}

#[test]
fn amsterdams_payloads_come_with_their_lists_and_slots() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut chain = genesis();
    chain.config.amsterdam_time = Some(AGE);
    let driven = Driven::start(&driven(folder.path(), chain));
    let before = driven.build(5, driven.genesis(), &attributes(5, 12, 1));
    assert_eq!(driven.offer(&before), ("VALID".into(), Some(before.hash())));
    driven.head(before.hash());
    driven.client.send(&signed(2, &Call::to(0, 0, address(1), 1), vec![]));
    let payload = driven.build_with(6, before.hash(), AGE, 1);
    assert_eq!(payload.body["slotNumber"], json!(format!("{:#x}", AGE / 12)));
    let target = super::beacon::quantity(&payload.body["gasLimit"]);
    let parent = super::beacon::quantity(&before.body["gasLimit"]);
    assert!(target.abs_diff(parent) < parent / 1024, "{target} after {parent}: towards the target");
    let list: Bytes = serde_json::from_value(payload.body["blockAccessList"].clone()).expect("a list");
    assert!(list.len() > 40, "the accounts of a transfer");
    let wrong = |field: &str, value: Value| {
        let changed = payload.with(field, value);
        assert_eq!(driven.offer(&changed), ("INVALID".into(), Some(before.hash())), "{field}");
    };
    wrong("blockAccessList", json!("0xc0"));
    wrong("slotNumber", json!("0x1"));
    let (_, mut args) = payload.args();
    args[0]["blockAccessList"] = Value::Null;
    assert_eq!(driven.error("engine_newPayloadV5", &args), -32602);
    assert_eq!(driven.offer(&payload), ("VALID".into(), Some(payload.hash())));
    driven.head(payload.hash());
    assert_eq!(driven.client.get("debug_getRawBlockAccessList", json!(["latest"])), json!(list));
    let header = driven.client.get("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(header["blockAccessListHash"], json!(keccak256(&list)));
    let body =
        json!({ "transactions": payload.txs(), "withdrawals": payload.body["withdrawals"], "blockAccessList": list });
    assert_eq!(driven.get("engine_getPayloadBodiesByHashV2", &json!([[payload.hash()]])), json!([body]));
    // Earlier versions are for earlier forks, and columns have their length.
    let state = state(payload.hash(), B256::ZERO, B256::ZERO);
    assert_eq!(driven.error("engine_forkchoiceUpdatedV3", &json!([state, attributes(3, 2 * AGE, 1)])), -38005);
    let with = |columns: Value| json!([state, attributes(6, 2 * AGE, 1), columns]);
    assert_eq!(driven.error("engine_forkchoiceUpdatedV4", &with(json!("0x00"))), -32602);
    let id = driven.get("engine_forkchoiceUpdatedV4", &with(json!(Bytes::from(vec![0; 16]))))["payloadId"].clone();
    assert_eq!(driven.error("engine_getPayloadV5", &json!([id])), -38005);
    driven.fetch(6, &id);
    driven.stop();
}
