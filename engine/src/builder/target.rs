//! Target of a job: the kind of block, and its rules.

use crate::{
    builder::Budget,
    engine::{Engine, environment::checked_env},
    model::{BlockError, RecoveredBlock},
};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use phalanx_paralyze::VmConfig;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};

/// Kind of block to build.
#[derive(Clone, Debug)]
pub enum Target {
    /// Transactions alone, in an environment: as [`Engine::execute`] runs them.
    Plain(Box<BlockEnv>),
    /// A whole block of the engine's chain: as [`Engine::execute_block`] runs it.
    Whole(Box<Template>),
}

/// A whole block without its transactions.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// The header. Fields of the outcome (gas used, roots, bloom, requests) are filled in when the block is sealed.
    pub header: Header,
    /// Headers of the ommers.
    pub ommers: Vec<Header>,
    /// Withdrawals (EIP-4895).
    pub withdrawals: Option<Vec<Withdrawal>>,
}

impl Template {
    pub(super) fn payload(&self) -> RecoveredBlock<'_> {
        let Self { header, ommers, withdrawals } = self;
        RecoveredBlock { header, txs: &[], ommers, withdrawals: withdrawals.as_deref() }
    }
}

impl Target {
    /// Configuration and environment of the transactions.
    pub(super) fn rules(&self, engine: &Engine) -> (VmConfig, BlockEnv) {
        match self {
            Self::Plain(env) => (engine.cfg.with_cfg(engine.rules.plain(env)), BlockEnv::clone(env)),
            Self::Whole(template) => {
                let header = &template.header;
                let cfg = engine.rules.chain.cfg(engine.rules.chain.spec(header), header.timestamp);
                (engine.cfg.with_cfg(cfg), engine.rules.chain.env(header))
            }
        }
    }

    /// Applies the rules to the engine. Returns the environment.
    pub(super) fn open(&self, engine: &mut Engine) -> Result<BlockEnv, BlockError> {
        match self {
            Self::Plain(env) => {
                engine.enter_plain(env)?;
                Ok(checked_env(env, engine.cfg.spec)?)
            }
            Self::Whole(template) => engine.follow(&template.payload()),
        }
    }

    /// Limits that the rules set to a block, beside its builder's.
    pub(super) fn limits(&self, engine: &Engine, env: &BlockEnv) -> Budget {
        let unlimited = Budget { gas: env.gas_limit, state_gas: env.gas_limit, ..Budget::default() };
        let Self::Whole(template) = self else { return unlimited };
        let blobs = engine.rules.chain.blob_params(template.header.timestamp);
        let blobs = blobs.filter(|_| engine.cfg.spec.is_enabled_in(SpecId::CANCUN));
        Budget { blob_gas: blobs.map_or(0, |params| params.max_blob_gas_per_block()), ..unlimited }
    }
}
