//! Settings of a run that builds blocks and validates them.

use super::{
    run::{RunConfig, threads},
    word::{Word, Words, word},
};
use crate::{error::Usage, machine::pin};
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
    const WORDS: Words<Self> = &[
        (Self::None, "none", "No data: the validator predicts"),
        (Self::Exceptions, "exceptions", "Access sets of the transactions that no rule predicts; a hint"),
        (Self::AccessList, "access-list", "Block access list (EIP-7928), part of the block"),
    ];
}

/// Settings of a run that builds blocks and validates them.
#[derive(Clone, Debug)]
pub struct BuildConfig {
    /// The `bench run` that the builder is compared with: the same load in blocks of the same size. Its signatures decide
    /// whether the builder recovers senders, and `overlap` is false, as a builder plans the block that it executes.
    pub run: RunConfig,
    /// Artefacts to validate with.
    pub artefacts: Vec<Artefact>,
    /// Worker threads of the validators; 1 and the builder's if empty.
    pub given_threads: Vec<usize>,
    /// Measure predictions by their source.
    pub quality: bool,
}

impl BuildConfig {
    /// Numbers of threads that validators run on, each once.
    pub(crate) fn validators(&self) -> Result<Vec<usize>, Usage> {
        let builder = threads(self.run.threads)?;
        let usual = [1, builder];
        let mut counts = Vec::new();
        for count in if self.given_threads.is_empty() { &usual } else { &self.given_threads[..] } {
            let count =
                threads(Some(*count)).map_err(|Usage(what)| Usage(what.replace("--threads", "--given-threads")))?;
            pin::check(self.run.pin, count)?;
            if !counts.contains(&count) {
                counts.push(count);
            }
        }
        Ok(counts)
    }

    /// Every setting by its name in results.
    pub(crate) fn resolved(&self, threads: usize, validators: &[usize]) -> Map<String, Value> {
        let artefacts: Vec<_> = self.artefacts.iter().map(|artefact| word(*artefact)).collect();
        let mut map = self.run.resolved(threads);
        map.insert("artefact".into(), json!(artefacts));
        map.insert("given_threads".into(), json!(validators));
        map.insert("quality".into(), json!(self.quality));
        map
    }
}
