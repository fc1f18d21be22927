//! The EVM that everything here runs on: revm's, with a chain's own precompiles. The only place that puts it together,
//! so that another EVM would go here.

use crate::{KnownSlots, Precompile, Veil, hash_instruction, precompile::PrecompileSet, veil};
use core::ops::Deref;
use revm::{
    Context, MainContext as _,
    context::{CfgEnv, Evm, TxEnv},
    handler::{EthFrame, MainnetContext, instructions::EthInstructions},
    interpreter::interpreter::EthInterpreter,
    primitives::{Address, TxKind},
};
use std::sync::Arc;

/// An EVM on database `D`, watched by `I`. Building one costs microseconds; it is meant to be kept.
pub type Vm<D, I = ()> = Evm<
    MainnetContext<D>,
    I,
    EthInstructions<EthInterpreter, MainnetContext<D>>,
    PrecompileSet,
    EthFrame<EthInterpreter>,
>;

/// The rules that transactions run by: revm's configuration and the chain's own precompiles.
#[derive(Clone, Debug, Default)]
pub struct VmConfig {
    /// Spec, chain id, limits.
    pub cfg: CfgEnv,
    precompiles: Arc<[Arc<dyn Precompile>]>,
}

impl From<CfgEnv> for VmConfig {
    fn from(cfg: CfgEnv) -> Self {
        Self { cfg, precompiles: Arc::default() }
    }
}

impl Deref for VmConfig {
    type Target = CfgEnv;

    fn deref(&self) -> &CfgEnv {
        &self.cfg
    }
}

impl VmConfig {
    /// Adds a precompile; at an address that has one already, also one of Ethereum's, it takes its place.
    #[must_use]
    pub fn with_precompile(mut self, precompile: Arc<dyn Precompile>) -> Self {
        let others = self.precompiles.iter().filter(|other| other.address() != precompile.address());
        self.precompiles = others.cloned().chain([Arc::clone(&precompile)]).collect();
        self
    }

    /// The same precompiles under another configuration.
    #[must_use]
    pub fn with_cfg(&self, cfg: CfgEnv) -> Self {
        Self { cfg, precompiles: Arc::clone(&self.precompiles) }
    }

    /// The chain's own precompile at `address`.
    #[inline]
    pub fn precompile(&self, address: &Address) -> Option<&dyn Precompile> {
        self.precompiles.iter().find(|precompile| precompile.address() == *address).map(|found| &**found)
    }

    /// An EVM by these rules.
    pub fn build<D: revm::Database>(&self, db: D) -> Vm<D> {
        let context = Context::mainnet().with_db(db).with_cfg(self.cfg.clone());
        let instructions = EthInstructions::new_mainnet_with_spec(self.cfg.spec);
        Evm::new(context, instructions, PrecompileSet::new(self.cfg.spec, &self.precompiles))
    }

    /// As [`Self::build`]; the EVM asks `db` before it hashes what may be the key of a mapping.
    pub fn build_with_known_slots<D: KnownSlots>(&self, db: D) -> Vm<D> {
        let mut vm = self.build(db);
        hash_instruction::install(&mut vm.instruction);
        vm
    }

    /// As [`Self::build`]; the EVM tells `db` before it looks at the balance or the nonce of a contract. Precompiles of the
    /// chain's own do not: with them `db` must hide nothing.
    pub fn build_with_veil<D: Veil>(&self, db: D) -> Vm<D> {
        let mut vm = self.build(db);
        veil::install(&mut vm.instruction);
        vm
    }

    /// Whether the chain has precompiles of its own.
    pub fn has_precompiles(&self) -> bool {
        !self.precompiles.is_empty()
    }

    /// The receiver of a transfer that cannot see it, unless it has code: value moves, to somebody else, nothing runs, and
    /// nothing else happens. So the transfer commutes with whatever else is paid to that account.
    ///
    /// Precompiles run.
    #[inline]
    pub fn plain_receiver(&self, tx: &TxEnv) -> Option<Address> {
        let TxKind::Call(to) = tx.kind else { return None };
        (to != tx.caller && !tx.value.is_zero() && self.runs_nothing(tx, &to)).then_some(to)
    }

    /// Whether calling `to` runs nothing, given that it has no code. Calldata does not matter then.
    #[inline]
    pub(crate) fn runs_nothing(&self, tx: &TxEnv, to: &Address) -> bool {
        tx.authorization_list.is_empty() && !self.may_be_precompile(to)
    }

    /// Whether a precompile may be what runs at `address`. Ethereum's live at small numbers, and anything below 2^16 counts
    /// as one.
    #[inline]
    pub fn may_be_precompile(&self, address: &Address) -> bool {
        address.0[..18].iter().all(|byte| *byte == 0) || self.precompile(address).is_some()
    }
}
