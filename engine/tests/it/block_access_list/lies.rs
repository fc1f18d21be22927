//! False access lists. Every lie is detected at the same step, on any number of threads, whether the block ran on the
//! list or was compared with it.
//!
//! `PHALANX_FUZZ_SEED` is the first seed and `PHALANX_FUZZ_CASES` the number of cases.

use super::{encode, execute, list};
use crate::{
    fuzz::random_case,
    kit::{Case, Hint, Way, call, eoa},
};
use alloy_rlp::Encodable as _;
use phalanx::{
    AccessListFault, BlockError, Hints,
    eip7928::{AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges, StorageChange},
    revm::primitives::{Address, B256, Bytes, U256, keccak256},
};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// Place at which a lie is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Step(u64),
    /// The list is refused as a whole.
    Whole,
    /// The first access of the changed entry.
    Anywhere,
}

pub(super) const KINDS: u32 = 23;

/// A random account that satisfies the condition.
fn one<'l>(
    list: &'l mut [AccountChanges],
    has: impl Fn(&AccountChanges) -> bool,
    rng: &mut ChaCha8Rng,
) -> Option<&'l mut AccountChanges> {
    let numbers: Vec<usize> = (0..list.len()).filter(|number| has(&list[*number])).collect();
    numbers.choose(rng).map(|number| &mut list[*number])
}

/// Falsifies the list by the given kind of lie, and returns the place of its detection. `None` if the list has no entry
/// for this kind.
pub(super) fn lie(kind: u32, list: &mut Vec<AccountChanges>, txs: u64, rng: &mut ChaCha8Rng) -> Option<At> {
    let step = |index: BlockAccessIndex| Some(At::Step(index.get()));
    let place = BlockAccessIndex::new(rng.random_range(0..=txs + 1));
    match kind {
        0 => {
            let account = one(list, |account| !account.balance_changes.is_empty(), rng)?;
            let at = rng.random_range(0..account.balance_changes.len());
            let change = &mut account.balance_changes[at];
            change.post_balance = change.post_balance.wrapping_add(U256::ONE);
            step(change.block_access_index)
        }
        1 => {
            let account = one(list, |account| !account.nonce_changes.is_empty(), rng)?;
            let at = rng.random_range(0..account.nonce_changes.len());
            let change = &mut account.nonce_changes[at];
            change.new_nonce = change.new_nonce.wrapping_add(1);
            step(change.block_access_index)
        }
        2 => {
            let account = one(list, |account| !account.storage_changes.is_empty(), rng)?;
            let at = rng.random_range(0..account.storage_changes.len());
            let changes = &mut account.storage_changes[at].changes;
            let at = rng.random_range(0..changes.len());
            changes[at].new_value = changes[at].new_value.wrapping_add(U256::ONE);
            step(changes[at].block_access_index)
        }
        3 => {
            let account = one(list, |account| !account.code_changes.is_empty(), rng)?;
            let change = &mut account.code_changes[0];
            let empty = rng.random_bool(0.5) && !change.new_code.is_empty();
            change.new_code = if empty { Bytes::new() } else { Bytes::from_static(&[0xef, 1]) };
            step(change.block_access_index)
        }
        // Omissions.
        4 => {
            let account = one(list, |account| !account.balance_changes.is_empty(), rng)?;
            let at = rng.random_range(0..account.balance_changes.len());
            step(account.balance_changes.remove(at).block_access_index)
        }
        5 => {
            let account = one(list, |account| !account.storage_changes.is_empty(), rng)?;
            let at = rng.random_range(0..account.storage_changes.len());
            let gone = account.storage_changes.remove(at);
            let slot = gone.slot;
            if rng.random_bool(0.5) {
                return Some(At::Anywhere);
            }
            account.storage_reads.push(slot);
            account.storage_reads.sort_unstable();
            step(gone.changes[0].block_access_index)
        }
        6 => {
            let account = one(list, |account| !account.nonce_changes.is_empty(), rng)?;
            step(account.nonce_changes.remove(0).block_access_index)
        }
        7 => {
            let account = one(list, |account| !account.code_changes.is_empty(), rng)?;
            step(account.code_changes.remove(0).block_access_index)
        }
        8 => {
            let account = one(list, |account| !account.storage_reads.is_empty(), rng)?;
            let at = rng.random_range(0..account.storage_reads.len());
            account.storage_reads.remove(at);
            Some(At::Anywhere)
        }
        9 => {
            let at = rng.random_range(0..list.len());
            list.remove(at);
            Some(At::Anywhere)
        }
        // Additions.
        10 => {
            let at = rng.random_range(0..list.len());
            let changes = &mut list[at].balance_changes;
            changes.iter().all(|change| change.block_access_index != place).then_some(())?;
            changes.push(BalanceChange::new(place, U256::from(rng.random::<u64>())));
            changes.sort_by_key(|change| change.block_access_index);
            step(place)
        }
        11 => {
            let at = rng.random_range(0..list.len());
            let slot = U256::from(rng.random_range(1_000..2_000u64));
            list[at].storage_changes.push(SlotChanges::new(slot, vec![StorageChange::new(place, U256::ONE)]));
            list[at].storage_changes.sort_by_key(|changes| changes.slot);
            step(place)
        }
        12 => {
            let at = rng.random_range(0..list.len());
            let changes = &mut list[at].nonce_changes;
            changes.iter().all(|change| change.block_access_index < place).then_some(())?;
            changes.push(NonceChange::new(place, rng.random()));
            step(place)
        }
        13 => {
            let at = rng.random_range(0..list.len());
            let changes = &mut list[at].code_changes;
            changes.iter().all(|change| change.block_access_index < place).then_some(())?;
            changes.push(CodeChange::new(place, Bytes::from_static(&[0x5f, 0x5f, 0xfd])));
            step(place)
        }
        14 => {
            let at = rng.random_range(0..list.len());
            list[at].storage_reads.push(U256::MAX - U256::from(rng.random::<u64>()));
            Some(At::Whole)
        }
        15 => {
            list.push(AccountChanges::new(Address::repeat_byte(0xff)));
            Some(At::Whole)
        }
        // Moves to another step.
        16 => {
            let account = one(list, |account| account.balance_changes.len() == 1, rng)?;
            let change = &mut account.balance_changes[0];
            let from = core::mem::replace(&mut change.block_access_index, place);
            (from != place).then(|| At::Step(from.get().min(place.get())))
        }
        // Another encoding of the same content.
        17 => {
            (list.len() > 1).then(|| list.reverse())?;
            Some(At::Whole)
        }
        18 => {
            let at = rng.random_range(0..list.len());
            let twin = list[at].clone();
            list.insert(at, twin);
            Some(At::Whole)
        }
        // A read as a write.
        19 => {
            let account = one(list, |account| !account.storage_reads.is_empty(), rng)?;
            let at = rng.random_range(0..account.storage_reads.len());
            let slot = account.storage_reads.remove(at);
            let change = StorageChange::new(place, U256::from(rng.random::<u64>()));
            account.storage_changes.push(SlotChanges::new(slot, vec![change]));
            account.storage_changes.sort_by_key(|changes| changes.slot);
            step(place)
        }
        // Behind the last step.
        20 => {
            let account = one(list, |account| !account.balance_changes.is_empty(), rng)?;
            let beyond = txs + [2, 3, 1 << 20][rng.random_range(0..3)];
            account.balance_changes.push(BalanceChange::new(BlockAccessIndex::new(beyond), U256::ONE));
            Some(At::Whole)
        }
        // Two values of one step, swapped.
        21 => {
            let account = one(list, |account| !account.balance_changes.is_empty(), rng)?;
            let at = account.balance_changes[0].block_access_index;
            let has = |change: &BalanceChange| change.block_access_index == at;
            let mut both =
                list.iter_mut().flat_map(|account| &mut account.balance_changes).filter(|change| has(change));
            let (first, second) = (both.next()?, both.next()?);
            core::mem::swap(&mut first.post_balance, &mut second.post_balance);
            (first.post_balance != second.post_balance).then(|| At::Step(at.get()))
        }
        // A written slot as a read, too.
        _ => {
            let account = one(list, |account| !account.storage_changes.is_empty(), rng)?;
            let slot = account.storage_changes[0].slot;
            account.storage_reads.push(slot);
            account.storage_reads.sort_unstable();
            Some(At::Whole)
        }
    }
}

/// Step at which all ways of execution detect the lie. The ways that run on the list find the same step with the fast
/// path and without.
pub(super) fn found(case: &Case, rlp: &[u8], hash: B256, what: &str) -> Option<usize> {
    let listed = |fast_path| {
        let mut engine = case.engine_with_fast_path(&Way::dag(2, Hint::AccessList), fast_path);
        match engine.execute_block(&case.blocks[0].payload(), Hints::AccessList { rlp, hash }) {
            Err(BlockError::AccessList { index, what }) => (index, what),
            other => panic!("{what}, fast path {fast_path}: {other:?}\n{case}"),
        }
    };
    assert_eq!(listed(true), listed(false), "{what}\n{case}");
    let mut ways: Vec<_> = [1, 2, 4, 8].map(|threads| Way::dag(threads, Hint::AccessList)).into();
    ways.extend([Way::sequential(), Way::stm(2, None)]);
    let mut last = None;
    for way in ways {
        let index = match execute(case, &case.blocks[0], &way, rlp, hash) {
            Err(BlockError::AccessList { index, .. }) => index,
            other => panic!("{what}, {way:?}: {other:?}\n{case}"),
        };
        assert_eq!(*last.get_or_insert(index), index, "{what}, {way:?}\n{case}");
    }
    last.expect("there are ways")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

pub(super) fn each_valid_case(cases: u64, mut test: impl FnMut(u64, &Case, &[AccountChanges])) {
    let first = number("PHALANX_FUZZ_SEED").unwrap_or(1);
    let cases = number("PHALANX_FUZZ_CASES").unwrap_or(cases);
    let mut valid = 0;
    for seed in first..first + cases {
        // Shown if the case panics.
        println!("seed {seed}");
        let mut case = random_case(&mut ChaCha8Rng::seed_from_u64(seed));
        case.blocks.truncate(1);
        // A foreign state knows the parent's hash by the header alone.
        let header = &mut case.blocks[0].header;
        if let Some(hash) = header.number.checked_sub(1).and_then(|parent| case.ancestors.get(&parent)) {
            header.parent_hash = *hash;
        }
        if let Some(list) = list(&case) {
            valid += 1;
            test(seed, &case, &list);
        }
    }
    assert!(valid > 0, "no block of {cases} cases is valid");
}

#[test]
fn every_lie_is_detected_at_its_step() {
    let mut told = [0u32; KINDS as usize];
    each_valid_case(20, |seed, case, truth| {
        let txs = case.blocks[0].txs.len() as u64;
        for kind in 0..KINDS {
            let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(kind));
            let mut list = truth.to_vec();
            let Some(at) = lie(kind, &mut list, txs, &mut rng) else { continue };
            let rlp = encode(&list);
            let index = found(case, &rlp, keccak256(&rlp), &format!("kind {kind}"));
            match at {
                At::Step(step) => assert_eq!(index, Some(step as usize), "kind {kind}\n{case}"),
                At::Whole => assert_eq!(index, None, "kind {kind}\n{case}"),
                At::Anywhere => assert!(index.is_some(), "kind {kind}\n{case}"),
            }
            told[kind as usize] += 1;
        }
    });
    println!("{} changed lists, by kind: {told:?}", told.iter().sum::<u32>());
    assert!(told.iter().all(|told| *told > 0), "every kind occurred: {told:?}");
}

#[test]
fn bytes_of_another_list_are_refused() {
    each_valid_case(12, |seed, case, truth| {
        let rlp = encode(truth);
        let refused = |bytes: &[u8], hash: B256, what: &str| {
            assert_eq!(found(case, bytes, hash, what), None, "{what}");
        };
        refused(&rlp, keccak256([&rlp[..], &[0]].concat()), "another hash");
        refused(&[&rlp[..], &[0x80]].concat(), keccak256([&rlp[..], &[0x80]].concat()), "trailing bytes");
        refused(&[], keccak256([]), "nothing");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..4 {
            let cut = &rlp[..rng.random_range(0..rlp.len())];
            refused(cut, keccak256(cut), "the beginning");
        }
        let mut wrapped = Vec::new();
        rlp.encode(&mut wrapped);
        refused(&wrapped, keccak256(&wrapped), "the list as a string");
    });
}

/// A list has one encoding, so no other bytes can pass for it.
#[test]
fn no_other_bytes_pass_for_the_list() {
    let way = Way::dag(1, Hint::AccessList);
    each_valid_case(20, |seed, case, truth| {
        let rlp = encode(truth);
        assert!(execute(case, &case.blocks[0], &way, &rlp, keccak256(&rlp)).is_ok(), "the true list");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..60 {
            let mut bytes = rlp.to_vec();
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..3) {
                0 => bytes[at] ^= 1 << rng.random_range(0..8),
                1 => bytes.insert(at, rng.random()),
                _ => _ = bytes.remove(at),
            }
            if bytes == rlp {
                continue;
            }
            let executed = execute(case, &case.blocks[0], &way, &bytes, keccak256(&bytes));
            // A changed block may be invalid in another way before the lie shows, but never valid.
            assert!(executed.is_err(), "byte {at} of {}\n{case}", rlp.len());
        }
    });
}

#[test]
fn a_list_longer_than_the_gas_permits_is_refused_unread() {
    let case = Case::new("Prague").with([eoa(1)]).block([call(1, 0, Address::repeat_byte(2), 1)]);
    let mut list = list(&case).expect("a valid block");
    // A fifth may be refunded.
    let most = case.blocks[0].header.gas_limit / 4 * 5 / 2000;
    list[0].storage_reads = (0..most + 200).map(U256::from).collect();
    let rlp = encode(&list);
    let error = execute(&case, &case.blocks[0], &Way::dag(2, Hint::AccessList), &rlp, keccak256(&rlp));
    assert!(
        matches!(error, Err(BlockError::AccessList { index: None, what: AccessListFault::TooLong { .. } })),
        "{error:?}"
    );
}
