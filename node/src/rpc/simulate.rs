//! `eth_simulateV1`: blocks that are not part of the chain, one on the other, with overrides and calls.
//!
//! Blocks, defaults and codes of errors are geth's. The root of a simulated state is not computed: headers have zero in its place.

use super::{
    api::{Api, Until},
    args::{self, Args, BlockRef},
    calls::CallState,
    error::RpcError,
    registry::Registry,
    simulated::{Block, Ran},
};
use ::phalanx::revm::{database::CacheDB, primitives::hardfork::SpecId};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{Block as RpcBlock, BlockOverrides, TransactionRequest, state::StateOverride};
use serde::Serialize;
use serde_json::Value;

/// Maximum number of blocks, those between the named ones included.
const MAX_BLOCKS: u64 = 256;

/// Seconds between two blocks.
const STEP: u64 = 12;

const BLOCK_NUMBER: i32 = -38020;
const BLOCK_TIMESTAMP: i32 = -38021;
const TOO_MANY: i32 = -38026;

pub(super) fn register(registry: &mut Registry) {
    registry.heavy("eth_simulateV1", 2, simulate);
}

/// A block that is asked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) env: BlockOverrides,
    pub(super) withdrawals: Vec<Withdrawal>,
    pub(super) state: StateOverride,
    pub(super) calls: Vec<TransactionRequest>,
}

/// Options of all blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Transfers of ether are shown as logs.
    pub(super) traces_transfers: bool,
    /// Nonces and prices must be those of transactions.
    pub(super) validates: bool,
    /// Blocks have whole transactions.
    full: bool,
}

/// A block with the results of its calls.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    block: RpcBlock,
    calls: Vec<Ran>,
}

/// Rest of the limits for all calls of a request.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) gas: u64,
    pub(super) until: Until,
}

fn simulate(api: &Api, args: &Args) -> Result<Vec<Answer>, RpcError> {
    let (blocks, options) = args.required(0, payload)?;
    // The pending block has no transactions: it is like the newest.
    let block = Some(args.block(1)?).filter(|block| *block != BlockRef::Pending).unwrap_or(BlockRef::Latest);
    if blocks.is_empty() {
        return Err(RpcError::invalid("empty input"));
    }
    let (base, snapshot) = api.setting(block)?;
    let blocks = in_order(&base, blocks)?;
    let mut state = CacheDB::new(snapshot);
    let mut parent = base;
    let mut budget = Budget { gas: api.limits.gas_cap, until: api.until() };
    let mut answers = Vec::with_capacity(blocks.len());
    for wanted in blocks {
        budget.until.check()?;
        let hash = parent.hash_slow();
        state.cache.block_hashes.insert(U256::from(parent.number), hash);
        let header = header(api, &parent, hash, &wanted, options)?;
        let withdrawals = wanted.withdrawals.clone();
        let (block, after): (Block, CallState) = Block::run(api, header, wanted, state, options, &mut budget)?;
        state = after;
        parent = block.header.clone();
        let (block, calls) = block.show(options.full, Withdrawals::new(withdrawals));
        answers.push(Answer { block, calls });
    }
    Ok(answers)
}

fn payload(value: &Value) -> Result<(Vec<Wanted>, Options), String> {
    let fields = value.as_object().ok_or("an object is expected")?;
    let flag = |name: &str| match fields.get(name).filter(|value| !value.is_null()) {
        Some(value) => value.as_bool().ok_or_else(|| format!("{name}: true or false is expected")),
        None => Ok(false),
    };
    let options = Options {
        traces_transfers: flag("traceTransfers")?,
        validates: flag("validation")?,
        full: flag("returnFullTransactions")?,
    };
    let blocks = match fields.get("blockStateCalls") {
        None | Some(Value::Null) => &[][..],
        Some(blocks) => blocks.as_array().ok_or("blockStateCalls: an array is expected")?,
    };
    Ok((blocks.iter().map(wanted).collect::<Result<_, _>>()?, options))
}

fn wanted(value: &Value) -> Result<Wanted, String> {
    let fields = value.as_object().ok_or("an object is expected")?;
    let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let mut wanted = Wanted::default();
    if let Some(env) = given("blockOverrides") {
        wanted.env = args::json(env)?;
        if let Some(withdrawals) = env.get("withdrawals").filter(|value| !value.is_null()) {
            wanted.withdrawals = args::json(withdrawals)?;
        }
    }
    if let Some(state) = given("stateOverrides") {
        wanted.state = args::json(state)?;
    }
    if let Some(calls) = given("calls") {
        let calls = calls.as_array().ok_or("calls: an array is expected")?;
        wanted.calls = calls.iter().map(args::call).collect::<Result<_, _>>()?;
    }
    Ok(wanted)
}

/// Gives every block a number and a time, and fills gaps with empty blocks.
fn in_order(base: &Header, blocks: Vec<Wanted>) -> Result<Vec<Wanted>, RpcError> {
    let (mut number, mut time) = (base.number, base.timestamp);
    let mut all = Vec::new();
    for mut wanted in blocks {
        let next = match wanted.env.number {
            None => number.saturating_add(1),
            // One that no header can have is too far as well.
            Some(next) => u64::try_from(next).unwrap_or(u64::MAX),
        };
        if next <= number {
            return Err(RpcError::of(BLOCK_NUMBER, format!("block numbers must be in order: {next} <= {number}")));
        }
        if next - base.number > MAX_BLOCKS {
            return Err(RpcError::of(TOO_MANY, "too many blocks"));
        }
        let named = |number: u64, time: u64| BlockOverrides {
            number: Some(U256::from(number)),
            time: Some(time),
            ..BlockOverrides::default()
        };
        for number in number + 1..next {
            time = time.saturating_add(STEP);
            all.push(Wanted { env: named(number, time), ..Wanted::default() });
        }
        number = next;
        let at = wanted.env.time.unwrap_or(time.saturating_add(STEP));
        if at <= time {
            return Err(RpcError::of(BLOCK_TIMESTAMP, format!("block timestamps must be in order: {at} <= {time}")));
        }
        time = at;
        (wanted.env.number, wanted.env.time) = (Some(U256::from(number)), Some(time));
        all.push(wanted);
    }
    Ok(all)
}

/// Header of a block before its calls.
fn header(api: &Api, parent: &Header, hash: B256, wanted: &Wanted, options: Options) -> Result<Header, RpcError> {
    let (chain, env) = (&api.chain.spec, &wanted.env);
    let wide = |name: &str| RpcError::invalid(format!("block override \"{name}\" is too large"));
    let number = env.number.map_or(parent.number + 1, |number| number.to());
    let timestamp = env.time.unwrap_or(parent.timestamp + STEP);
    let next_fee =
        || chain.next_base_fee(parent.gas_used, parent.gas_limit, parent.base_fee_per_gas.unwrap_or_default());
    let base_fee = match env.base_fee {
        Some(fee) => u64::try_from(fee).map_err(|_| wide("baseFeePerGas"))?,
        // As for any call, a price of zero goes.
        None if !options.validates => 0,
        None => next_fee().ok_or_else(|| wide("baseFeePerGas"))?,
    };
    let mut header = Header {
        parent_hash: hash,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: env.coinbase.unwrap_or(parent.beneficiary),
        difficulty: env.difficulty.unwrap_or_default(),
        number,
        timestamp,
        gas_limit: env.gas_limit.unwrap_or(parent.gas_limit),
        mix_hash: env.random.unwrap_or_default(),
        base_fee_per_gas: Some(base_fee),
        ..Header::default()
    };
    let spec = chain.spec(&header);
    let from = |since| spec.is_enabled_in(since);
    header.withdrawals_root =
        from(SpecId::SHANGHAI).then(|| alloy_consensus::proofs::calculate_withdrawals_root(&wanted.withdrawals));
    if from(SpecId::CANCUN) {
        let (excess, used) = (parent.excess_blob_gas.unwrap_or_default(), parent.blob_gas_used.unwrap_or_default());
        let parent_fee = parent.base_fee_per_gas.unwrap_or_default();
        header.excess_blob_gas = chain.next_excess_blob_gas(timestamp, excess, used, parent_fee);
        header.blob_gas_used = Some(0);
        header.parent_beacon_block_root = Some(env.beacon_root.unwrap_or_default());
    }
    Ok(header)
}
