//! Rules of blocks: those of a chain by height and time, or the same for ever.

use super::Engine;
use crate::{
    chain::ChainSpec,
    exec::dispatch::Executors,
    model::{Error, RootKind, is_supported},
    state::CodeRule,
};
use alloy_consensus::Header;
use phalanx_paralyze::VmConfig;
use revm::{
    context::{BlockEnv, CfgEnv},
    primitives::hardfork::SpecId,
};

/// Rules of an engine's blocks.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Chain of whole blocks.
    pub(crate) chain: ChainSpec,
    /// Configuration of blocks of transactions alone; `None` if they follow the chain.
    fixed: Option<CfgEnv>,
}

impl Rules {
    pub(super) fn new(chain: Option<ChainSpec>, cfg: Option<CfgEnv>, root: Option<RootKind>) -> Result<Self, Error> {
        let contradiction = |error: crate::chain::ChainSpecError| Error::Configuration { what: error.to_string() };
        let rules = match (chain, cfg) {
            (Some(chain), None) => Self { chain, fixed: None },
            (Some(chain), Some(cfg)) => Self { chain: chain.with_cfg(cfg).map_err(contradiction)?, fixed: None },
            (None, Some(cfg)) => Self { chain: ChainSpec::mainnet().with_chain_id(cfg.chain_id), fixed: Some(cfg) },
            (None, None) => Self { chain: ChainSpec::mainnet(), fixed: Some(CfgEnv::new_with_spec(SpecId::OSAKA)) },
        };
        let root = root.unwrap_or(rules.chain.root());
        Ok(Self { chain: rules.chain.with_root(root), ..rules })
    }

    /// True if every block has the chain's rules at its height and time.
    pub(crate) const fn follow_chain(&self) -> bool {
        self.fixed.is_none()
    }

    /// Configuration before the first block.
    pub(super) fn first(&self) -> CfgEnv {
        self.plain(&BlockEnv::default())
    }

    /// Configuration of a block of transactions alone.
    pub(crate) fn plain(&self, env: &BlockEnv) -> CfgEnv {
        match &self.fixed {
            Some(cfg) => cfg.clone(),
            None => self.chain.cfg(self.chain.spec_of(env), u64::try_from(env.timestamp).unwrap_or(u64::MAX)),
        }
    }
}

impl Engine {
    /// Rules and environment of a whole block's transactions, with the chain's own precompiles: for calls and traces.
    pub fn rules_of(&self, header: &Header) -> (VmConfig, BlockEnv) {
        let chain = &self.rules.chain;
        (self.cfg.with_cfg(chain.cfg(chain.spec(header), header.timestamp)), chain.env(header))
    }

    /// Applies the rules of a block of transactions alone.
    pub(crate) fn enter_plain(&mut self, env: &BlockEnv) -> Result<(), Error> {
        self.enter(self.rules.plain(env))?;
        self.state.begin();
        Ok(())
    }

    /// Applies a configuration from the next block on.
    pub(super) fn enter(&mut self, cfg: CfgEnv) -> Result<(), Error> {
        if cfg != self.cfg.cfg {
            if !is_supported(&cfg) {
                return Err(Error::UnsupportedSpec { spec: cfg.spec });
            }
            let cfg = self.cfg.with_cfg(cfg);
            self.executors = Executors::new(&cfg, self.workers.threads(), self.options, self.salt);
            self.paralyze.set_cfg(cfg.clone());
            self.state.follow(CodeRule::of(cfg.spec));
            self.cfg = cfg;
        }
        Ok(())
    }
}
