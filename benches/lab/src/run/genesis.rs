//! The genesis of a load: at once, or in parts in the order of the keys' hashes if it is large.

use crate::{config::RunConfig, error::Usage, ui::Ui};
use anyhow::Context as _;
use phalanx::{
    Engine, GenesisAccount,
    merkle::HashFn,
    revm::primitives::{Address, U256},
};
use phalanx_workloads::{Genesis, Workload};
use std::path::Path;

/// Keys of a part, which take about two gigabytes while they are made and committed.
pub(crate) const PART: u64 = 1 << 22;

/// Writes the genesis of `workload` to `engine`. Memory is bounded: each of the parts of a large genesis is a pass over all accounts,
/// and has those keys whose hashes are in its range, so that parts write few entries of others again.
///
/// # Errors
/// If the store holds a chain, the store fails, or the user stops it.
pub fn load(engine: &mut Engine, workload: &dyn Workload, config: &RunConfig, ui: &Ui) -> anyhow::Result<()> {
    if engine.state().height().is_some() {
        let path = config.store.path().unwrap_or(Path::new("")).display();
        return Err(Usage(format!("{path} holds a chain already: choose a new or empty folder")).into());
    }
    let keys = config.load.accounts.saturating_mul(config.load.keys_per_account());
    in_parts(engine, workload, (keys, keys.div_ceil(PART)), config.hasher, ui)
}

fn in_parts(
    engine: &mut Engine,
    workload: &dyn Workload,
    (keys, parts): (u64, u64),
    hash: HashFn,
    ui: &Ui,
) -> anyhow::Result<()> {
    if parts <= 1 {
        let spinner = ui.spinner("writing genesis");
        engine.genesis(accounts(workload.genesis())).context("writing genesis")?;
        spinner.finish_and_clear();
        return Ok(());
    }
    let bar = ui.bar("writing genesis", keys);
    let workers = std::sync::Arc::clone(engine.workers());
    let mut genesis = engine.genesis_in_parts()?;
    for part in 0..parts {
        ui.go_on()?;
        let wanted = |address: &Address, slot: Option<&U256>| part_of(hash, parts, address, slot) == part;
        let made = workers.install(|| workload.genesis_part(&wanted));
        genesis.commit(accounts(made)).context("writing genesis")?;
        bar.set_position((part + 1) * keys / parts);
    }
    genesis.finish([]).context("writing genesis")?;
    bar.finish_and_clear();
    Ok(())
}

/// Part that a key belongs to, by its hash: parts are equal ranges of hashes, in order.
fn part_of(hash: HashFn, parts: u64, address: &Address, slot: Option<&U256>) -> u64 {
    // As the engine names its keys in the store; another name would cost time, and change no value.
    let hash = match slot {
        None => hash.key(address.as_slice()),
        Some(slot) => hash.key(&[address.as_slice(), &slot.to_be_bytes::<32>()].concat()),
    };
    let prefix = hash.first_chunk().map_or(0, |prefix| u64::from_be_bytes(*prefix));
    ((u128::from(prefix) * u128::from(parts)) >> 64) as u64
}

/// Accounts of a genesis, as the engine takes them.
pub(crate) fn accounts(genesis: Genesis) -> impl Iterator<Item = GenesisAccount> {
    genesis.accounts.into_iter().map(|account| {
        let phalanx_workloads::GenesisAccount { address, balance, nonce, code, storage } = account;
        GenesisAccount { address, balance, nonce, code, storage }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LoadConfig, WorkloadKind};
    use phalanx::revm::DatabaseRef as _;

    #[test]
    fn parts_hold_the_same_accounts_as_one() {
        for workload in [WorkloadKind::Native, WorkloadKind::Erc20, WorkloadKind::Amm] {
            let load = LoadConfig { workload, accounts: 3000, txs: 10, ..LoadConfig::default() };
            let keys = load.accounts * load.keys_per_account();
            let workload = load.workload(load.transfers(), &|_| ()).expect("a load");
            let ui = Ui::silent();
            let state = |parts| {
                let mut engine = Engine::builder().with_threads(2).build().expect("an engine");
                in_parts(&mut engine, &*workload, (keys, parts), HashFn::Sha256, &ui).expect("a genesis");
                let height = engine.state().height();
                (engine.state().dump().expect("a state"), height, engine)
            };
            let (once, height, _) = state(1);
            assert_eq!(height, Some(0));
            for parts in [2, 7] {
                let (made, height, engine) = state(parts);
                assert_eq!(height, Some(parts), "a block for each part, and the end");
                assert!(made == once, "{} in {parts} parts", workload.name());
                let address = workload.accounts().addresses()[17];
                assert_eq!(
                    engine.state().basic_ref(address).expect("a state").map(|info| info.balance),
                    Some(once[&address].balance)
                );
            }
        }
    }
}
