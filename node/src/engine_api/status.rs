//! Answers to a payload and to a fork choice.

use super::tree::Invalid;
use alloy_primitives::{B64, B256};
use serde::Serialize;

/// State of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum State {
    Valid,
    Invalid,
    /// The header of the payload has another hash: a state of `newPayloadV1` alone.
    InvalidBlockHash,
    /// An ancestor is missing.
    Syncing,
    /// The payload is beside the chain, and not executed.
    Accepted,
}

/// Answer to a payload: `PayloadStatusV1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(super) status: State,
    /// The newest valid block on the way to the payload.
    latest_valid_hash: Option<B256>,
    validation_error: Option<String>,
}

impl Status {
    pub(super) const fn valid(hash: B256) -> Self {
        Self { status: State::Valid, latest_valid_hash: Some(hash), validation_error: None }
    }

    pub(crate) const fn syncing() -> Self {
        Self { status: State::Syncing, latest_valid_hash: None, validation_error: None }
    }

    pub(super) const fn accepted() -> Self {
        Self { status: State::Accepted, latest_valid_hash: None, validation_error: None }
    }

    pub(super) fn invalid(invalid: &Invalid) -> Self {
        let Invalid { latest_valid, why } = invalid;
        Self { status: State::Invalid, latest_valid_hash: *latest_valid, validation_error: Some(why.clone()) }
    }

    /// A payload that breaks a rule without regard to its ancestors.
    pub(super) const fn broken(why: String) -> Self {
        Self { status: State::Invalid, latest_valid_hash: None, validation_error: Some(why) }
    }

    /// A payload whose hash is not that of its header.
    pub(super) const fn of_another_hash(why: String) -> Self {
        Self { status: State::InvalidBlockHash, latest_valid_hash: None, validation_error: Some(why) }
    }
}

/// Answer to a fork choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Updated {
    payload_status: Status,
    /// Name of the job that has begun.
    payload_id: Option<B64>,
}

impl Updated {
    pub(crate) const fn of(payload_status: Status) -> Self {
        Self { payload_status, payload_id: None }
    }

    pub(super) fn building(self, id: B64) -> Self {
        Self { payload_id: Some(id), ..self }
    }
}
