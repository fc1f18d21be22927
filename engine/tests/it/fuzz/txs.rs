//! Random transactions, made on the state that they will run on, so that most are valid.

use super::world::World;
use crate::kit::{Body, Oracle};
use phalanx::revm::{
    context::{TxEnv, either::Either},
    context_interface::transaction::{AccessListItem, Authorization, RecoveredAuthority, RecoveredAuthorization},
    primitives::{Address, B256, TxKind, U256, hardfork::SpecId},
};
use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// Fills `body` with transactions, and runs it on `oracle`, which holds the state before. `None` if the block is
/// invalid.
pub(super) fn fill(rng: &mut ChaCha8Rng, world: &World, oracle: &mut Oracle, body: &mut Body) -> Option<()> {
    let before = oracle.clone();
    oracle.begin(&body.header);
    // Only long blocks have so many mispredictions that Block-STM takes over.
    let most = if rng.random_bool(0.1) { 100 } else { 14 };
    for _ in 0..rng.random_range(1..most) {
        let tx = random(rng, world, oracle, body);
        let valid = oracle.transact(&tx).is_ok();
        // Few blocks have an invalid transaction, since later ones do not count.
        if valid || rng.random_bool(0.01) {
            body.txs.push(tx);
        }
        if !valid && body.txs.len() > 1 && rng.random_bool(0.5) {
            break;
        }
    }
    if rng.random_bool(0.2) {
        tighten(rng, world, before.clone(), body);
    }
    *oracle = before;
    oracle.block(body).ok().map(drop)
}

/// Reduces the gas of the block to what its transactions need, or one unit less.
fn tighten(rng: &mut ChaCha8Rng, world: &World, mut oracle: Oracle, body: &mut Body) {
    let Ok((results, ..)) = oracle.block(body) else { return };
    let is_split = world.has(SpecId::AMSTERDAM);
    let (mut used, mut grown, mut least) = (0, 0, 0);
    for (tx, result) in body.txs.iter().zip(results) {
        least = least.max(used + tx.gas_limit).max(grown + tx.gas_limit);
        let gas = result.gas();
        let state = if is_split { gas.state_gas_spent_final() } else { 0 };
        used += if is_split { (gas.total_gas_spent() - state).max(gas.floor_gas()) } else { gas.tx_gas_used() };
        grown += state;
    }
    body.header.gas_limit = least.max(1) - u64::from(rng.random_bool(0.2));
}

fn random(rng: &mut ChaCha8Rng, world: &World, oracle: &Oracle, body: &Body) -> TxEnv {
    let senders = if rng.random_bool(0.8) { &world.senders } else { &world.all };
    let caller = *senders.choose(rng).expect("an address");
    let (nonce, balance) = oracle.account(&caller);
    let basefee = u128::from(body.header.base_fee_per_gas.unwrap_or_default());
    let tx_type = kind(rng, world);
    let gas_limit = [21_000, 21_001, 60_000, 120_000, 300_000, 500_000][rng.random_range(0..6)];
    // A new account costs 183,600 gas, a new slot 97,920, a byte of code 1,530 (EIP-8037).
    let is_dear = world.has(SpecId::AMSTERDAM);
    let gas_limit = if is_dear && rng.random_bool(0.6) { gas_limit * 6 } else { gas_limit };
    let tip = rng.random_range(0..4u128);
    let gas_price = basefee + if rng.random_bool(0.3) { 0 } else { rng.random_range(0..6) };
    let mut tx = TxEnv {
        tx_type,
        caller,
        gas_limit,
        gas_price,
        gas_priority_fee: (tx_type >= 2).then(|| tip.min(gas_price)),
        kind: TxKind::Call(*world.all.choose(rng).expect("an address")),
        nonce: if rng.random_bool(0.01) { nonce + 1 } else { nonce },
        chain_id: Some(1),
        ..TxEnv::default()
    };
    match rng.random_range(0..10) {
        0..=3 => tx.kind = TxKind::Call(*world.contracts.choose(rng).expect("one")),
        // Calls the factory, or creates directly.
        4 if !world.inits.is_empty() => {
            tx.data = world.inits.choose(rng).expect("one").clone();
            tx.kind = if rng.random_bool(0.7) { TxKind::Call(super::world::FACTORY) } else { TxKind::Create };
            tx.gas_limit = if is_dear { 2_000_000 } else { 500_000 };
        }
        5 => tx.kind = TxKind::Call(caller),
        _ => {}
    }
    if tx.data.is_empty() && rng.random_bool(0.6) {
        let word = if rng.random_bool(0.2) {
            world.all.choose(rng).expect("an address").into_word().into()
        } else {
            U256::from(rng.random_range(0..64u64))
        };
        tx.data = word.to_be_bytes_vec().into();
    }
    let fees = U256::from(tx.gas_limit) * U256::from(tx.gas_price);
    tx.value = match rng.random_range(0..12) {
        0..=4 => U256::ZERO,
        5 => balance.saturating_sub(fees),
        6 => balance.saturating_sub(fees).saturating_add(U256::ONE),
        7 => balance >> 1,
        _ => U256::from(rng.random_range(1..4u64)),
    };
    match tx_type {
        1 | 2 if rng.random_bool(0.4) => tx.access_list = access_list(rng, world).into(),
        3 => {
            let hash = |index: u8| {
                let mut hash = B256::repeat_byte(index);
                hash.0[0] = 1;
                hash
            };
            tx.blob_hashes = (0..rng.random_range(1..3)).map(hash).collect();
            tx.max_fee_per_blob_gas = 1;
        }
        4 => tx.authorization_list = authorizations(rng, world, oracle, &tx),
        _ => {}
    }
    tx
}

/// A transaction type of the hard fork, and rarely one that it lacks.
fn kind(rng: &mut ChaCha8Rng, world: &World) -> u8 {
    let newest = [(SpecId::PRAGUE, 4), (SpecId::CANCUN, 3), (SpecId::LONDON, 2), (SpecId::BERLIN, 1)];
    let newest = newest.iter().find(|(spec, _)| world.has(*spec)).map_or(0, |(_, newest)| *newest);
    if newest == 4 && rng.random_bool(0.3) {
        return 4;
    }
    if rng.random_bool(0.01) { rng.random_range(0..5) } else { rng.random_range(0..=newest) }
}

fn access_list(rng: &mut ChaCha8Rng, world: &World) -> Vec<AccessListItem> {
    let mut item = |_| AccessListItem {
        address: *world.all.choose(rng).expect("an address"),
        storage_keys: (0..rng.random_range(0..3)).map(|_| B256::with_last_byte(rng.random_range(0..4))).collect(),
    };
    (0..2).map(&mut item).collect()
}

/// Delegations set, changed and cleared; by the sender, by other accounts, with wrong nonces and for other chains.
fn authorizations(
    rng: &mut ChaCha8Rng,
    world: &World,
    oracle: &Oracle,
    tx: &TxEnv,
) -> Vec<Either<phalanx::revm::context_interface::transaction::SignedAuthorization, RecoveredAuthorization>> {
    let mut list = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        let authority = match rng.random_range(0..4) {
            0 => tx.caller,
            1 => *world.all.choose(rng).expect("an address"),
            _ => *world.senders.choose(rng).expect("an address"),
        };
        let nonce = oracle.account(&authority).0 + u64::from(authority == tx.caller);
        let address = match rng.random_range(0..5) {
            0 => Address::ZERO,
            1 => *world.all.choose(rng).expect("an address"),
            _ => *world.contracts.choose(rng).expect("one"),
        };
        let authorization = Authorization {
            chain_id: U256::from([1, 1, 1, 0, 2][rng.random_range(0..5)]),
            address,
            nonce: if rng.random_bool(0.2) { nonce + 1 } else { nonce },
        };
        let authority =
            if rng.random_bool(0.9) { RecoveredAuthority::Valid(authority) } else { RecoveredAuthority::Invalid };
        list.push(Either::Right(RecoveredAuthorization::new_unchecked(authorization, authority)));
    }
    list
}
