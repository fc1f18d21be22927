//! What client and node say of themselves: methods, version, and the transition to proof of stake.

use super::{
    Api, args,
    encoding::{Form, check},
};
use crate::rpc::registry::Registry;
use alloy_primitives::{B256, hex};
use alloy_rpc_types_engine::TransitionConfiguration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Methods that a client may rely on. `engine_exchangeCapabilities` is none of its own answers.
const CAPABILITIES: [&str; 23] = [
    "engine_exchangeTransitionConfigurationV1",
    "engine_newPayloadV1",
    "engine_newPayloadV2",
    "engine_newPayloadV3",
    "engine_newPayloadV4",
    "engine_newPayloadV5",
    "engine_forkchoiceUpdatedV1",
    "engine_forkchoiceUpdatedV2",
    "engine_forkchoiceUpdatedV3",
    "engine_forkchoiceUpdatedV4",
    "engine_getPayloadV1",
    "engine_getPayloadV2",
    "engine_getPayloadV3",
    "engine_getPayloadV4",
    "engine_getPayloadV5",
    "engine_getPayloadV6",
    "engine_getPayloadBodiesByHashV1",
    "engine_getPayloadBodiesByHashV2",
    "engine_getPayloadBodiesByRangeV1",
    "engine_getPayloadBodiesByRangeV2",
    "engine_getBlobsV1",
    "engine_getBlobsV2",
    "engine_getClientVersionV1",
];

pub(super) fn register(registry: &mut Registry) {
    registry.light("engine_exchangeCapabilities", 1, |_, args| {
        args.required(0, args::json::<Vec<String>>)?;
        Ok(CAPABILITIES)
    });
    registry.light("engine_exchangeTransitionConfigurationV1", 1, |api, args| {
        args.required(0, transition_of)?;
        Ok(transition(api))
    });
    registry.light("engine_getClientVersionV1", 1, |api, args| {
        args.required(0, args::json::<ClientVersion>)?;
        Ok([ClientVersion::own(api.commit)])
    });
}

/// Software and version of one side: `ClientVersionV1`.
#[derive(Debug, Serialize, Deserialize)]
struct ClientVersion {
    code: String,
    name: String,
    version: String,
    commit: String,
}

impl ClientVersion {
    /// A library does not know the commit that it is built from: the program says it.
    fn own(commit: [u8; 4]) -> Self {
        let version = concat!("v", env!("CARGO_PKG_VERSION")).into();
        Self { code: "PX".into(), name: "Phalanx".into(), version, commit: hex::encode(commit) }
    }
}

/// Fields of `TransitionConfigurationV1`.
const TRANSITION: [(&str, Form); 3] = [
    ("terminalTotalDifficulty", Form::Quantity(256)),
    ("terminalBlockHash", Form::Data),
    ("terminalBlockNumber", Form::Quantity(64)),
];

/// Reads the transition that a client knows.
fn transition_of(theirs: &Value) -> Result<TransitionConfiguration, String> {
    check(theirs, &TRANSITION)?;
    args::json(theirs)
}

/// The transition to proof of stake of the node's own genesis, whatever the client's is: the client compares.
const fn transition(api: &Api) -> TransitionConfiguration {
    TransitionConfiguration {
        terminal_total_difficulty: api.terminal_difficulty,
        terminal_block_hash: B256::ZERO,
        terminal_block_number: 0,
    }
}
