//! Measures the cost of generating a load, of signing it, and of running it on stock sequential revm over a hash map.
//!
//! `cargo run --release -p phalanx-workloads --example sequential -- [accounts] [txs]`

use std::{env, error::Error, time::Instant};

use phalanx_workloads::{Amm, Erc20, Mix, Mixed, Native, Pools, TransferLoad, Workload};
use revm::{
    Context, ExecuteCommitEvm, MainBuilder, MainContext,
    database::{CacheDB, EmptyDB},
    state::{AccountInfo, Bytecode},
};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut args = env::args().skip(1).map(|arg| arg.parse::<u64>());
    let accounts = args.next().transpose()?.unwrap_or(1 << 18);
    let txs = args.next().transpose()?.unwrap_or(1_000_000);
    let load = TransferLoad { accounts, txs, ..Default::default() };
    measure(&Native::new(load.clone())?)?;
    measure(&Erc20::new(load.clone())?)?;
    measure(&Amm::new(load.clone(), Pools::default())?)?;
    measure(&Mixed::new(load, Pools::default(), Mix::default())?)?;
    // A single thread, so that the clock shows the cost of a core.
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(signatures)?;
    Ok(())
}

fn signatures() -> Result<(), Box<dyn Error + Send + Sync>> {
    let count = 20_000;
    let load = TransferLoad { accounts: count, txs: count, signatures: true, ..Default::default() };
    let start = Instant::now();
    let workload = Native::new(load)?;
    let derive = start.elapsed().as_micros() as f64 / count as f64;
    let txs: Vec<_> = workload.transactions().collect();
    let start = Instant::now();
    let raw = workload.accounts().sign(&txs)?;
    let sign = start.elapsed().as_micros() as f64 / raw.len() as f64;
    println!("signed: derive {derive:.1} us per account, sign {sign:.1} us per transaction");
    Ok(())
}

fn measure(workload: &dyn Workload) -> Result<(), Box<dyn Error + Send + Sync>> {
    let per_tx = |start: Instant| start.elapsed().as_nanos() as f64 / workload.load().txs as f64;

    // Generation alone, in blocks whose memory is reused, like an engine's feeder.
    let (mut stream, mut block, start) = (workload.transactions(), Vec::new(), Instant::now());
    while stream.fill(&mut block, 4_096) > 0 {
        block.clear();
    }
    let generate = per_tx(start);

    let mut db = CacheDB::<EmptyDB>::default();
    for account in workload.genesis().accounts {
        let mut info = AccountInfo { balance: account.balance, nonce: account.nonce, ..Default::default() };
        if let Some(code) = account.code {
            info = info.with_code(Bytecode::new_raw(code));
        }
        db.insert_account_info(account.address, info);
        for (slot, value) in account.storage {
            db.insert_account_storage(account.address, slot, value)?;
        }
    }

    let mut evm = Context::mainnet().with_db(&mut db).with_block(workload.block_env(1)).build_mainnet();
    let txs: Vec<_> = workload.transactions().collect();
    let (mut gas, mut reverted, start) = (0, 0, Instant::now());
    for tx in txs {
        let result = evm.transact_commit(tx)?;
        reverted += u64::from(!result.is_success());
        gas += result.tx_gas_used();
    }
    let execute = per_tx(start);

    let start = Instant::now();
    let ledger = workload.full_ledger();
    assert_eq!(reverted, ledger.reverted(), "exactly the transactions fail that are built to");
    workload.check(&ledger, gas, &db)?;
    let check = per_tx(start);
    let gas = gas as f64 / workload.load().txs as f64;
    println!(
        "{}: generate {generate:.0} ns, execute {execute:.0} ns, check {check:.0} ns, gas {gas:.1} per transaction",
        workload.name()
    );
    Ok(())
}
