//! Encodings on the port of the Engine API: values have one each, and others are refused before anything is done with them.

use super::beacon::{Driven, attributes, driven, state};
use crate::kit::{Call, address, genesis, signed};
use alloy_primitives::B256;
use serde_json::{Value, json};

/// Changed copies of a value at a place in its JSON, in encodings that other readers take.
fn other_numbers(value: &str) -> Vec<Value> {
    let digits = value.trim_start_matches("0x");
    let number = u64::from_str_radix(digits, 16).expect("a quantity");
    vec![
        json!(format!("0x0{digits}")),
        json!(format!("0X{digits}")),
        json!(digits),
        json!(number.to_string()),
        json!(format!("{number:#b}")),
        json!(number),
    ]
}

fn other_bytes(value: &str) -> Vec<Value> {
    let digits = value.trim_start_matches("0x");
    vec![json!(digits), json!(format!("0X{digits}")), json!(format!("0x{digits}0")), json!(format!("0x{digits}_0"))]
}

fn others(value: &Value, is_number: bool) -> Vec<Value> {
    let text = value.as_str().expect("a text");
    if is_number { other_numbers(text) } else { other_bytes(text) }
}

#[test]
fn payloads_have_one_encoding() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    node.client.send(&signed(2, &Call::to(0, 0, address(1), 1), vec![]));
    let payload = node.build_with(5, node.genesis(), 12, 1);
    let (version, args) = payload.args();
    let method = format!("engine_newPayloadV{version}");
    let refuse = |pointer: &str, wrong: Value| {
        let mut changed = args.clone();
        *changed.pointer_mut(pointer).expect("a place") = wrong.clone();
        assert_eq!(node.error(&method, &changed), -32602, "{pointer}: {wrong}");
    };
    let numbers = ["blockNumber", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas"];
    let withdrawal = ["index", "validatorIndex", "amount"].map(|field| format!("withdrawals/0/{field}"));
    for field in numbers.iter().copied().chain(withdrawal.iter().map(String::as_str)) {
        let pointer = format!("/0/{field}");
        others(&args.pointer(&pointer).expect("a place").clone(), true)
            .into_iter()
            .for_each(|wrong| refuse(&pointer, wrong));
    }
    for field in ["0/parentHash", "0/feeRecipient", "0/logsBloom", "0/transactions/0", "0/withdrawals/0/address", "2"] {
        let pointer = format!("/{field}");
        others(&args.pointer(&pointer).expect("a place").clone(), false)
            .into_iter()
            .for_each(|wrong| refuse(&pointer, wrong));
    }
    refuse("/0/extraData", json!("00"));
    refuse("/1", json!([alloy_primitives::hex::encode(B256::ZERO)]));
    refuse("/3", json!(["0001"]));
    assert_eq!(node.offer(&payload), ("VALID".into(), Some(payload.hash())), "the right ones");
    node.stop();
}

#[test]
fn choices_and_questions_have_one_encoding() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let root = node.genesis();
    let right = attributes(5, 12, 1);
    let choose =
        |state: Value, attributes: Value| node.answer("engine_forkchoiceUpdatedV3", &json!([state, attributes]));
    for (pointer, is_number) in [
        ("/timestamp", true),
        ("/withdrawals/0/index", true),
        ("/withdrawals/0/address", false),
        ("/prevRandao", false),
        ("/suggestedFeeRecipient", false),
        ("/parentBeaconBlockRoot", false),
    ] {
        for wrong in others(right.pointer(pointer).expect("a place"), is_number) {
            let mut changed = right.clone();
            *changed.pointer_mut(pointer).expect("a place") = wrong.clone();
            let answer = choose(state(root, B256::ZERO, B256::ZERO), changed);
            assert_eq!(answer["error"]["code"], json!(-38003), "{pointer}: {wrong}");
        }
    }
    let mut many = right.clone();
    many["withdrawals"] = Value::from(vec![right["withdrawals"][0].clone(); 8_193]);
    assert_eq!(choose(state(root, B256::ZERO, B256::ZERO), many)["error"]["code"], json!(-38003), "too many");
    for field in ["headBlockHash", "safeBlockHash", "finalizedBlockHash"] {
        for wrong in other_bytes(&root.to_string()) {
            let mut changed = state(root, B256::ZERO, B256::ZERO);
            changed[field] = wrong;
            assert_eq!(choose(changed.clone(), Value::Null)["error"]["code"], json!(-32602), "{changed}");
        }
    }
    let id = node.begin(5, root, &right);
    for wrong in others(&id, false) {
        assert_eq!(node.error("engine_getPayloadV5", &json!([wrong])), -32602, "{wrong}");
    }
    assert_eq!(node.fetch(5, &id).parent(), root);
    for wrong in other_bytes(&root.to_string()) {
        for method in ["getPayloadBodiesByHashV1", "getPayloadBodiesByHashV2", "getBlobsV1", "getBlobsV2"] {
            assert_eq!(node.error(&format!("engine_{method}"), &json!([[wrong]])), -32602, "{method}: {wrong}");
        }
    }
    for wrong in other_numbers("0x1") {
        for range in [json!([wrong, "0x1"]), json!(["0x1", wrong])] {
            assert_eq!(node.error("engine_getPayloadBodiesByRangeV1", &range), -32602, "{range}");
        }
    }
    node.stop();
}
