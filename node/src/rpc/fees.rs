//! Prices: what recent blocks charged, and what a wallet should offer.

use super::{
    api::Api,
    args::{self, Args, BlockRef},
    convert,
    error::RpcError,
    registry::Registry,
};
use crate::store::Head;
use ::phalanx::chain::ChainSpec;
use alloy_primitives::U256;
use alloy_rpc_types_eth::FeeHistory;

/// Number of newest blocks that a suggested tip is taken from.
const SAMPLED_BLOCKS: u64 = 20;

/// Number of the lowest tips of a block that count.
const SAMPLED_TIPS: usize = 3;

/// Percentile of the sampled tips that is suggested.
const PERCENTILE: usize = 60;

/// Suggested tip while no block has transactions, in wei per gas.
const DEFAULT_TIP: u128 = 1_000_000_000;

/// Maximum number of blocks in a fee history, as in geth.
const MAX_HISTORY: u64 = 1024;

/// Maximum number of percentiles in a fee history, as in geth.
const MAX_PERCENTILES: usize = 100;

pub(super) fn register(registry: &mut Registry) {
    registry.light("eth_gasPrice", 0, |api, _| {
        let base = next_base_fee(api)?;
        Ok(U256::from(base.saturating_add(tip(api)?)))
    });
    registry.instant("eth_baseFee", 0, |api, _| Ok(U256::from(next_base_fee(api)?)));
    registry.light("eth_maxPriorityFeePerGas", 0, |api, _| Ok(U256::from(tip(api)?)));
    registry.instant("eth_blobBaseFee", 0, |api, _| {
        // By the schedule of the newest block, as in geth: a clock of this node may be far from that of who orders.
        let head = api.chain.head();
        let params = api.chain.spec.blob_params(head.header.timestamp);
        Ok(U256::from(params.and_then(|params| head.header.next_block_blob_fee(params)).unwrap_or(1)))
    });
    registry.heavy("eth_feeHistory", 3, history);
}

fn next_base_fee(api: &Api) -> Result<u128, RpcError> {
    Ok(api.pending(&api.chain.head())?.base_fee_per_gas.unwrap_or_default().into())
}

/// Tip that a transaction should offer: geth's sample of recent blocks.
pub(super) fn tip(api: &Api) -> Result<u128, RpcError> {
    let newest = api.chain.height();
    // Wallets ask often, and the answer changes with a block.
    let known = *api.tip.lock();
    if let Some((_, tip)) = known.filter(|(height, _)| *height == newest) {
        return Ok(tip);
    }
    let tip = sampled(api, newest)?;
    *api.tip.lock() = Some((newest, tip));
    Ok(tip)
}

fn sampled(api: &Api, newest: u64) -> Result<u128, RpcError> {
    let mut sampled = Vec::new();
    for height in newest.saturating_sub(SAMPLED_BLOCKS - 1)..=newest {
        let Some(block) = api.chain.block(height)? else { continue };
        let mut tips: Vec<u128> = convert::tips(&block)?.into_iter().map(|(tip, _)| tip).collect();
        tips.sort_unstable();
        sampled.extend(tips.into_iter().take(SAMPLED_TIPS));
    }
    sampled.sort_unstable();
    let place = sampled.len().saturating_sub(1) * PERCENTILE / 100;
    Ok(sampled.get(place).copied().unwrap_or(DEFAULT_TIP))
}

fn history(api: &Api, args: &Args) -> Result<FeeHistory, RpcError> {
    let count = args.required(0, args::count)?.min(MAX_HISTORY);
    let newest = args.required(1, args::number)?;
    let percentiles = args.optional(2, args::json::<Vec<f64>>)?;
    check(percentiles.as_deref().unwrap_or_default())?;
    let newest = match newest {
        BlockRef::Pending => api.chain.height(),
        BlockRef::Height(height) if height > api.chain.height() => {
            let head = api.chain.height();
            return Err(RpcError::server(format!("request beyond head block: requested {height}, head {head}")));
        }
        other => api.state_height(other)?,
    };
    if count == 0 {
        return Ok(FeeHistory::default());
    }
    let oldest = (newest + 1).saturating_sub(count).max(api.chain.first()?.min(newest));
    let mut history = FeeHistory { oldest_block: oldest, ..FeeHistory::default() };
    let mut rewards = Vec::new();
    let mut last = None;
    for height in oldest..=newest {
        let head = api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
        let (base, blob) = prices(&api.chain.spec, &head);
        history.base_fee_per_gas.push(base);
        history.base_fee_per_blob_gas.push(blob);
        let header = &head.header;
        history.gas_used_ratio.push(ratio(header.gas_used, header.gas_limit));
        let max_blob_gas =
            api.chain.spec.blob_params(header.timestamp).map_or(0, |params| params.max_blob_gas_per_block());
        history.blob_gas_used_ratio.push(ratio(header.blob_gas_used.unwrap_or_default(), max_blob_gas));
        if let Some(percentiles) = percentiles.as_deref().filter(|percentiles| !percentiles.is_empty()) {
            let block = api.chain.block(height)?.ok_or_else(RpcError::pruned)?;
            rewards.push(at_percentiles(convert::tips(&block)?, header.gas_used, percentiles));
        }
        last = Some(head);
    }
    // The fees of the block behind the newest are known.
    let after = last.map(|head| api.pending(&head)).transpose()?;
    if let Some(after) = after {
        history.base_fee_per_gas.push(after.base_fee_per_gas.unwrap_or_default().into());
        let params = api.chain.spec.blob_params(after.timestamp);
        let blob = params.zip(after.excess_blob_gas).map_or(0, |(params, excess)| params.calc_blob_fee(excess));
        history.base_fee_per_blob_gas.push(blob);
    }
    history.reward = percentiles.map(|_| rewards).filter(|rewards| !rewards.is_empty());
    Ok(history)
}

fn check(percentiles: &[f64]) -> Result<(), RpcError> {
    if percentiles.len() > MAX_PERCENTILES {
        return Err(RpcError::server(format!("invalid reward percentile: over the query limit {MAX_PERCENTILES}")));
    }
    if let Some(wrong) = percentiles.iter().find(|percentile| !(0.0..=100.0).contains(*percentile)) {
        return Err(RpcError::server(format!("invalid reward percentile: {wrong}")));
    }
    if let Some(pair) = percentiles.windows(2).position(|pair| pair[0] > pair[1]) {
        let (before, after) = (percentiles[pair], percentiles[pair + 1]);
        return Err(RpcError::server(format!("invalid reward percentile: #{pair}:{before} >= #{}:{after}", pair + 1)));
    }
    Ok(())
}

fn prices(chain: &ChainSpec, head: &Head) -> (u128, u128) {
    (head.header.base_fee_per_gas.unwrap_or_default().into(), convert::blob_fee(chain, head).unwrap_or_default())
}

fn ratio(used: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { used as f64 / of as f64 }
}

/// Tips at percentiles of a block's gas.
fn at_percentiles(mut tips: Vec<(u128, u64)>, gas_used: u64, percentiles: &[f64]) -> Vec<u128> {
    tips.sort_unstable();
    let Some(mut sum) = tips.first().map(|(_, gas)| *gas) else { return vec![0; percentiles.len()] };
    let mut place = 0;
    let tip = |percentile: &f64| {
        let threshold = (gas_used as f64 * percentile / 100.0) as u64;
        while sum < threshold && place + 1 < tips.len() {
            place += 1;
            sum += tips[place].1;
        }
        tips[place].0
    };
    percentiles.iter().map(tip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_weigh_tips_by_gas() {
        let tips = vec![(30, 10), (10, 70), (20, 20)];
        assert_eq!(
            at_percentiles(tips, 100, &[0.0, 50.0, 70.0, 71.0, 90.0, 91.0, 100.0]),
            [10, 10, 10, 20, 20, 30, 30]
        );
        assert_eq!(at_percentiles(vec![], 0, &[10.0, 90.0]), [0, 0]);
    }

    #[test]
    fn percentiles_are_ordered_and_bounded() {
        assert!(check(&[0.0, 25.0, 25.0, 100.0]).is_ok());
        for wrong in [&[-1.0][..], &[100.1], &[2.0, 1.0], &[f64::NAN], &[1.0; 101]] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
