//! Cost of a foreign state beside the own store: each recorded block runs on both in turns, in memory, up to the changes.
//! The own store's root is not part of it, because a foreign state has none.
//!
//! `PHALANX_FIXTURES=DIR cargo bench -p phalanx-benches --bench foreign -- --threads 2 --pairs 15`

use phalanx::{
    Engine, GenesisAccount, Hints, RecoveredBlock, Tuning,
    chain::ChainSpec,
    revm::{
        database::{CacheDB, EmptyDB},
        primitives::{Address, U256},
        state::{AccountInfo, Bytecode},
    },
};
use phalanx_workloads::fixtures::{RealBlock, find_blocks};
use std::{
    env,
    error::Error,
    path::PathBuf,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Value of a flag, or its default.
fn flag(name: &str, default: usize) -> Result<usize, Box<dyn Error>> {
    let mut words = env::args().skip_while(|word| word != name).skip(1);
    match words.next() {
        Some(word) => word.parse().map_err(|_| format!("{name} takes a number, not {word}").into()),
        None => Ok(default),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (threads, pairs) = (flag("--threads", 2)?, flag("--pairs", 15)?.max(1));
    let Some(folder) = env::var_os("PHALANX_FIXTURES").map(|root| PathBuf::from(root).join("blocks")) else {
        eprintln!("PHALANX_FIXTURES names no folder: nothing is measured");
        return Ok(());
    };
    println!("{:>10} {:>5} {:>9} {:>9} {:>7}", "block", "txs", "own ms", "foreign", "ratio");
    let mut ratios = Vec::new();
    for path in find_blocks(&folder)? {
        let block = RealBlock::read(&path)?;
        // Uncles are not recorded.
        if block.uncles == 0 {
            ratios.push(measure(&block, threads, pairs)?);
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| ratios.get(ratios.len().saturating_sub(1) * part / 4).copied().unwrap_or_default();
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    let blocks = ratios.len();
    println!(
        "{blocks} blocks, {threads} threads, {pairs} pairs each: foreign ÷ own {mean:.3} (geometric mean of medians)"
    );
    println!("quartiles of blocks: {:.3} {:.3} {:.3}", at(1), at(2), at(3));
    Ok(())
}

/// Prints a block's times and returns the median ratio of its pairs.
fn measure(block: &RealBlock, threads: usize, pairs: usize) -> Result<f64, Box<dyn Error>> {
    let engine = || {
        let tuning = Tuning::new().with_learning(false);
        Engine::builder().with_chain(ChainSpec::mainnet()).with_threads(threads).with_tuning(tuning).build()
    };
    let (mut own, mut stateless) = (engine()?, engine()?);
    let mut database = CacheDB::new(EmptyDB::default());
    let mut accounts = Vec::with_capacity(block.prestate.len());
    for (address, account) in &block.prestate {
        let code = (!account.code.is_empty()).then(|| account.code.clone());
        let info = AccountInfo { balance: account.balance, nonce: account.nonce, ..AccountInfo::default() };
        let info = match &code {
            Some(code) => info.with_code(match code[..] {
                [0xef, 1, 0, ref target @ ..] if target.len() == 20 => {
                    Bytecode::new_eip7702(Address::from_slice(target))
                }
                _ => Bytecode::new_legacy(code.clone()),
            }),
            None => info,
        };
        database.insert_account_info(*address, info);
        let storage: Vec<_> = account.storage.iter().map(|(slot, value)| (*slot, *value)).collect();
        for (slot, value) in &storage {
            database.insert_account_storage(*address, *slot, *value)?;
        }
        let (balance, nonce) = (account.balance, account.nonce);
        accounts.push(GenesisAccount { address: *address, balance, nonce, code, storage });
    }
    let mut header = block.header.clone();
    // Where only inputs are recorded, the header names no parent.
    if let Some(hash) = block.block_hashes.get(&(header.number - 1)) {
        header.parent_hash = *hash;
    }
    for (number, hash) in &block.block_hashes {
        database.cache.block_hashes.insert(U256::from(*number), *hash);
    }
    own.genesis(accounts)?;
    own.set_ancestors(block.block_hashes.clone());
    let payload =
        RecoveredBlock { header: &header, txs: &block.txs, ommers: &[], withdrawals: block.withdrawals.as_deref() };

    let (mut on_own, mut on_foreign, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first pair meets cold threads and memory.
    for pair in 0..=pairs {
        let mut times = [Duration::ZERO; 2];
        let mut blocks = [None, None];
        for turn in 0..2 {
            let is_foreign = (pair + turn) % 2 == 1;
            let start;
            blocks[usize::from(is_foreign)] = Some(if is_foreign {
                stateless.forget();
                start = Instant::now();
                let ended = stateless.execute_on(&database, &payload, Hints::Predict)?;
                times[1] = start.elapsed();
                (ended.block.outcomes().to_vec(), ended.block.receipts_root())
            } else {
                own.forget();
                start = Instant::now();
                let executed = own.execute_block(&payload, Hints::Predict)?;
                times[0] = start.elapsed();
                (executed.block().outcomes().to_vec(), executed.block().receipts_root())
            });
        }
        assert_eq!(blocks[0], blocks[1], "block {}", header.number);
        if pair > 0 {
            let [own, foreign] = times.map(|time| time.as_secs_f64() * 1e3);
            on_own.push(own);
            on_foreign.push(foreign);
            ratios.push(foreign / own);
        }
    }
    let [own, foreign, ratio] = [on_own, on_foreign, ratios].map(median);
    println!("{:>10} {:>5} {own:>9.3} {foreign:>9.3} {ratio:>7.3}", header.number, block.txs.len());
    Ok(ratio)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
