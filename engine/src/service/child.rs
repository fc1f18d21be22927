//! Environment of the next block, for a proposer.

use super::{Service, environment::check};
use crate::chain::Attributes;
use phalanx_engine_api::{BlockEnv, ExecId, Failure, InvalidCause, ViewAt};

impl Service {
    /// Environment of a child of `parent`: its height, the base fee that follows, the gas limit of `attributes` or the parent's,
    /// and what else `attributes` has of it. Withdrawals and the beacon root travel beside it, as
    /// [`BlockAttributes`](super::BlockAttributes).
    ///
    /// Without a chain of whole blocks the base fee is the parent's. Behind a genesis without a header, of accounts alone, it is
    /// that of the first block of London, and the gas limit has to be in `attributes`.
    ///
    /// # Errors
    /// `Retry` if the parent is not executed, and [`InvalidCause::Environment`] if a block with these attributes breaks a rule.
    pub fn next_env(&self, parent: ExecId, attributes: &Attributes) -> Result<BlockEnv, Failure> {
        let Attributes { timestamp, beneficiary, prevrandao, gas_limit, .. } = *attributes;
        let kept = self.kept(ViewAt::Exec(parent))?;
        let (rules, fees) = (&self.shared.rules, &kept.fees);
        let invalid = || Failure::Invalid(InvalidCause::Environment);
        let base_fee = match (rules.follow_chain(), fees.are_known()) {
            (true, true) => rules.chain.next_base_fee(fees.gas_used, fees.gas_limit, fees.base_fee),
            (true, false) => Some(rules.chain.parameters().initial_base_fee),
            (false, _) => Some(fees.base_fee),
        };
        let gas_limit = gas_limit.or_else(|| fees.are_known().then_some(fees.gas_limit));
        let below = kept.ancestors.last_key_value().map_or(0, |(height, _)| *height);
        let env = BlockEnv {
            height: below + 1,
            timestamp_ms: timestamp.checked_mul(1000).ok_or_else(invalid)?,
            beneficiary,
            gas_limit: gas_limit.ok_or_else(invalid)?,
            base_fee: base_fee.ok_or_else(invalid)?,
            prevrandao,
        };
        check(rules, &env, fees).map_err(Failure::Invalid)?;
        Ok(env)
    }
}
