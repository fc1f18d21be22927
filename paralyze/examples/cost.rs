//! Measures the cost of predicting an ERC20 transfer: by rule, by template, by simulation.
//!
//! `cargo run --release -p phalanx-paralyze --example cost`

use phalanx_access::Salt;
use phalanx_paralyze::{Batch, Layers, ParaLyze, Source};
use phalanx_workloads::{Erc20, TransferLoad, Workload};
use revm::{
    bytecode::Bytecode,
    context::{BlockEnv, CfgEnv, TxEnv},
    database::{CacheDB, EmptyDB},
    state::AccountInfo,
};
use std::time::Instant;

const TXS: usize = 512;
const REPEATS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let load = TransferLoad { accounts: 4_096, txs: TXS as u64, ..Default::default() };
    let chain_id = load.chain_id;
    let workload = Erc20::new(load)?;
    let mut db = CacheDB::new(EmptyDB::default());
    for account in workload.genesis().accounts {
        let mut info = AccountInfo { balance: account.balance, nonce: account.nonce, ..AccountInfo::default() };
        if let Some(code) = account.code {
            info = info.with_code(Bytecode::new_raw(code));
        }
        db.insert_account_info(account.address, info);
        for (slot, value) in account.storage {
            db.insert_account_storage(account.address, slot, value)?;
        }
    }
    let mut txs: Vec<TxEnv> = Vec::new();
    workload.transactions().fill(&mut txs, TXS);
    let txs: Vec<&TxEnv> = txs.iter().collect();
    let mut cfg = CfgEnv::default();
    cfg.chain_id = chain_id;
    let env = BlockEnv { gas_limit: 1 << 40, ..workload.block_env(1) };
    for (name, layers, source) in [
        ("rule", Layers::All, Source::Erc20),
        ("template", Layers::WithoutStandards, Source::Template),
        ("simulation", Layers::Simulation, Source::Simulated),
    ] {
        let mut paralyze = ParaLyze::new(Salt::new(1), cfg.clone());
        paralyze.use_layers(layers);
        let mut least = u128::MAX;
        let mut batches: Vec<Batch> = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            paralyze.analyse_batches(&db, &env, &txs, None, &mut batches);
            least = least.min(start.elapsed().as_nanos());
        }
        let predicted: usize =
            batches.iter().map(|of| (0..of.len()).filter(|index| of.source(*index) == source).count()).sum();
        println!("{name:10} {:>6} ns per transaction, {predicted} of {TXS} predicted by it", least / TXS as u128);
    }
    Ok(())
}
