//! Rules of a block's environment that its parent shows: base fee, gas limit and time.
//!
//! On a chain with whole blocks they are the service's, so that no proposer chooses a fee. Beneficiary, `prevRandao`, and a time
//! within these rules are consensus's. Without such a chain the whole environment is.

use super::codec::Fees;
use crate::{
    chain::{ChainSpec, HeaderError},
    engine::rules::Rules,
};
use alloy_consensus::Header;
use phalanx_engine_api::{BlockEnv, InvalidCause};

impl Fees {
    /// True unless the block is one that no service has executed, or a genesis without a header.
    pub(super) const fn are_known(&self) -> bool {
        self.gas_limit > 0
    }

    /// The part of a header that the environment of a child follows from.
    fn header(&self, number: u64) -> Header {
        Header {
            number,
            timestamp: self.timestamp,
            gas_limit: self.gas_limit,
            gas_used: self.gas_used,
            base_fee_per_gas: Some(self.base_fee),
            ..Header::default()
        }
    }
}

impl ChainSpec {
    /// Checks time, gas limit and base fee of the environment of a block against its parent, of which number, time, gas limit, gas
    /// used and base fee count. Blocks of one second are permitted: an environment has milliseconds, and a header has seconds.
    ///
    /// # Errors
    /// The first broken rule. The clock is not checked.
    pub fn validate_env(&self, env: &BlockEnv, parent: &Header) -> Result<(), HeaderError> {
        let header = Header {
            number: env.height,
            timestamp: env.timestamp_ms / 1000,
            gas_limit: env.gas_limit,
            base_fee_per_gas: Some(env.base_fee),
            ..Header::default()
        };
        if header.timestamp < parent.timestamp {
            return Err(HeaderError::Timestamp { parent: parent.timestamp, got: header.timestamp });
        }
        self.validate_gas(&header, parent)
    }
}

/// Checks the environment of a block on a parent, as far as the parent is known.
pub(super) fn check(rules: &Rules, env: &BlockEnv, parent: &Fees) -> Result<(), InvalidCause> {
    if !rules.follow_chain() || !parent.are_known() {
        return Ok(());
    }
    let parent = parent.header(env.height.saturating_sub(1));
    rules.chain.validate_env(env, &parent).map_err(|_| InvalidCause::Environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_determines_the_fee_and_bounds_limit_and_time() {
        let chain = ChainSpec::named("Prague").expect("a fork");
        let parent =
            Fees { timestamp: 40, gas_limit: 30_000_000, gas_used: 0, base_fee: 1_000_000_000, ..Fees::default() };
        let sound = BlockEnv {
            height: 7,
            timestamp_ms: 40_000,
            gas_limit: 30_000_000,
            base_fee: 875_000_000,
            ..BlockEnv::default()
        };
        let parent = parent.header(6);
        let check = |env: BlockEnv| chain.validate_env(&env, &parent);
        assert_eq!(check(sound), Ok(()), "a block of the parent's second");
        let (step, fee) = (30_000_000 / 1024, sound.base_fee);
        for gas_limit in [30_000_000 - step + 1, 30_000_000 + step - 1] {
            assert_eq!(check(BlockEnv { gas_limit, ..sound }), Ok(()));
        }
        for gas_limit in [0, 5_000, 30_000_000 - step, 30_000_000 + step, u64::MAX] {
            assert_eq!(
                check(BlockEnv { gas_limit, ..sound }),
                Err(HeaderError::GasLimit { parent: 30_000_000, got: gas_limit })
            );
        }
        for base_fee in [0, fee - 1, fee + 1, 1_000_000_000, u64::MAX] {
            let expected = HeaderError::BaseFee { expected: fee, got: base_fee };
            assert_eq!(check(BlockEnv { base_fee, ..sound }), Err(expected));
        }
        for timestamp_ms in [0, 39_999] {
            let got = timestamp_ms / 1000;
            assert_eq!(check(BlockEnv { timestamp_ms, ..sound }), Err(HeaderError::Timestamp { parent: 40, got }));
        }
    }
}
