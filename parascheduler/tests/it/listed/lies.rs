//! Lists that lie are refused, by the lowest step at which they do; lists that only say more have the right result.

use super::{
    Refusal,
    equal::same_state,
    lie::{Change, Expected, LIES, Lie, falsify},
    maker::{Looped, looped},
    run,
    world::{base, block},
};
use crate::common::seeds;
use phalanx_parascheduler::{
    ListedError, Protocol, TxIndex,
    eip7928::{AccountChanges, BlockAccessIndex, SlotChanges, StorageChange},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use revm::primitives::{Address, U256};

fn step_of(refusal: &Refusal) -> u64 {
    match refusal {
        ListedError::Departs { tx: TxIndex(tx), .. } => u64::from(*tx) + 1,
        ListedError::Protocol { index, .. } => index.get(),
        ListedError::Fails { tx, error } => panic!("{tx:?} has true values below: {error}"),
    }
}

#[test]
fn a_list_that_lies_is_refused_by_its_lowest_wrong_step() {
    let base = base();
    let mut told = LIES.map(|_| 0);
    for seed in seeds(150) {
        let (rules, mut txs) = block(seed, 40);
        let Looped { list, .. } = looped(&rules, &base, &mut txs);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for round in 0..3 * LIES.len() {
            let (lie, mut list) = (LIES[round % LIES.len()], list.clone());
            let Some(expected) = falsify(&mut list, lie, txs.len() as u64 + 1, &mut rng) else { continue };
            let what = format!("seed {seed}: {lie:?}");
            told[round % LIES.len()] += 1;
            match run(&rules, &base, &txs, &list, &Protocol::default()) {
                Err(disorder) => assert_eq!(expected, Expected::Disorder, "{what}: {disorder}"),
                Ok(Ok(_)) => panic!("{what} was believed"),
                Ok(Err(refusal)) => assert_eq!(Expected::Step(step_of(&refusal)), expected, "{what}: {refusal}"),
            }
        }
    }
    assert!(told.iter().all(|count| *count > 0), "{told:?}");
}

#[test]
fn of_several_lies_the_lowest_step_is_named() {
    let base = base();
    for seed in seeds(100) {
        let (rules, mut txs) = block(seed, 40);
        let Looped { list: truth, .. } = looped(&rules, &base, &mut txs);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut list = truth.clone();
        (0..4).for_each(|_| _ = falsify(&mut list, Lie::Value, 0, &mut rng));
        // A lie about a lie may be the truth.
        if list != truth {
            let refusal = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap().unwrap_err();
            assert_eq!(step_of(&refusal), lowest_difference(&list, &truth), "seed {seed}: {refusal}");
        }
    }
}

/// The lowest step at which two lists of the same shape differ.
fn lowest_difference(a: &[AccountChanges], b: &[AccountChanges]) -> u64 {
    fn texts<T: Change + std::fmt::Debug>(changes: &[T]) -> impl Iterator<Item = (u64, String)> {
        changes.iter().map(|change| (change.clone().at().get(), format!("{change:?}")))
    }
    let all = |list: &[AccountChanges]| -> Vec<_> {
        let each = list.iter().flat_map(|it| {
            let slots = it.storage_changes.iter().flat_map(|slot| texts(&slot.changes));
            let values = texts(&it.balance_changes).chain(texts(&it.nonce_changes)).chain(texts(&it.code_changes));
            values.chain(slots).collect::<Vec<_>>()
        });
        each.collect()
    };
    let pairs = all(a).into_iter().zip(all(b)).filter(|(a, b)| a != b);
    pairs.map(|((index, _), _)| index).min().expect("two lists")
}

#[test]
fn what_changes_nothing_may_be_missing_or_too_many() {
    let base = base();
    for seed in seeds(60) {
        let (rules, mut txs) = block(seed, 40);
        let Looped { outputs, state, mut list } = looped(&rules, &base, &mut txs);
        list.iter_mut().for_each(|account| account.storage_reads.clear());
        list.retain(AccountChanges::has_changes);
        list.push(AccountChanges::new(Address::repeat_byte(0xfe)).with_storage_read(U256::from(seed)));
        list.sort_by_key(|account| account.address);
        let ran = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap();
        assert_eq!(ran, Ok(outputs), "seed {seed}");
        same_state(&base, &list, txs.len(), &state, &format!("seed {seed}"));
    }
}

#[test]
fn accounts_and_slots_out_of_order_or_twice_are_refused() {
    let base = base();
    for seed in seeds(60) {
        let (rules, mut txs) = block(seed, 40);
        let Looped { list, .. } = looped(&rules, &base, &mut txs);
        let refused = |list: &[AccountChanges]| run(&rules, &base, &txs, list, &Protocol::default()).is_err();
        for place in 1..list.len() {
            let mut swapped = list.clone();
            swapped.swap(place - 1, place);
            assert!(refused(&swapped), "seed {seed}");
            let mut twice = list.clone();
            twice.insert(place, list[place].clone());
            assert!(refused(&twice), "seed {seed}");
        }
        for place in 0..list.len() {
            let mut both = list.clone();
            let account = &mut both[place];
            let Some(slot) = account.storage_changes.first().map(|changes| changes.slot) else { continue };
            account.storage_reads.push(slot);
            account.storage_reads.sort_unstable();
            assert!(refused(&both), "seed {seed}: a slot among changes and reads");
            both[place].storage_reads.retain(|read| *read != slot);
            both[place].storage_changes[0].changes.clear();
            assert!(refused(&both), "seed {seed}: no changes");
            both[place].storage_changes[0].changes =
                vec![StorageChange::new(BlockAccessIndex::new(txs.len() as u64 + 2), U256::ONE)];
            assert!(refused(&both), "seed {seed}: no such step");
            both[place].storage_changes.push(SlotChanges::new(U256::ZERO, Vec::new()));
            assert!(refused(&both), "seed {seed}: two of one slot");
        }
    }
}
