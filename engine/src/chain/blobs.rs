//! Blob gas: the parameters in force, and the excess from block to block (EIP-4844, 7840, 7892, 7918).

use super::schedule::{ChainSpecError, Upgrade};
use alloy_eips::{
    eip4844::DATA_GAS_PER_BLOB,
    eip7594::MAX_BLOBS_PER_TX_FUSAKA,
    eip7840::{BLOB_BASE_COST, BlobParams},
};
use alloy_primitives::U256;

/// More blobs than any block can carry: 2^32 times 131072 gas still fits a header's field.
const MAX_BLOBS: u64 = 1 << 32;

/// Checks that parameters can be computed with, and completes them by the upgrade's own: a schedule only gives
/// target, maximum and update fraction.
pub(super) const fn usable(
    upgrade: Upgrade,
    at: u64,
    params: BlobParams,
) -> Result<(Upgrade, u64, BlobParams), ChainSpecError> {
    if params.update_fraction == 0
        || params.max_blob_count == 0
        || params.max_blob_count > MAX_BLOBS
        || params.target_blob_count > params.max_blob_count
    {
        return Err(ChainSpecError::Blobs { fork: upgrade.name() });
    }
    let params = if upgrade as u8 >= Upgrade::Osaka as u8 {
        params.with_max_blobs_per_tx(MAX_BLOBS_PER_TX_FUSAKA).with_blob_base_cost(BLOB_BASE_COST)
    } else {
        params.with_max_blobs_per_tx(params.max_blob_count).with_blob_base_cost(0)
    };
    Ok((upgrade, at, params))
}

/// Excess blob gas that a block must state, by the parameters of that block and the fields of its parent.
///
/// As [`BlobParams::next_block_excess_blob_gas_osaka`], but in wider numbers: no rule bounds the fields of a chain's
/// genesis. `None` if the result does not fit the header's field, so that no child is valid.
pub(super) fn next_excess(params: &BlobParams, excess: u64, used: u64, base_fee: u64) -> Option<u64> {
    let target = u128::from(params.target_blob_gas_per_block());
    let sum = u128::from(excess) + u128::from(used);
    if sum < target {
        return Some(0);
    }
    let reserve = U256::from(params.blob_base_cost) * U256::from(base_fee);
    let next = if reserve > U256::from(DATA_GAS_PER_BLOB) * U256::from(params.calc_blob_fee(excess)) {
        let (max, target) = (u128::from(params.max_blob_count), u128::from(params.target_blob_count));
        u128::from(excess) + u128::from(used) * (max - target) / max
    } else {
        sum - target
    };
    u64::try_from(next).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_is_that_of_alloy_where_it_cannot_overflow() {
        let mut limited = 0;
        for params in [BlobParams::cancun(), BlobParams::prague(), BlobParams::osaka(), BlobParams::bpo2()] {
            for excess in [0, 1, 393_215, 393_216, 5_000_000, 60_000_000, 200_000_000] {
                for blobs in 0..=params.max_blob_count {
                    for base_fee in [0, 7, 1_000_000_000, 1_000_000_000_000] {
                        let used = blobs * DATA_GAS_PER_BLOB;
                        let alloys = params.next_block_excess_blob_gas_osaka(excess, used, base_fee);
                        assert_eq!(next_excess(&params, excess, used, base_fee), Some(alloys));
                        limited +=
                            u32::from(alloys > (excess + used).saturating_sub(params.target_blob_gas_per_block()));
                    }
                }
            }
        }
        assert!(limited > 0, "the reserve price of EIP-7918 has been met");
        assert_eq!(next_excess(&BlobParams::cancun(), u64::MAX, u64::MAX, u64::MAX), None);
    }
}
