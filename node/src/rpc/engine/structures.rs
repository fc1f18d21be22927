//! Structures of the Engine API as JSON: each version of a method has exactly its fields, and null is none.

use super::{Args, Fault, Version, read};
use alloy_eips::eip7685::Requests;
use alloy_primitives::{B256, Bytes, U64};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, ExecutionPayloadV1, ExecutionPayloadV2,
    ExecutionPayloadV3, ExecutionPayloadV4, PayloadAttributes, PraguePayloadFields,
};
use phalanx::chain::ChainSpec;
use serde_json::Value;

/// Fields of a payload, in the order of the versions that bring them.
const PAYLOAD: [&str; 19] = [
    "parentHash",
    "feeRecipient",
    "stateRoot",
    "receiptsRoot",
    "logsBloom",
    "prevRandao",
    "blockNumber",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "extraData",
    "baseFeePerGas",
    "blockHash",
    "transactions",
    "withdrawals",
    "blobGasUsed",
    "excessBlobGas",
    "blockAccessList",
    "slotNumber",
];

/// Number of the fields of `ExecutionPayloadV1` to `V4`.
const PAYLOADS: [usize; 4] = [14, 15, 17, 19];

/// Fields of payload attributes, in the order of the versions that bring them.
const ATTRIBUTES: [&str; 7] = [
    "timestamp",
    "prevRandao",
    "suggestedFeeRecipient",
    "withdrawals",
    "parentBeaconBlockRoot",
    "slotNumber",
    "targetGasLimit",
];

/// Number of the fields of `PayloadAttributesV1` to `V4`.
const ATTRIBUTES_OF: [usize; 4] = [3, 4, 5, 7];

/// Checks that an object has these fields, and no other one.
fn check(value: &Value, fields: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or("an object is expected")?;
    let is_there = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
    if let Some(name) = fields.iter().find(|name| !is_there(name)) {
        return Err(format!("{name} is missing"));
    }
    match object.keys().find(|name| is_there(name) && !fields.contains(&&name[..])) {
        Some(name) => Err(format!("{name} is none of this version's")),
        None => Ok(()),
    }
}

/// Time of a payload, or of attributes.
fn timestamp(value: &Value) -> Result<u64, Fault> {
    let timestamp = value.get("timestamp").ok_or_else(|| Fault::Params("timestamp is missing".into()))?;
    Ok(read::<U64>(timestamp)?.to())
}

/// Reads the arguments of a version of `newPayload`.
///
/// # Errors
/// [`Fault::Params`] for other fields than those of the version, and [`Fault::Fork`] for the time of another version's fork.
pub(super) fn payload(
    chain: &ChainSpec,
    method: u8,
    args: &Args,
) -> Result<(ExecutionPayload, ExecutionPayloadSidecar), Fault> {
    let missing = |what: &str| Fault::Params(format!("{what} is missing"));
    let value = args.value(0).ok_or_else(|| missing("executionPayload"))?;
    let version = Version::at(chain, timestamp(value)?);
    let structure = match method {
        1 => 1,
        2 if version >= Version::Cancun => return Err(Fault::Fork),
        2 => 1 + u8::from(version == Version::Shanghai),
        3 | 4 => 3,
        _ => 4,
    };
    check(value, &PAYLOAD[..PAYLOADS[usize::from(structure - 1)]]).map_err(Fault::Params)?;
    let payload = match structure {
        1 => ExecutionPayload::V1(read::<ExecutionPayloadV1>(value)?),
        2 => ExecutionPayload::V2(read::<ExecutionPayloadV2>(value)?),
        3 => ExecutionPayload::V3(read::<ExecutionPayloadV3>(value)?),
        _ => ExecutionPayload::V4(read::<ExecutionPayloadV4>(value)?),
    };
    if method < 3 {
        return Ok((payload, ExecutionPayloadSidecar::none()));
    }
    let hashes: Vec<B256> = read(args.value(1).ok_or_else(|| missing("expectedBlobVersionedHashes"))?)?;
    let root: B256 = read(args.value(2).ok_or_else(|| missing("parentBeaconBlockRoot"))?)?;
    let cancun = CancunPayloadFields::new(root, hashes);
    let sidecar = match method {
        3 => ExecutionPayloadSidecar::v3(cancun),
        _ => {
            let list: Vec<Bytes> = read(args.value(3).ok_or_else(|| missing("executionRequests"))?)?;
            ExecutionPayloadSidecar::v4(cancun, PraguePayloadFields::new(requests(list)?))
        }
    };
    let fits = match method {
        3 => version == Version::Cancun,
        4 => version == Version::Prague || version == Version::Osaka,
        _ => version == Version::Amsterdam,
    };
    if fits { Ok((payload, sidecar)) } else { Err(Fault::Fork) }
}

/// Checks a list of requests (EIP-7685): each has a type and data, and types ascend.
fn requests(list: Vec<Bytes>) -> Result<Requests, Fault> {
    if list.iter().any(|request| request.len() < 2) {
        return Err(Fault::Params("a request has a type and data".into()));
    }
    if list.windows(2).any(|pair| pair[0][0] >= pair[1][0]) {
        return Err(Fault::Params("the types of requests ascend".into()));
    }
    Ok(Requests::new(list))
}

/// Reads the attributes of a version of `forkchoiceUpdated`.
///
/// # Errors
/// [`Fault::Attributes`] for other fields than those of the version, and [`Fault::Fork`] for the time of another version's fork.
pub(super) fn attributes(chain: &ChainSpec, method: u8, value: &Value) -> Result<PayloadAttributes, Fault> {
    let wrong = |fault: Fault| Fault::Attributes(fault.to_string());
    let version = Version::at(chain, timestamp(value).map_err(wrong)?);
    let structure = match method {
        2 if version >= Version::Cancun => return Err(Fault::Fork),
        2 => 1 + u8::from(version == Version::Shanghai),
        other => other,
    };
    let fields = ATTRIBUTES_OF[usize::from(structure - 1)];
    check(value, &ATTRIBUTES[..fields]).map_err(Fault::Attributes)?;
    let attributes = read(value).map_err(wrong)?;
    let fits = match method {
        1 => version == Version::Paris,
        2 => true,
        3 => (Version::Cancun..=Version::Osaka).contains(&version),
        _ => version == Version::Amsterdam,
    };
    if fits { Ok(attributes) } else { Err(Fault::Fork) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_have_their_fields_alone_and_null_is_none() {
        let fields = ["a", "b"];
        assert_eq!(check(&json!({ "a": 1, "b": [] }), &fields), Ok(()));
        assert_eq!(check(&json!({ "a": 1, "b": 2, "c": null }), &fields), Ok(()));
        for wrong in [json!({ "a": 1 }), json!({ "a": 1, "b": null }), json!({ "a": 1, "b": 2, "c": 3 }), json!([1, 2])]
        {
            assert!(check(&wrong, &fields).is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_have_types_that_ascend_and_data() {
        let list = |list: &[&'static [u8]]| requests(list.iter().map(|bytes| Bytes::from_static(bytes)).collect());
        assert!(list(&[]).is_ok() && list(&[&[0, 1], &[1, 1], &[2, 1]]).is_ok());
        for wrong in [&[&[0][..]][..], &[&[]], &[&[1, 1], &[0, 1]], &[&[1, 1], &[1, 2]]] {
            assert!(matches!(list(wrong), Err(Fault::Params(_))), "{wrong:?}");
        }
    }
}
