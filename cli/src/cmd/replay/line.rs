//! A line of the result: a block on one executor, compared with its chain and with sequential revm.

use super::args::ReplayArgs;
use super::run::{Case, Found, Judged, Ran};
use phalanx::revm::primitives::{B256, hardfork::SpecId};
use phalanx_lab::{
    config::{memory_word, word},
    result::SCHEMA,
    run::engines::Setup,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Line of the result. Fields may be added; none is renamed. A comparison that is not possible is null.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Line {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Number of the block.
    pub(crate) number: u64,
    /// Hard fork.
    pub(crate) spec: String,
    /// Transactions.
    pub(crate) txs: usize,
    /// `dag`, `block-stm` or `sequential`.
    pub(crate) executor: String,
    /// Worker threads.
    pub(crate) threads: usize,
    /// Core *i* of worker *i*, if they were pinned.
    pub(crate) pinned: Vec<usize>,
    /// Source of the access sets.
    pub(crate) hints: String,
    /// Seed of wrong hints.
    pub(crate) hints_seed: u64,
    /// Seed of the schedule. Null without one.
    pub(crate) schedule_seed: Option<u64>,
    /// Gas that was used. Null if the block was refused.
    pub(crate) gas_used: Option<u64>,
    /// True if it is the block's.
    pub(crate) gas_used_matches: Option<bool>,
    /// Root of the receipts.
    #[schemars(with = "Option<String>")]
    pub(crate) receipts_root: Option<B256>,
    /// True if it is the block's.
    pub(crate) receipts_root_matches: Option<bool>,
    /// True if the bloom of the logs is.
    pub(crate) logs_bloom_matches: Option<bool>,
    /// True if the hash of the requests is. Null before Prague.
    pub(crate) requests_hash_matches: Option<bool>,
    /// True if the hash of the block access list is. Null before Amsterdam.
    pub(crate) access_list_hash_matches: Option<bool>,
    /// True if senders that were recovered are those of the recording.
    pub(crate) senders_recovered_match: Option<bool>,
    /// Digest of the state after the block.
    #[schemars(with = "Option<String>")]
    pub(crate) post_state_digest: Option<B256>,
    /// True if it is the index's.
    pub(crate) post_state_digest_matches: Option<bool>,
    /// True if files match the index's checksums, and header and transactions match the block's hashes.
    pub(crate) block_matches_its_hashes: bool,
    /// True if results and state are sequential revm's.
    pub(crate) equals_sequential: bool,
    /// Number of executions behind the medians.
    pub(crate) repeat: usize,
    /// Median time to execute, in ms.
    pub(crate) exec_ms: f64,
    /// The same of sequential revm, in ms.
    pub(crate) sequential_ms: f64,
    /// Median time of execution and root, in ms.
    pub(crate) block_ms: f64,
    /// Processor time of the whole process for execution and root, per transaction, in µs.
    pub(crate) us_core_per_tx: f64,
    /// The same of sequential revm, in µs.
    pub(crate) sequential_us_core_per_tx: f64,
    /// Size of the artefact, if there is one.
    pub(crate) artefact_bytes: Option<usize>,
    /// Executions beyond the first.
    pub(crate) reexecutions: usize,
    /// Mispredictions that aborted.
    pub(crate) escapes: usize,
    /// True if another executor took over: predictions were missing, of no use, or too expensive.
    pub(crate) fallback: bool,
    /// Part of the state in memory: `resident`, or `cached:` and bytes.
    pub(crate) memory: String,
    /// Reads of a state on disk in all executions. Null if it is resident.
    pub(crate) reads: Option<u64>,
    /// Share of the values that were in memory when they were asked for. Null if the state is resident.
    pub(crate) hit_rate: Option<f64>,
    /// Reason why the block was refused, or does not match its hashes.
    pub(crate) error: Option<String>,
    /// Bundle of a difference.
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
        // A block that was wrongly refused matches in nothing.
        Self {
            schema: SCHEMA,
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
            access_list_hash_matches: compare(&|found| {
                let hash = found.access_list_hash.filter(|_| signed);
                hash.map(|hash| header.block_access_list_hash == Some(hash))
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
            memory: memory_word(args.memory),
            reads: ran.reads.map(|(reads, _)| reads.reads),
            hit_rate: ran.reads.map(|(_, cache)| cache.hit_rate()),
            error: refused.map(|rule| hinted(rule, &case.truth, signed)).or_else(|| claims.clone().err()),
            bundle: None,
        }
    }

    /// Number of comparisons that agree, that differ, and that are not possible.
    pub(crate) fn checks(&self) -> [usize; 3] {
        let of = |wanted: Option<bool>| self.comparisons().iter().filter(|(_, matches)| *matches == wanted).count();
        [of(Some(true)), of(Some(false)), of(None)]
    }

    const fn comparisons(&self) -> [(&'static str, Option<bool>); 9] {
        [
            ("gas used", self.gas_used_matches),
            ("receipts root", self.receipts_root_matches),
            ("logs bloom", self.logs_bloom_matches),
            ("requests hash", self.requests_hash_matches),
            ("access list hash", self.access_list_hash_matches),
            ("senders", self.senders_recovered_match),
            ("state", self.post_state_digest_matches),
            ("the block's own hashes", Some(self.block_matches_its_hashes)),
            ("sequential revm", Some(self.equals_sequential)),
        ]
    }

    /// True if the block differs from its chain or from sequential revm.
    pub(crate) fn differs(&self) -> bool {
        self.error.is_some() || self.comparisons().iter().any(|(_, matches)| *matches == Some(false))
    }

    /// Differences in words.
    pub(crate) fn words(&self) -> String {
        let differ = self.comparisons().into_iter().filter(|(_, matches)| *matches == Some(false));
        let mut words: Vec<_> = differ.map(|(what, _)| format!("differs in {what}")).collect();
        words.extend(self.error.clone());
        words.join("; ")
    }

    /// Speed relative to sequential revm; `None` if a time is too short to measure.
    pub(crate) fn speed(&self) -> Option<f64> {
        (self.exec_ms > 0.0 && self.sequential_ms > 0.0).then(|| self.sequential_ms / self.exec_ms)
    }
}

/// The rule that a block breaks; with a hint, if sequential revm refuses a block of a chain too.
fn hinted(rule: String, truth: &Judged, signed: bool) -> String {
    if signed && matches!(truth, Judged::Invalid(_)) {
        format!("{rule}; sequential revm refuses it too: does prestate.json list every account that the block reads?")
    } else {
        rule
    }
}

/// Name of a hard fork, as the index of blocks writes it.
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
