//! Answers to calls that wait for too long behind others of their connection.

use crate::engine_api::{Status, Updated};
use serde::Serialize;

pub(in crate::rpc) use crate::engine_api::PATIENCE;

/// Answer to a payload or a fork choice that is not carried out in time.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(in crate::rpc) enum Late {
    Payload(Status),
    Choice(Updated),
}

/// Answer to a call of a method that waits for longer than [`PATIENCE`]; `None` if the method has none.
pub(in crate::rpc) fn late(method: &str) -> Option<Late> {
    if method.starts_with("engine_newPayloadV") {
        Some(Late::Payload(Status::syncing()))
    } else if method.starts_with("engine_forkchoiceUpdatedV") {
        Some(Late::Choice(Updated::of(Status::syncing())))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn late_calls_are_answered_in_the_structure_of_their_method() {
        let syncing = json!({ "status": "SYNCING", "latestValidHash": null, "validationError": null });
        assert_eq!(json!(late("engine_newPayloadV4")), syncing);
        let updated = json!({ "payloadStatus": syncing, "payloadId": null });
        assert_eq!(json!(late("engine_forkchoiceUpdatedV3")), updated);
        assert!(late("engine_getPayloadV4").is_none() && late("eth_call").is_none());
    }
}
