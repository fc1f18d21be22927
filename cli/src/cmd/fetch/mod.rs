//! `fetch`: blocks with the state before them, recorded from a server's JSON-RPC.
//!
//! ```text
//! block ─► is it that block? ─► sequential revm on the state before, read item by item ─► files ─► replayed from them alone ─► place
//! ```
//!
//! Nothing is believed: the header must have the block's hash, transactions their root, and the recording must lead to the gas,
//! receipts and logs of the header before it gets its name.

mod remote;
mod client;
mod error;

use super::replay::{self, Rules};
use crate::{exit, output, ui};
use anyhow::Context as _;
use clap::Args;
use client::Client;
use error::FetchError;
use phalanx::{
    Engine, Executor, Hints,
    chain::ChainSpec,
    revm::primitives::{Address, U256},
};
use phalanx_lab::{
    error::{Different, Interrupted, Malformed, Usage},
    machine::temporary::{Unfinished, in_the_making},
    ui::Ui,
};
use phalanx_workloads::fixtures::RealBlock;
use remote::{Counts, Remote, number, read};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    /// Address of a node with the state before the blocks, as in http://127.0.0.1:8545
    #[arg(long, value_name = "URL")]
    rpc: String,
    /// Numbers of the blocks
    #[arg(required = true, value_name = "BLOCK")]
    blocks: Vec<u64>,
    /// Folder for the blocks, a folder each
    #[arg(long, value_name = "DIR", default_value = "blocks")]
    out: PathBuf,
    /// Rules of the chain: a genesis.json as geth's, which is kept beside the blocks [default: that beside the blocks, or
    /// mainnet's rules]
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Maximum number of requests that go together; 1 for a server that takes no batches
    #[arg(long, default_value_t = 50)]
    batch: usize,
}

const BLOCK: &str = "eth_getBlockByNumber";
const TRACE: &str = "debug_traceBlockByNumber";

impl FetchArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        self.fetch(&ui::open()).map_err(sorted)
    }

    fn fetch(&self, ui: &Ui) -> anyhow::Result<u8> {
        if self.batch == 0 || self.batch > 10_000 {
            return Err(Usage(format!("--batch must be between 1 and 10000, not {}", self.batch)).into());
        }
        if self.blocks.contains(&0) {
            return Err(Usage("block 0 is the genesis, which executes nothing".into()).into());
        }
        let places: Vec<_> = self.blocks.iter().map(|block| self.out.join(block.to_string())).collect();
        if let Some(there) = places.iter().find(|place| place.exists()) {
            return Err(Usage(format!("{} is there already", there.display())).into());
        }
        let mut client = Client::new(client::server(&self.rpc)?, self.batch, ui)?;
        let rules = match &self.genesis {
            Some(path) => Rules::read(path)?,
            None => Rules::beside(&self.out)?,
        };
        let theirs: U256 = read("eth_chainId", &client.ask("eth_chainId", json!([]))?)?;
        let ours = rules.chain.chain_id();
        if theirs != U256::from(ours) {
            let what = format!(
                "the server's chain is {theirs}, and the rules are those of chain {ours}: give its --genesis FILE"
            );
            return Err(Usage(what).into());
        }
        fs::create_dir_all(&self.out).with_context(|| format!("making {}", self.out.display()))?;
        rules.keep(&self.out)?;
        let bar = ui.bar("blocks", self.blocks.len() as u64);
        for (block, place) in self.blocks.iter().zip(&places) {
            bar.set_message(block.to_string());
            let asked = client.asked();
            let (txs, counts) = record(&mut client, &rules.chain, *block, place, ui)?;
            let Counts { accounts, slots, hashes } = counts;
            output::print(&format!(
                "block {block}: {txs} transactions, {accounts} accounts, {slots} slots, {hashes} hashes of blocks, by {} requests; \
                 replayed from {} alone, it has the gas, receipts and logs of its header\n",
                client.asked() - asked,
                place.display()
            ))?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(exit::OK)
    }
}

/// Gives a failure to fetch its kind.
fn sorted(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<FetchError>() {
        Ok(FetchError::Interrupted) => Interrupted.into(),
        Ok(error @ (FetchError::Refused { .. } | FetchError::Answer { .. })) => Malformed(error.to_string()).into(),
        Ok(error @ FetchError::Unreachable { .. }) => error.into(),
        Err(other) => other,
    }
}

/// Records a block at `place`; returns the number of its transactions, and counts.
fn record(
    client: &mut Client<'_>,
    chain: &ChainSpec,
    block: u64,
    place: &Path,
    ui: &Ui,
) -> anyhow::Result<(usize, Counts)> {
    let text = client.ask(BLOCK, json!([number(block), true]))?;
    if text.get() == "null" {
        return Err(FetchError::Answer { method: BLOCK, why: format!("the server has no block {block}") }.into());
    }
    let new = Unfinished::new(in_the_making(place));
    fs::create_dir(new.path()).with_context(|| format!("making {}", new.path().display()))?;
    let write = |name: &str, text: &str| output::whole(&new.path().join(name), text.as_bytes());
    write("block.json", text.get())?;
    for empty in ["prestate.json", "block_hashes.json"] {
        write(empty, "{}")?;
    }
    // The block alone, before anything is read for it.
    let unusable = |why: String| FetchError::Answer { method: BLOCK, why };
    let real = RealBlock::read(new.path()).map_err(|error| unusable(error.to_string()))?;
    if real.header.number != block || real.inputs_only {
        return Err(unusable(format!("it is block {} of the hash {}", real.header.number, real.hash)).into());
    }
    real.check().map_err(|error| unusable(error.to_string()))?;

    let named = traced(client, block, ui)?;
    let remote = Remote::new(client, block - 1, real.header.parent_hash);
    remote.read_ahead(&named)?;
    let mut engine =
        Engine::builder().with_executor(Executor::Sequential).with_threads(1).with_chain(chain.clone()).build()?;
    let ommers = replay::ommers(&real);
    let executed = engine.execute_on(&remote, &replay::payload(&real, &ommers), Hints::None);
    if let Some(failure) = remote.take_failure() {
        return Err(failure.into());
    }
    let refused = |why: String| Different(format!("block {block} on the state that the server gives: {why}"));
    executed.map_err(|error| refused(format!("sequential revm refuses it: {error}")))?;

    let (prestate, hashes, counts) = remote.recording();
    write("prestate.json", &prestate.to_string())?;
    write("block_hashes.json", &hashes.to_string())?;
    let real = RealBlock::read(new.path())?;
    let differences = replay::differences(&real, chain)?;
    if !differences.is_empty() {
        return Err(refused(format!("it {}", differences.join(", "))).into());
    }
    let txs = real.txs.len();
    new.finish(place).with_context(|| format!("naming {}", place.display()))?;
    Ok((txs, counts))
}

/// Accounts and slots that a trace of the block names; none if the server has no such traces.
fn traced(client: &mut Client<'_>, block: u64, ui: &Ui) -> Result<BTreeMap<Address, Vec<U256>>, FetchError> {
    let traces = match client.ask(TRACE, json!([number(block), { "tracer": "prestateTracer" }])) {
        Ok(traces) => traces,
        Err(FetchError::Refused { why, .. }) => {
            ui.say(&format!("no prestateTracer ({why}): every item is read by itself"));
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(error),
    };
    let traces: Value = read(TRACE, &traces)?;
    let mut named: BTreeMap<Address, Vec<U256>> = BTreeMap::new();
    // What has another shape is left out: it is read when the block needs it.
    let results = traces.as_array().into_iter().flatten().filter_map(|trace| trace["result"].as_object()).flatten();
    for (address, account) in results {
        let Ok(address) = address.parse::<Address>() else { continue };
        let slots = named.entry(address).or_default();
        let keys = account["storage"].as_object().into_iter().flatten();
        slots.extend(keys.filter_map(|(slot, _)| slot.parse::<U256>().ok()));
    }
    named.values_mut().for_each(|slots| {
        slots.sort_unstable();
        slots.dedup();
    });
    Ok(named)
}
