//! One line of the result: what a block did on one executor, and how that compares.

use super::args::ReplayArgs;
use super::run::{Case, Found, Judged, Ran};
use phalanx::revm::primitives::{B256, hardfork::SpecId};
use phalanx_lab::{config::word, run::engines::Setup};
use serde::Serialize;
use std::path::PathBuf;

/// Fields may be added; none is renamed. What cannot be compared is null.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) spec: String,
    pub(crate) txs: usize,
    pub(crate) executor: String,
    pub(crate) threads: usize,
    /// Core *i* of worker *i*, if they were pinned.
    pub(crate) pinned: Vec<usize>,
    /// Source of the access sets.
    pub(crate) hints: String,
    pub(crate) hints_seed: u64,
    pub(crate) schedule_seed: Option<u64>,
    pub(crate) gas_used: Option<u64>,
    pub(crate) gas_used_matches: Option<bool>,
    pub(crate) receipts_root: Option<B256>,
    pub(crate) receipts_root_matches: Option<bool>,
    pub(crate) logs_bloom_matches: Option<bool>,
    pub(crate) requests_hash_matches: Option<bool>,
    pub(crate) senders_recovered_match: Option<bool>,
    pub(crate) post_state_digest: Option<B256>,
    pub(crate) post_state_digest_matches: Option<bool>,
    /// Files have the checksums of the index, header and transactions the hashes that the block states.
    pub(crate) block_matches_its_hashes: bool,
    pub(crate) equals_sequential: bool,
    /// Executions that the times, and the processor times, are medians of.
    pub(crate) repeat: usize,
    pub(crate) exec_ms: f64,
    pub(crate) sequential_ms: f64,
    /// Execution and root.
    pub(crate) block_ms: f64,
    /// Processor time of the whole process for execution and root.
    pub(crate) us_core_per_tx: f64,
    pub(crate) sequential_us_core_per_tx: f64,
    /// Of what came beside the block, if anything did.
    pub(crate) artefact_bytes: Option<usize>,
    pub(crate) reexecutions: usize,
    pub(crate) escapes: usize,
    /// It did not run on the executor named, or not to its end: a prediction was missing, of no use, or too dear.
    pub(crate) fallback: bool,
    /// Why the block was refused, or is not the one that it says it is.
    pub(crate) error: Option<String>,
    /// Where everything about a difference was put.
    pub(crate) bundle: Option<PathBuf>,
}

impl Line {
    pub(crate) fn new(
        case: &Case<'_>,
        setup: Setup,
        ran: &Ran,
        args: &ReplayArgs,
        claims: &Result<(), String>,
    ) -> Self {
        let block = case.block;
        let (found, refused) = match &ran.judged {
            Judged::Valid(found) => (Some(&**found), None),
            Judged::Invalid(rule) => (None, Some(rule.clone())),
        };
        let compare = |matches: &dyn Fn(&Found) -> Option<bool>| found.and_then(matches);
        let signed = !block.inputs_only;
        let header = &block.header;
        let index = block.index.as_ref();
        // A block that should not have been refused matches in nothing.
        Self {
            number: header.number,
            spec: index.and_then(|index| index.spec.clone()).unwrap_or_else(|| name(case.spec).to_owned()),
            txs: block.txs.len(),
            executor: word(setup.executor),
            threads: setup.threads,
            pinned: ran.cores.clone(),
            hints: ran.hints.clone(),
            hints_seed: args.seed,
            schedule_seed: setup.schedule_seed,
            gas_used: found.map(|found| found.gas_used),
            gas_used_matches: compare(&|found| {
                let indexed = index.and_then(|index| index.gas_used);
                let expected = if signed { Some(header.gas_used) } else { indexed };
                expected.map(|expected| expected == found.gas_used)
            }),
            receipts_root: found.and_then(|found| found.receipts_root),
            receipts_root_matches: compare(&|found| {
                let indexed = index.and_then(|index| index.computed_receipts_root);
                let expected = if signed { Some(header.receipts_root) } else { indexed };
                Some(found.receipts_root? == expected?)
            }),
            logs_bloom_matches: compare(&|found| signed.then(|| found.logs_bloom == header.logs_bloom)),
            requests_hash_matches: compare(&|found| {
                (signed && case.spec.is_enabled_in(SpecId::PRAGUE)).then(|| found.requests_hash == header.requests_hash)
            }),
            senders_recovered_match: case.senders_match,
            post_state_digest: found.map(|found| found.digest),
            post_state_digest_matches: compare(&|found| {
                index.and_then(|index| index.post_state_digest).map(|digest| digest == found.digest)
            }),
            block_matches_its_hashes: claims.is_ok(),
            equals_sequential: ran.equals_sequential,
            repeat: args.repeat(),
            exec_ms: ran.exec_ms,
            sequential_ms: ran.sequential_ms,
            block_ms: ran.block_ms,
            us_core_per_tx: ran.us_core_per_tx,
            sequential_us_core_per_tx: ran.sequential_us_core_per_tx,
            artefact_bytes: ran.told.bytes(),
            reexecutions: ran.reexecutions,
            escapes: ran.escapes,
            fallback: ran.fallback,
            error: refused.or_else(|| claims.clone().err()),
            bundle: None,
        }
    }

    const fn comparisons(&self) -> [(&'static str, Option<bool>); 8] {
        [
            ("gas used", self.gas_used_matches),
            ("receipts root", self.receipts_root_matches),
            ("logs bloom", self.logs_bloom_matches),
            ("requests hash", self.requests_hash_matches),
            ("senders", self.senders_recovered_match),
            ("state", self.post_state_digest_matches),
            ("the block's own hashes", Some(self.block_matches_its_hashes)),
            ("sequential revm", Some(self.equals_sequential)),
        ]
    }

    /// Whether the block did anything else than it did on its chain, or than sequential revm makes of it.
    pub(crate) fn differs(&self) -> bool {
        self.error.is_some() || self.comparisons().iter().any(|(_, matches)| *matches == Some(false))
    }

    /// What differs, in words.
    pub(crate) fn words(&self) -> String {
        let differ = self.comparisons().into_iter().filter(|(_, matches)| *matches == Some(false));
        let mut words: Vec<_> = differ.map(|(what, _)| format!("differs in {what}")).collect();
        words.extend(self.error.clone());
        words.join("; ")
    }

    /// How many times as fast as sequential revm; `None` if it took no time that can be measured.
    pub(crate) fn speed(&self) -> Option<f64> {
        (self.exec_ms > 0.0 && self.sequential_ms > 0.0).then(|| self.sequential_ms / self.exec_ms)
    }
}

/// A fork's name as the index of blocks writes it.
const fn name(spec: SpecId) -> &'static str {
    match spec {
        SpecId::FRONTIER => "Frontier",
        SpecId::HOMESTEAD => "Homestead",
        SpecId::TANGERINE => "TangerineWhistle",
        SpecId::SPURIOUS_DRAGON => "SpuriousDragon",
        SpecId::BYZANTIUM => "Byzantium",
        SpecId::PETERSBURG => "Petersburg",
        SpecId::ISTANBUL => "Istanbul",
        SpecId::BERLIN => "Berlin",
        SpecId::LONDON => "London",
        SpecId::MERGE => "Paris",
        SpecId::SHANGHAI => "Shanghai",
        SpecId::CANCUN => "Cancun",
        SpecId::PRAGUE => "Prague",
        SpecId::OSAKA => "Osaka",
        SpecId::AMSTERDAM => "Amsterdam",
    }
}
