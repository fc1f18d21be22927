//! What a block is to be.

use crate::{BlockError, Engine, Payload, builder::Budget, engine::checked};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use phalanx_paralyze::VmConfig;
use revm::{context::BlockEnv, primitives::hardfork::SpecId};

/// What kind of block is built.
#[derive(Clone, Debug)]
pub enum Target {
    /// Transactions alone, in an environment: what [`Engine::execute`] runs.
    Plain(Box<BlockEnv>),
    /// A whole block of the engine's chain: what [`Engine::execute_block`] runs.
    Whole(Box<Template>),
}

/// A whole block without its transactions.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// The header. What tells of the outcome (gas used, roots, bloom, requests) is filled in when the block is sealed.
    pub header: Header,
    /// Headers of its uncles.
    pub ommers: Vec<Header>,
    /// Its withdrawals (EIP-4895).
    pub withdrawals: Option<Vec<Withdrawal>>,
}

impl Template {
    pub(super) fn payload(&self) -> Payload<'_> {
        let Self { header, ommers, withdrawals } = self;
        Payload { header, txs: &[], ommers, withdrawals: withdrawals.as_deref() }
    }
}

impl Target {
    /// The configuration and environment that transactions will meet.
    pub(super) fn rules(&self, engine: &Engine) -> (VmConfig, BlockEnv) {
        match self {
            Self::Plain(env) => (engine.cfg.clone(), BlockEnv::clone(env)),
            Self::Whole(template) => {
                let header = &template.header;
                let cfg = engine.chain.cfg(engine.chain.spec(header), header.timestamp);
                (engine.cfg.with_cfg(cfg), engine.chain.env(header))
            }
        }
    }

    /// Takes up the rules, and gives the environment.
    pub(super) fn open(&self, engine: &mut Engine) -> Result<BlockEnv, BlockError> {
        match self {
            Self::Plain(env) => Ok(checked(env, engine.cfg.spec)?),
            Self::Whole(template) => engine.follow(&template.payload()),
        }
    }

    /// What the rules allow a block to hold, whatever its builder wants.
    pub(super) fn limits(&self, engine: &Engine, env: &BlockEnv) -> Budget {
        let unlimited = Budget { gas: env.gas_limit, ..Budget::default() };
        let Self::Whole(template) = self else { return unlimited };
        let blobs = engine.chain.blob_params(template.header.timestamp);
        let blobs = blobs.filter(|_| engine.cfg.spec.is_enabled_in(SpecId::CANCUN));
        Budget { blob_gas: blobs.map_or(0, |params| params.max_blob_gas_per_block()), ..unlimited }
    }
}
