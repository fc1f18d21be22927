//! Base fee of the next block (EIP-1559).

use alloy_eips::eip1559::BaseFeeParams;

/// Parameters of a base fee that stays: no block uses more gas than its limit, which is the target, and no change divides to one wei.
pub(super) const FIXED: BaseFeeParams = BaseFeeParams { max_change_denominator: u128::MAX, elasticity_multiplier: 1 };

/// Base fee of the block after one that used `gas_used` of `gas_limit` at `base_fee`, in wei per gas.
///
/// As [`alloy_eips::calc_next_block_base_fee`], but exact where the result exceeds the header's field: `None`, for a child
/// that the engine refuses.
pub(super) fn next_base_fee(params: BaseFeeParams, gas_used: u64, gas_limit: u64, base_fee: u64) -> Option<u64> {
    let target = u128::from(gas_limit).checked_div(params.elasticity_multiplier).unwrap_or(0);
    let (used, fee) = (u128::from(gas_used), u128::from(base_fee));
    let divisor = target.saturating_mul(params.max_change_denominator);
    if divisor == 0 {
        return Some(base_fee); // nothing to measure by
    }
    let change = fee * used.abs_diff(target) / divisor;
    let next =
        if used > target { fee + change.max(1) } else { fee.saturating_sub(if used < target { change } else { 0 }) };
    u64::try_from(next).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_eips::calc_next_block_base_fee;

    #[test]
    fn next_base_fee_is_that_of_alloy_where_it_cannot_overflow() {
        let params = BaseFeeParams::ethereum();
        for limit in [0, 1, 2, 5000, 30_000_000, u64::MAX >> 1] {
            for used in [0, 1, limit / 2, limit / 2 + 1, limit / 3, limit] {
                for fee in [0, 1, 7, 8, 1_000_000_000, 1 << 60] {
                    let alloys = calc_next_block_base_fee(used, limit, fee, params);
                    assert_eq!(next_base_fee(params, used, limit, fee), Some(alloys), "{used} of {limit} at {fee}");
                }
            }
        }
        assert_eq!(next_base_fee(params, 10_000, 10_000, u64::MAX), None);
    }

    #[test]
    fn a_fixed_base_fee_stays_whatever_a_block_uses() {
        for limit in [21_000, 30_000_000, u64::MAX] {
            for fee in [0, 1, 1_000_000_000, u64::MAX] {
                for used in [0, 1, limit / 2, limit] {
                    assert_eq!(next_base_fee(FIXED, used, limit, fee), Some(fee), "{used} of {limit}");
                }
            }
        }
    }
}
