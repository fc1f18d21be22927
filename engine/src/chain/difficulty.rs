//! Difficulty of proof of work, with its bomb (yellow paper; EIP-2, 100, 649 and the delays after it).

use super::spec::ChainSpec;
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::U256;
use revm::primitives::hardfork::SpecId;

/// Blocks in which the bomb doubles.
const PERIOD: u64 = 100_000;
/// Divisor of a parent's difficulty: changes are multiples of the quotient.
const BOUND_DIVISOR: u64 = 2048;
/// Maximum number of downward steps, from Homestead on.
const MAX_STEPS_DOWN: u64 = 99;

impl ChainSpec {
    /// Difficulty that a proof-of-work block must have by the rules of `spec`. The timestamp is later than the
    /// parent's. `None` if the result does not fit the header's field, so that no child is valid.
    pub(super) fn difficulty(&self, header: &Header, parent: &Header, spec: SpecId) -> Option<U256> {
        let elapsed = header.timestamp.saturating_sub(parent.timestamp);
        // Steps up and steps down; only the larger counts.
        let (up, down) = if spec.is_enabled_in(SpecId::BYZANTIUM) {
            (if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH { 1 } else { 2 }, elapsed / 9)
        } else if spec.is_enabled_in(SpecId::HOMESTEAD) {
            (1, elapsed / 10)
        } else {
            (1, if elapsed < 13 { 0 } else { 2 })
        };
        let step = parent.difficulty / U256::from(BOUND_DIVISOR);
        let moved = match u64::checked_sub(up, down) {
            Some(steps) => parent.difficulty.checked_add(step.checked_mul(U256::from(steps))?)?,
            None => parent.difficulty - step * U256::from((down - up).min(MAX_STEPS_DOWN)),
        };
        let moved = moved.max(self.parameters.min_difficulty);
        let period = header.number.saturating_sub(self.schedule.bomb_delay(header.number)) / PERIOD;
        match period {
            0 | 1 => Some(moved),
            2..258 => moved.checked_add(U256::from(1) << (period - 2)),
            258.. => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::uint;

    #[test]
    fn the_first_difficulty_is_that_of_mainnet() {
        let genesis = Header { number: 0, difficulty: uint!(17_179_869_184_U256), ..Default::default() };
        let first = Header { number: 1, timestamp: 1_438_269_988, ..Default::default() };
        let chain = ChainSpec::mainnet();
        let difficulty = chain.difficulty(&first, &genesis, SpecId::FRONTIER);
        assert_eq!(difficulty, Some(uint!(17_171_480_576_U256)), "genesis has no timestamp: one step down");
    }

    #[test]
    fn the_bomb_goes_off_and_is_delayed() {
        let mut chain = ChainSpec::mainnet();
        chain.parameters.min_difficulty = U256::ZERO;
        // A parent without difficulty leaves the bomb alone.
        let bomb = |number, spec| {
            let parent = Header { number: number - 1, ..Default::default() };
            let header = Header { number, timestamp: 1, ..Default::default() };
            chain.difficulty(&header, &parent, spec)
        };
        let two_to = |exponent: usize| Some(U256::from(1) << exponent);
        assert_eq!(bomb(199_999, SpecId::FRONTIER), Some(U256::ZERO));
        assert_eq!(bomb(200_000, SpecId::FRONTIER), two_to(0));
        assert_eq!(bomb(4_369_999, SpecId::SPURIOUS_DRAGON), two_to(41));
        assert_eq!(bomb(4_370_000, SpecId::BYZANTIUM), two_to(11)); // 3 M
        assert_eq!(bomb(7_279_999, SpecId::BYZANTIUM), two_to(40));
        assert_eq!(bomb(7_280_000, SpecId::PETERSBURG), two_to(20)); // 5 M
        assert_eq!(bomb(9_199_999, SpecId::ISTANBUL), two_to(39));
        assert_eq!(bomb(9_200_000, SpecId::ISTANBUL), two_to(0)); // 9 M
        assert_eq!(bomb(12_964_999, SpecId::BERLIN), two_to(37));
        assert_eq!(bomb(12_965_000, SpecId::LONDON), two_to(30)); // 9.7 M
        assert_eq!(bomb(13_773_000, SpecId::LONDON), two_to(28)); // 10.7 M
        assert_eq!(bomb(15_049_999, SpecId::LONDON), two_to(41));
        assert_eq!(bomb(15_050_000, SpecId::LONDON), two_to(34)); // 11.4 M
        assert_eq!(bomb(u64::MAX, SpecId::LONDON), None);
    }
}
