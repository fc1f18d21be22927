//! Runs on a true list: outputs and state of the loop.

use super::{
    State,
    maker::{Looped, looped},
    run,
    world::{base, block},
};
use crate::common::seeds;
use phalanx_parascheduler::{Listed, Protocol, eip7928::AccountChanges};
use revm::{DatabaseCommit as _, DatabaseRef as _};

/// Compares the state that the list leaves with that of the loop, by all that the loop knows, in both of its forms.
pub(super) fn same_state(base: &State, list: &[AccountChanges], txs: usize, looped: &State, what: &str) {
    let listed = Listed::new(list, txs).expect("in order");
    let mut committed = base.clone();
    committed.commit(listed.changes(base).unwrap());
    let after = listed.after(base);
    for (address, account) in &looped.cache.accounts {
        let theirs = looped.basic_ref(*address).unwrap().unwrap_or_default();
        let ours = after.basic_ref(*address).unwrap().unwrap_or_default();
        assert_eq!(ours, theirs, "{what}: {address}");
        assert_eq!(committed.basic_ref(*address).unwrap().unwrap_or_default(), theirs, "{what}: {address}");
        if !theirs.is_empty_code_hash() {
            let code = looped.code_by_hash_ref(theirs.code_hash).unwrap();
            assert_eq!(after.code_by_hash_ref(theirs.code_hash).unwrap(), code, "{what}: {address}");
            assert_eq!(committed.code_by_hash_ref(theirs.code_hash).unwrap(), code, "{what}: {address}");
        }
        for slot in account.storage.keys() {
            let theirs = looped.storage_ref(*address, *slot).unwrap();
            assert_eq!(after.storage_ref(*address, *slot).unwrap(), theirs, "{what}: {address} {slot}");
            assert_eq!(committed.storage_ref(*address, *slot).unwrap(), theirs, "{what}: {address} {slot}");
        }
    }
}

#[test]
fn a_true_list_gives_the_results_of_a_loop() {
    let base = base();
    let mut kinds = [0; 4];
    for seed in seeds(300) {
        let (rules, mut txs) = block(seed, 60);
        let Looped { outputs, state, list } = looped(&rules, &base, &mut txs);
        let ran = run(&rules, &base, &txs, &list, &Protocol::default()).unwrap();
        assert_eq!(ran, Ok(outputs), "seed {seed}");
        same_state(&base, &list, txs.len(), &state, &format!("seed {seed}"));
        let codes = list.iter().map(|account| account.code_changes.len());
        let slots = list.iter().flat_map(|account| &account.storage_changes).map(|slot| slot.changes.len());
        kinds[0] += codes.sum::<usize>();
        kinds[1] += slots.filter(|changes| *changes > 1).count();
        kinds[2] += list.iter().filter(|account| !account.has_changes()).count();
        kinds[3] += list.iter().map(|account| account.storage_reads.len()).sum::<usize>();
    }
    // Codes, slots with several writers, accounts and slots that are only read.
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
}
