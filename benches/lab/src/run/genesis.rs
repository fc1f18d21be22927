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

/// Keys of a pass over all accounts, which take about a gigabyte while they are made, unless the passes would be too many.
const PASS: u64 = 1 << 22;

/// Most passes, so that a genesis takes time in proportion to its keys. A pass of more than [`PASS`] keys takes eight bytes for
/// each key of the genesis, less than their index.
const PASSES: u64 = 32;

/// Keys of a block. The store holds the last blocks whole, to roll them back.
const BLOCK: u64 = 1 << 19;

/// Writes the genesis of `workload` to `engine`. Memory is bounded: a large genesis takes passes over all accounts. Each has those
/// keys whose hashes are in its range, and commits them in blocks by their hashes, so that blocks write few entries of others
/// again.
///
/// # Errors
/// If the store holds a chain, the store fails, or the user stops it.
pub fn load(engine: &mut Engine, workload: &dyn Workload, config: &RunConfig, ui: &Ui) -> anyhow::Result<()> {
    load_with(engine, workload, Vec::new(), config, ui)
}

/// Writes the genesis of `workload` like [`load`], and few `more` accounts.
pub(crate) fn load_with(
    engine: &mut Engine,
    workload: &dyn Workload,
    more: Vec<GenesisAccount>,
    config: &RunConfig,
    ui: &Ui,
) -> anyhow::Result<()> {
    if engine.state().height().is_some() {
        let path = config.store.path().unwrap_or(Path::new("")).display();
        return Err(Usage(format!("{path} holds a chain already: choose a new or empty folder")).into());
    }
    let keys = config.load.accounts.saturating_mul(config.load.keys_per_account());
    let passes = keys.div_ceil(PASS).min(PASSES);
    let blocks = if passes > 1 { keys.div_ceil(passes).div_ceil(BLOCK) } else { 1 };
    in_parts(engine, workload, more, keys, (passes, blocks), config.hasher, ui)
}

fn in_parts(
    engine: &mut Engine,
    workload: &dyn Workload,
    more: Vec<GenesisAccount>,
    keys: u64,
    (passes, blocks): (u64, u64),
    hash: HashFn,
    ui: &Ui,
) -> anyhow::Result<()> {
    if passes * blocks <= 1 {
        let spinner = ui.spinner("writing genesis");
        engine.genesis(accounts(workload.genesis()).chain(more)).context("writing genesis")?;
        spinner.finish_and_clear();
        return Ok(());
    }
    let bar = ui.bar("writing genesis", keys);
    let workers = std::sync::Arc::clone(engine.workers());
    let mut genesis = engine.genesis_in_parts()?;
    for pass in 0..passes {
        ui.go_on()?;
        let wanted = |address: &Address, slot: Option<&U256>| part_of(hash, passes, address, slot) == pass;
        let made = workers.install(|| workload.genesis_part(&wanted));
        for (block, part) in (1..).zip(split(made, hash, passes, pass, blocks)) {
            ui.go_on()?;
            genesis.commit(part).context("writing genesis")?;
            bar.set_position((pass * blocks + block) * keys / (passes * blocks));
        }
    }
    genesis.finish(more).context("writing genesis")?;
    bar.finish_and_clear();
    Ok(())
}

/// Splits the accounts of a pass into its blocks, by the hashes of their keys. An account with slots in several blocks is in each.
fn split(made: Genesis, hash: HashFn, passes: u64, pass: u64, blocks: u64) -> Vec<Vec<GenesisAccount>> {
    let block_of = |address: &Address, slot: Option<&U256>| {
        part_of(hash, passes * blocks, address, slot).checked_sub(pass * blocks).filter(|block| *block < blocks)
    };
    let mut parts: Vec<Vec<GenesisAccount>> = (0..blocks).map(|_| Vec::new()).collect();
    for account in accounts(made) {
        let own = block_of(&account.address, None);
        if account.storage.is_empty() {
            // A part has an account for its own key or for a slot's.
            parts[own.unwrap_or(0) as usize].push(account);
            continue;
        }
        let mut storage: Vec<Vec<(U256, U256)>> = parts.iter().map(|_| Vec::new()).collect();
        for slot in &account.storage {
            storage[block_of(&account.address, Some(&slot.0)).unwrap_or(0) as usize].push(*slot);
        }
        for (block, (part, storage)) in (0..).zip(parts.iter_mut().zip(storage)) {
            if own == Some(block) || !storage.is_empty() {
                part.push(GenesisAccount { storage, code: account.code.clone(), ..account });
            }
        }
    }
    parts
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
fn accounts(genesis: Genesis) -> impl Iterator<Item = GenesisAccount> {
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
            let state = |passes, blocks| {
                let mut engine = Engine::builder().with_threads(2).build().expect("an engine");
                let more = vec![GenesisAccount { address: Address::repeat_byte(9), nonce: 1, ..Default::default() }];
                in_parts(&mut engine, &*workload, more, keys, (passes, blocks), HashFn::Sha256, &ui)
                    .expect("a genesis");
                let height = engine.state().height();
                (engine.state().dump().expect("a state"), height, engine)
            };
            let (once, height, _) = state(1, 1);
            assert_eq!((height, once[&Address::repeat_byte(9)].nonce), (Some(0), 1));
            for (passes, blocks) in [(2, 1), (7, 1), (1, 3), (3, 8)] {
                let (made, height, engine) = state(passes, blocks);
                assert_eq!(height, Some(passes * blocks), "a block for each part, and the end");
                assert!(made == once, "{} in {passes} passes of {blocks}", workload.name());
                let address = workload.accounts().address(17);
                assert_eq!(
                    engine.state().basic_ref(address).expect("a state").map(|info| info.balance),
                    Some(once[&address].balance)
                );
            }
        }
    }
}
