//! The block environment by the rules of a spec.

use crate::model::Error;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};

/// Checks and completes the environment for `spec`.
pub(crate) fn checked_env(env: &BlockEnv, spec: SpecId) -> Result<BlockEnv, Error> {
    if spec.is_enabled_in(SpecId::MERGE) && env.prevrandao.is_none() {
        return Err(Error::Environment { what: "prevrandao" });
    }
    if spec.is_enabled_in(SpecId::CANCUN) && env.blob_excess_gas_and_price.is_none() {
        return Err(Error::Environment { what: "the excess blob gas" });
    }
    // Before EIP-1559 the beneficiary earns the whole price.
    let basefee = if spec.is_enabled_in(SpecId::LONDON) { env.basefee } else { 0 };
    Ok(BlockEnv { basefee, ..env.clone() })
}
