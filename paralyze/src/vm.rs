//! The EVM of all executions: revm's, with a chain's own precompiles. It is built only here, so another EVM would go here.

use crate::{
    chain_rules::ChainRules,
    hash_instruction,
    mask::{self, AccountMask},
    precompile::{Precompile, PrecompileSet},
    preimage::KnownSlots,
};
use core::ops::Deref;
use revm::{
    Context, MainContext as _,
    context::{CfgEnv, Evm, TxEnv},
    handler::{EthFrame, MainnetContext, instructions::EthInstructions},
    interpreter::interpreter::EthInterpreter,
    precompile::{PrecompileSpecId, Precompiles},
    primitives::{Address, TxKind, hardfork::SpecId},
};
use std::sync::Arc;

/// An EVM on database `D` with inspector `I`. Building one costs microseconds, so it should be kept.
pub type Vm<D, I = ()> = Evm<
    MainnetContext<D>,
    I,
    EthInstructions<EthInterpreter, MainnetContext<D>>,
    PrecompileSet,
    EthFrame<EthInterpreter>,
>;

/// Rules of execution: revm's configuration, the chain's own precompiles, and its rules of fees.
#[derive(Clone, Debug, Default)]
pub struct VmConfig {
    /// Spec, chain id, limits.
    pub cfg: CfgEnv,
    precompiles: Arc<[Arc<dyn Precompile>]>,
    /// Addresses at which the precompile of another one runs, or none.
    moved: Arc<[(Address, Option<Address>)]>,
    /// `None` if they are mainnet's.
    rules: Option<Arc<ChainRules>>,
}

impl From<CfgEnv> for VmConfig {
    fn from(cfg: CfgEnv) -> Self {
        Self { cfg, precompiles: Arc::default(), moved: Arc::default(), rules: None }
    }
}

impl Deref for VmConfig {
    type Target = CfgEnv;

    fn deref(&self) -> &CfgEnv {
        &self.cfg
    }
}

impl VmConfig {
    /// Adds a precompile. It replaces a precompile of the same address, also one of Ethereum's.
    #[must_use]
    pub fn with_precompile(mut self, precompile: Arc<dyn Precompile>) -> Self {
        let others = self.precompiles.iter().filter(|other| other.address() != precompile.address());
        self.precompiles = others.cloned().chain([Arc::clone(&precompile)]).collect();
        self
    }

    /// Runs at each of these addresses the precompile of another one, or the account's code if none is named: for calls on a state that
    /// a client has changed. The first entry of an address counts.
    #[must_use]
    pub fn with_moved_precompiles(mut self, places: impl IntoIterator<Item = (Address, Option<Address>)>) -> Self {
        self.moved = places.into_iter().collect();
        self
    }

    /// Sets the chain's own rules.
    #[must_use]
    pub fn with_rules(mut self, rules: ChainRules) -> Self {
        self.rules = (!rules.is_mainnet()).then(|| Arc::new(rules));
        self
    }

    /// Returns the same precompiles and chain rules under another configuration.
    #[must_use]
    pub fn with_cfg(&self, cfg: CfgEnv) -> Self {
        Self { cfg, ..self.clone() }
    }

    /// Returns the chain's own rules; `None` if they are mainnet's.
    #[inline]
    pub fn rules(&self) -> Option<&ChainRules> {
        self.rules.as_deref()
    }

    /// Returns [`Self::rules`] for an owner.
    pub fn shared_rules(&self) -> Option<Arc<ChainRules>> {
        self.rules.clone()
    }

    /// Returns the chain's own precompile at `address`.
    #[inline]
    pub fn precompile(&self, address: &Address) -> Option<&dyn Precompile> {
        self.precompiles.iter().find(|precompile| precompile.address() == *address).map(|found| &**found)
    }

    /// Returns true if Ethereum or the chain has a precompile at `address`. Moved ones count where they were.
    pub fn is_precompile(&self, address: &Address) -> bool {
        let ethereum = Precompiles::new(PrecompileSpecId::from_spec_id(self.spec));
        self.precompile(address).is_some() || ethereum.contains(address)
    }

    /// Builds an EVM with these rules.
    pub fn build<D: revm::Database>(&self, db: D) -> Vm<D> {
        let context = Context::mainnet().with_db(db).with_cfg(self.cfg.clone());
        let instructions = EthInstructions::new_mainnet_with_spec(self.cfg.spec);
        Evm::new(context, instructions, PrecompileSet::new(self.cfg.spec, &self.precompiles, &self.moved))
    }

    /// Builds an EVM as [`Self::build`] does. It looks for a known slot in `db` before it hashes a possible key of a mapping.
    pub fn build_with_known_slots<D: KnownSlots>(&self, db: D) -> Vm<D> {
        let mut vm = self.build(db);
        hash_instruction::install(&mut vm.instruction);
        vm
    }

    /// Builds an EVM as [`Self::build`] does. It reveals a contract in `db` before it reads its balance or nonce. The chain's own
    /// precompiles do not: with them `db` must mask nothing.
    pub fn build_with_account_mask<D: AccountMask>(&self, db: D) -> Vm<D> {
        let mut vm = self.build(db);
        mask::install(&mut vm.instruction);
        vm
    }

    /// Returns true if the chain has precompiles of its own.
    pub fn has_precompiles(&self) -> bool {
        !self.precompiles.is_empty()
    }

    /// Returns the receiver of a transfer that does not read it, unless the receiver has code: value moves to another account,
    /// and nothing runs. So the transfer commutes with all other payments to that account.
    ///
    /// A precompile runs, so it is no such receiver. Where [`Self::prices_new_accounts`], an empty receiver is seen as well.
    #[inline]
    pub fn plain_receiver(&self, tx: &TxEnv) -> Option<Address> {
        let TxKind::Call(to) = tx.kind else { return None };
        let is_unread = to != tx.caller && !tx.value.is_zero();
        (is_unread && self.runs_nothing(tx, &to)).then_some(to)
    }

    /// Returns true if a transfer costs more where it makes its receiver (EIP-2780): it then sees whether the receiver is empty.
    #[inline]
    pub fn prices_new_accounts(&self) -> bool {
        self.spec.is_enabled_in(SpecId::AMSTERDAM)
    }

    /// Returns true if a call of `to`, which has no code, runs nothing, whatever the calldata.
    #[inline]
    pub(crate) fn runs_nothing(&self, tx: &TxEnv, to: &Address) -> bool {
        tx.authorization_list.is_empty() && !self.may_be_precompile(to) && !self.reads_freely()
    }

    /// Returns true if a foreign EVM may read any account.
    #[inline]
    fn reads_freely(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.reads_freely())
    }

    /// Returns true if a precompile may run at `address`. Ethereum's have small numbers, so every address below 2^16 counts.
    #[inline]
    pub fn may_be_precompile(&self, address: &Address) -> bool {
        address.0[..18].iter().all(|byte| *byte == 0) || self.precompile(address).is_some()
    }
}
