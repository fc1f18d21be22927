//! Logs by contract and topic: the index names the blocks, the stored logs decide.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    convert,
    error::RpcError,
    registry::Registry,
};
use crate::store::{Block, Key};
use alloy_rpc_types_eth::{BlockNumberOrTag, Filter, FilterBlockOption, Log};
use serde_json::Value;

/// Maximum number of addresses or topics at one position.
const MAX_ALTERNATIVES: usize = 1_000;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("eth_getLogs", 1, |api, args| {
        let filter = read(args)?;
        // An indexer that is ahead of its node must not take a range for read.
        if let FilterBlockOption::Range { from_block, to_block } = filter.block_option {
            let (from, to, head) = (height(api, from_block)?, height(api, to_block)?, api.chain.height());
            let is_named = [from_block, to_block].map(|tag| matches!(tag, Some(BlockNumberOrTag::Number(_))));
            if (is_named[0] && from > head) || (is_named[1] && to > head) {
                return Err(RpcError::invalid("block range extends beyond current head block"));
            }
            // The first block of a chain that has just joined is still to come.
            if from.min(head) > to {
                return Err(RpcError::invalid("invalid block range params"));
            }
        }
        query(api, &filter)
    });
}

/// Reads a filter.
pub(super) fn read(args: &Args) -> Result<Filter, RpcError> {
    let filter = args.required(0, filter)?;
    bounded(&filter)?;
    Ok(filter)
}

/// Refuses a filter that is too long.
pub(super) fn bounded(filter: &Filter) -> Result<(), RpcError> {
    let longest = filter.topics.iter().map(|topic| topic.len()).chain([filter.address.len()]).max().unwrap_or_default();
    if longest > MAX_ALTERNATIVES {
        return Err(RpcError::invalid(format!(
            "exceed max addresses or topics per search position: {MAX_ALTERNATIVES}"
        )));
    }
    Ok(())
}

/// Reads a filter whose heights are canonical.
pub(super) fn filter(value: &Value) -> Result<Filter, String> {
    let Value::Object(fields) = value else { return Err("an object is expected".into()) };
    for name in ["fromBlock", "toBlock"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_null()) {
            args::number(value)?;
        }
    }
    if fields.get("topics").and_then(Value::as_array).is_some_and(|topics| topics.len() > 4) {
        return Err("exceed max topics".into());
    }
    args::json(value)
}

/// Lists that the index is asked for: one of the keys of each.
fn keys(filter: &Filter) -> Vec<Vec<Key>> {
    let addresses = filter.address.iter().map(|address| Key::Address(*address)).collect();
    let topics = (0u8..).zip(&filter.topics);
    let topics = topics.map(|(place, topic)| topic.iter().map(|topic| Key::Topic(place, *topic)).collect());
    std::iter::once(addresses).chain(topics).collect()
}

/// Logs of a block that match.
pub(super) fn matching<'b>(block: &'b Block, filter: &'b Filter) -> impl Iterator<Item = Log> + 'b {
    let logs = (0..).zip(&block.entries).flat_map(|(index, entry)| convert::logs(&block.head, index, entry));
    logs.filter(|log| matches(log, filter))
}

/// True if a log has an address and topics that a filter asks for.
pub(super) fn matches(log: &Log, filter: &Filter) -> bool {
    filter.matches_address(log.address()) && filter.matches_topics(log.topics())
}

/// Height that a tag names: of the newest block for one that is not there yet.
fn height(api: &Api, tag: Option<BlockNumberOrTag>) -> Result<u64, RpcError> {
    let unknown = || RpcError::server("header not found");
    Ok(match tag {
        Some(BlockNumberOrTag::Number(height)) => height,
        Some(BlockNumberOrTag::Earliest) => api.chain.first()?,
        Some(BlockNumberOrTag::Safe) => api.height(BlockRef::Safe)?.ok_or_else(unknown)?,
        Some(BlockNumberOrTag::Finalized) => api.height(BlockRef::Finalised)?.ok_or_else(unknown)?,
        _ => api.chain.height(),
    })
}

/// Answers a log query within the limits; blocks that are not there yet have no logs.
pub(super) fn query(api: &Api, filter: &Filter) -> Result<Vec<Log>, RpcError> {
    let (from_block, to_block) = match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let block = api.block(BlockRef::Hash(hash))?.ok_or_else(|| RpcError::server("unknown block"))?;
            let mut found = Found::new(api);
            return if found.add(&block, filter) { Ok(found.logs) } else { Err(too_large(block.height())) };
        }
        FilterBlockOption::Range { from_block, to_block } => (from_block, to_block),
    };
    let (from, to) = (height(api, from_block)?, height(api, to_block)?);
    if let (Some(BlockNumberOrTag::Number(_)), Some(BlockNumberOrTag::Number(_))) = (from_block, to_block)
        && from > to
    {
        return Err(RpcError::invalid("invalid block range params"));
    }
    range(api, filter, from, to)
}

/// Answers a log query over a range of heights within the limits.
pub(super) fn range(api: &Api, filter: &Filter, from: u64, to: u64) -> Result<Vec<Log>, RpcError> {
    let to = to.min(api.chain.height());
    if from > to {
        return Ok(Vec::new());
    }
    if from < api.chain.first()? {
        return Err(RpcError::pruned());
    }
    let max = api.limits.max_range;
    if to - from >= max {
        return Err(RpcError::server(format!("query exceeds max block range {max}")));
    }
    match part(api, filter, from, to)? {
        Part { logs, full: None } => Ok(logs),
        Part { full: Some(height), .. } if from == to => Err(too_large(height)),
        Part { .. } => {
            let max = api.limits.max_logs;
            Err(RpcError::server(format!("query exceeds max results {max}, retry with a smaller range")))
        }
    }
}

/// Logs of a range up to a block that the answer has no room for.
pub(super) struct Part {
    pub(super) logs: Vec<Log>,
    /// First block whose logs are left out; those of all blocks below are here.
    pub(super) full: Option<u64>,
}

/// Logs of the blocks from a height on, as many whole blocks as fit into an answer. One block is too much only if its logs exceed
/// the size of an answer. The heights are those of blocks that are there.
pub(super) fn part(api: &Api, filter: &Filter, from: u64, to: u64) -> Result<Part, RpcError> {
    let (mut found, until) = (Found::new(api), api.until());
    for height in api.chain.store.heights(&keys(filter), from..=to, usize::MAX)? {
        until.check()?;
        let block = api.chain.block(height)?.ok_or_else(RpcError::pruned)?;
        if !found.add(&block, filter) {
            return Ok(Part { logs: found.logs, full: Some(height) });
        }
    }
    Ok(Part { logs: found.logs, full: None })
}

/// Error for a block whose logs alone exceed an answer.
pub(super) fn too_large(height: u64) -> RpcError {
    RpcError::server(format!("the logs of block {height} exceed the size of an answer: name addresses or topics"))
}

/// Logs of an answer, within the limits of number and size.
struct Found {
    logs: Vec<Log>,
    bytes: usize,
    max_logs: usize,
    max_bytes: usize,
}

/// Length of a log as JSON without its data, in bytes.
const LOG_BYTES: usize = 800;

impl Found {
    const fn new(api: &Api) -> Self {
        let (max_logs, max_bytes) = (api.limits.max_logs, api.limits.max_response as usize);
        Self { logs: Vec::new(), bytes: 0, max_logs, max_bytes }
    }

    /// Adds all logs of a block, or none and returns false. The first block with logs may have more than the limit of their number:
    /// no client can ask for less than a block.
    fn add(&mut self, block: &Block, filter: &Filter) -> bool {
        let before = self.logs.len();
        for log in matching(block, filter) {
            self.bytes += LOG_BYTES + 2 * log.data().data.len();
            self.logs.push(log);
            if self.bytes > self.max_bytes || (before > 0 && self.logs.len() > self.max_logs) {
                self.logs.truncate(before);
                return false;
            }
        }
        true
    }
}
