//! The block environment by the rules of a spec.

use crate::model::{Error, TooWide};
use revm::{context::BlockEnv, primitives::hardfork::SpecId};

/// Checks and completes the environment for `spec`.
pub(crate) fn checked_env(env: &BlockEnv, spec: SpecId) -> Result<BlockEnv, Error> {
    if spec.is_enabled_in(SpecId::MERGE) && env.prevrandao.is_none() {
        return Err(Error::Environment { what: "prevrandao" });
    }
    if spec.is_enabled_in(SpecId::CANCUN) && env.blob_excess_gas_and_price.is_none() {
        return Err(Error::Environment { what: "the excess blob gas" });
    }
    // The largest price stands for all that are larger.
    if env.blob_excess_gas_and_price.is_some_and(|blobs| blobs.blob_gasprice == u128::MAX) {
        return Err(TooWide::BLOB_BASE_FEE.into());
    }
    // Before EIP-1559 the beneficiary earns the whole price.
    let basefee = if spec.is_enabled_in(SpecId::LONDON) { env.basefee } else { 0 };
    Ok(BlockEnv { basefee, ..env.clone() })
}
