//! Settings of a run that builds blocks and validates them.

use super::{
    load::LoadConfig,
    run::{RunConfig, threads},
    store::Store,
    word::{Word, word},
};
use crate::{error::Usage, machine::pin};
use phalanx::{
    merkle::{Durability, HashFn},
    revm::primitives::hardfork::SpecId,
};
use serde_json::{Map, Value, json};

/// Data that a validator gets beside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artefact {
    /// None: the validator predicts.
    None,
    /// Access sets of the transactions that no rule predicts; a hint.
    Exceptions,
    /// The block access list (EIP-7928), part of the block.
    AccessList,
}

impl Word for Artefact {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Exceptions => "exceptions",
            Self::AccessList => "access-list",
        }
    }
}

/// Settings of a run that builds blocks and validates them.
#[derive(Clone, Debug)]
pub struct BuildConfig {
    /// The transactions.
    pub load: LoadConfig,
    /// Sign the transactions; the builder recovers their senders inside the timer.
    pub signatures: bool,
    /// Worker threads of the builder; one per core if `None`.
    pub threads: Option<usize>,
    /// Confine each run to as many cores as it has threads (Linux).
    pub pin: bool,
    /// Artefacts to validate with.
    pub artefacts: Vec<Artefact>,
    /// Worker threads of the validators; 1 and the builder's if empty.
    pub given_threads: Vec<usize>,
    /// Place of the state, a subfolder for each run.
    pub store: Store,
    /// What a committed block survives.
    pub durability: Durability,
    /// Hash of the state commitment.
    pub hasher: HashFn,
    /// Rules of the EVM.
    pub evm_spec: SpecId,
    /// Gas limit of a block.
    pub block_gas: u64,
    /// Repetitions of everything.
    pub runs: usize,
    /// Measure predictions by their source.
    pub quality: bool,
    /// Command that the result carries.
    pub command: String,
}

impl BuildConfig {
    /// The `bench run` that the builder is compared with: the same load in blocks of the same size.
    pub(crate) fn beside(&self) -> RunConfig {
        RunConfig {
            load: self.load.clone(),
            threads: self.threads,
            pin: self.pin,
            // Signatures decide the accounts' addresses; the signed bytes are not handed on.
            signatures: self.signatures,
            // A builder plans the block that it executes.
            overlap: false,
            store: self.store.clone(),
            durability: self.durability,
            hasher: self.hasher,
            evm_spec: self.evm_spec,
            block_gas: self.block_gas,
            runs: self.runs,
            command: self.command.clone(),
            ..RunConfig::default()
        }
    }

    /// Numbers of threads that validators run on, each once.
    pub(crate) fn validators(&self) -> Result<Vec<usize>, Usage> {
        let builder = threads(self.threads)?;
        let usual = [1, builder];
        let mut counts = Vec::new();
        for count in if self.given_threads.is_empty() { &usual } else { &self.given_threads[..] } {
            let count =
                threads(Some(*count)).map_err(|Usage(what)| Usage(what.replace("--threads", "--given-threads")))?;
            pin::check(self.pin, count)?;
            if !counts.contains(&count) {
                counts.push(count);
            }
        }
        Ok(counts)
    }

    /// Every setting by its name in results.
    pub(crate) fn resolved(&self, threads: usize, validators: &[usize]) -> Map<String, Value> {
        let artefacts: Vec<_> = self.artefacts.iter().map(|artefact| word(*artefact)).collect();
        let mut map = self.beside().resolved(threads);
        map.insert("artefact".into(), json!(artefacts));
        map.insert("given_threads".into(), json!(validators));
        map.insert("quality".into(), json!(self.quality));
        map
    }
}
