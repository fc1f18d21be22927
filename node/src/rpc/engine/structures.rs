//! Structures of the Engine API as JSON: each version of a method has exactly its fields, and null is none.

use super::{
    Args, Fault, Version, args,
    encoding::{self, Form, check},
};
use alloy_eips::eip7685::Requests;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{
    CancunPayloadFields, ExecutionPayload, ExecutionPayloadSidecar, ExecutionPayloadV1, ExecutionPayloadV2,
    ExecutionPayloadV3, ExecutionPayloadV4, ForkchoiceState, PayloadAttributes, PraguePayloadFields,
};
use phalanx::chain::ChainSpec;
use serde_json::Value;

/// Fields of a payload, in the order of the versions that bring them.
const PAYLOAD: [(&str, Form); 19] = [
    ("parentHash", Form::Data),
    ("feeRecipient", Form::Data),
    ("stateRoot", Form::Data),
    ("receiptsRoot", Form::Data),
    ("logsBloom", Form::Data),
    ("prevRandao", Form::Data),
    ("blockNumber", Form::Quantity(64)),
    ("gasLimit", Form::Quantity(64)),
    ("gasUsed", Form::Quantity(64)),
    ("timestamp", Form::Quantity(64)),
    ("extraData", Form::Data),
    ("baseFeePerGas", Form::Quantity(256)),
    ("blockHash", Form::Data),
    ("transactions", Form::List),
    ("withdrawals", Form::Withdrawals),
    ("blobGasUsed", Form::Quantity(64)),
    ("excessBlobGas", Form::Quantity(64)),
    ("blockAccessList", Form::Data),
    ("slotNumber", Form::Quantity(64)),
];

/// Number of the fields of `ExecutionPayloadV1` to `V4`.
const PAYLOADS: [usize; 4] = [14, 15, 17, 19];

/// Fields of payload attributes, in the order of the versions that bring them.
const ATTRIBUTES: [(&str, Form); 7] = [
    ("timestamp", Form::Quantity(64)),
    ("prevRandao", Form::Data),
    ("suggestedFeeRecipient", Form::Data),
    ("withdrawals", Form::Withdrawals),
    ("parentBeaconBlockRoot", Form::Data),
    ("slotNumber", Form::Quantity(64)),
    ("targetGasLimit", Form::Quantity(64)),
];

/// Fields of `ForkchoiceStateV1`.
const STATE: [(&str, Form); 3] =
    [("headBlockHash", Form::Data), ("safeBlockHash", Form::Data), ("finalizedBlockHash", Form::Data)];

/// Maximum number of withdrawals of attributes. A block of Ethereum has 16; while the node is busy, orders wait with theirs.
const MOST_WITHDRAWALS: usize = 8_192;

/// Number of the fields of `PayloadAttributesV1` to `V4`.
const ATTRIBUTES_OF: [usize; 4] = [3, 4, 5, 7];

/// Time of a payload, or of attributes.
fn timestamp(value: &Value) -> Result<u64, String> {
    let timestamp = value.get("timestamp").filter(|value| !value.is_null()).ok_or("timestamp is missing")?;
    encoding::quantity(timestamp).map_err(|why| format!("timestamp: {why}"))
}

/// Reads a fork choice.
pub(super) fn state(value: &Value) -> Result<ForkchoiceState, String> {
    check(value, &STATE)?;
    args::json(value)
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
    let version = Version::at(chain, timestamp(value).map_err(Fault::Params)?);
    let structure = match method {
        1 => 1,
        2 if version >= Version::Cancun => return Err(Fault::Fork),
        2 => 1 + u8::from(version == Version::Shanghai),
        3 | 4 => 3,
        _ => 4,
    };
    check(value, &PAYLOAD[..PAYLOADS[usize::from(structure - 1)]]).map_err(Fault::Params)?;
    let payload = match structure {
        1 => args::json::<ExecutionPayloadV1>(value).map(ExecutionPayload::V1),
        2 => args::json::<ExecutionPayloadV2>(value).map(ExecutionPayload::V2),
        3 => args::json::<ExecutionPayloadV3>(value).map(ExecutionPayload::V3),
        _ => args::json::<ExecutionPayloadV4>(value).map(ExecutionPayload::V4),
    };
    let payload = payload.map_err(Fault::Params)?;
    if method < 3 {
        return Ok((payload, ExecutionPayloadSidecar::none()));
    }
    let hashes = args.value(1).ok_or_else(|| missing("expectedBlobVersionedHashes"))?;
    let hashes = encoding::hashes(hashes).map_err(Fault::Params)?;
    let root = args.value(2).ok_or_else(|| missing("parentBeaconBlockRoot"))?;
    let root: B256 = encoding::data(root).map_err(Fault::Params)?;
    let cancun = CancunPayloadFields::new(root, hashes);
    let sidecar = match method {
        3 => ExecutionPayloadSidecar::v3(cancun),
        _ => {
            let list = args.value(3).ok_or_else(|| missing("executionRequests"))?;
            let list = requests(encoding::list(list).map_err(Fault::Params)?)?;
            ExecutionPayloadSidecar::v4(cancun, PraguePayloadFields::new(list))
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
    let version = Version::at(chain, timestamp(value).map_err(Fault::Attributes)?);
    let structure = match method {
        2 if version >= Version::Cancun => return Err(Fault::Fork),
        2 => 1 + u8::from(version == Version::Shanghai),
        other => other,
    };
    let fields = ATTRIBUTES_OF[usize::from(structure - 1)];
    check(value, &ATTRIBUTES[..fields]).map_err(Fault::Attributes)?;
    let attributes: PayloadAttributes = args::json(value).map_err(Fault::Attributes)?;
    if attributes.withdrawals.as_ref().is_some_and(|list| list.len() > MOST_WITHDRAWALS) {
        return Err(Fault::Attributes(format!("attributes have at most {MOST_WITHDRAWALS} withdrawals")));
    }
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

    #[test]
    fn requests_have_types_that_ascend_and_data() {
        let list = |list: &[&'static [u8]]| requests(list.iter().map(|bytes| Bytes::from_static(bytes)).collect());
        assert!(list(&[]).is_ok() && list(&[&[0, 1], &[1, 1], &[2, 1]]).is_ok());
        for wrong in [&[&[0][..]][..], &[&[]], &[&[1, 1], &[0, 1]], &[&[1, 1], &[1, 2]]] {
            assert!(matches!(list(wrong), Err(Fault::Params(_))), "{wrong:?}");
        }
    }
}
