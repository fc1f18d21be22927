//! `engine_*`: the Engine API, on a port of its own.

mod structures;
mod bodies;
mod handshake;
mod encoding;
mod late;

use super::{
    api::Api,
    args::{self, Args},
    error::RpcError,
    registry::Registry,
};
use crate::engine_api::{
    By, Envelope, Fault, Handle, Received, Status, Updated, Version, receive, with_cells, with_proofs,
};
use alloy_eips::eip4844::{BlobAndProofV1, BlobAndProofV2};
use alloy_primitives::{B64, B256, Bytes};

pub(super) use late::{PATIENCE, late};

/// Maximum number of blobs of a request, which the specification demands at least.
const MOST_BLOBS: usize = 128;

/// Bytes of `custodyColumns`.
const CUSTODY: usize = 16;

pub(super) fn register(registry: &mut Registry) {
    registry.light("engine_newPayloadV1", 1, |api, args| new_payload(api, args, 1));
    registry.light("engine_newPayloadV2", 1, |api, args| new_payload(api, args, 2));
    registry.light("engine_newPayloadV3", 3, |api, args| new_payload(api, args, 3));
    registry.light("engine_newPayloadV4", 4, |api, args| new_payload(api, args, 4));
    registry.light("engine_newPayloadV5", 4, |api, args| new_payload(api, args, 5));
    registry.light("engine_forkchoiceUpdatedV1", 2, |api, args| forkchoice_updated(api, args, 1));
    registry.light("engine_forkchoiceUpdatedV2", 2, |api, args| forkchoice_updated(api, args, 2));
    registry.light("engine_forkchoiceUpdatedV3", 2, |api, args| forkchoice_updated(api, args, 3));
    registry.light("engine_forkchoiceUpdatedV4", 3, |api, args| forkchoice_updated(api, args, 4));
    registry.light("engine_getPayloadV1", 1, |api, args| get_payload(api, args, 1));
    registry.light("engine_getPayloadV2", 1, |api, args| get_payload(api, args, 2));
    registry.light("engine_getPayloadV3", 1, |api, args| get_payload(api, args, 3));
    registry.light("engine_getPayloadV4", 1, |api, args| get_payload(api, args, 4));
    registry.light("engine_getPayloadV5", 1, |api, args| get_payload(api, args, 5));
    registry.light("engine_getPayloadV6", 1, |api, args| get_payload(api, args, 6));
    registry.light("engine_getBlobsV1", 1, blobs_with_proofs);
    registry.light("engine_getBlobsV2", 1, blobs_with_cells);
    bodies::register(registry);
    handshake::register(registry);
}

fn handle(api: &Api) -> Result<&Handle, RpcError> {
    // The namespace is served where a consensus client drives the node.
    api.exit.handle().ok_or_else(|| RpcError::internal("no consensus client drives this node"))
}

fn new_payload(api: &Api, args: &Args, method: u8) -> Result<Status, RpcError> {
    let (payload, sidecar) = structures::payload(&api.chain.spec, method, args)?;
    let by = if method == 1 { By::First } else { By::Later };
    match receive(&api.chain, payload, &sidecar, by) {
        Received::Sound(block) => Ok(handle(api)?.take(block)?),
        Received::Broken(status) => Ok(status),
    }
}

fn forkchoice_updated(api: &Api, args: &Args, method: u8) -> Result<Updated, RpcError> {
    let state = args.required(0, structures::state)?;
    let columns = args.optional(2, encoding::data::<Bytes>)?;
    if columns.is_some_and(|columns| columns.len() != CUSTODY) {
        return Err(Fault::Params(format!("custodyColumns have {CUSTODY} bytes")).into());
    }
    let wanted = args.value(1).map(|value| structures::attributes(&api.chain.spec, method, value));
    Ok(handle(api)?.choose(state, wanted)?)
}

fn get_payload(api: &Api, args: &Args, method: u8) -> Result<Envelope, RpcError> {
    let id = args.required(0, encoding::data::<B64>)?;
    Ok(handle(api)?.fetch(id)?.envelope(method)?)
}

/// Hashes of blobs.
fn hashes(args: &Args) -> Result<Vec<B256>, RpcError> {
    let hashes = args.required(0, encoding::hashes)?;
    if hashes.len() > MOST_BLOBS { Err(Fault::TooLarge.into()) } else { Ok(hashes) }
}

fn blobs_with_proofs(api: &Api, args: &Args) -> Result<Vec<Option<BlobAndProofV1>>, RpcError> {
    let hashes = hashes(args)?;
    if Version::at(&api.chain.spec, api.chain.head().header.timestamp) >= Version::Osaka {
        return Err(Fault::Fork.into());
    }
    Ok(with_proofs(&api.chain, &hashes))
}

fn blobs_with_cells(api: &Api, args: &Args) -> Result<Option<Vec<BlobAndProofV2>>, RpcError> {
    Ok(with_cells(&api.chain, &hashes(args)?))
}
