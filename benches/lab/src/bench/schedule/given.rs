//! Parallelism of the order of arrival, in the measures of the framer's.

use super::load::{Parallelism, intern};
use phalanx::{
    access::{Access, AccessSets, Interner, KeyId, Salt},
    paraframer::FramerConfig,
    paralyze::StateKey,
    parascheduler::{Dag, DagBuilder},
};

/// Parallelism of `sets` in their given order, in blocks of `block_txs`. A frame is a maximal run of transactions that do
/// not conflict, up to a frame's limit.
pub(super) fn parallelism(
    sets: &AccessSets<StateKey>,
    digests: &[(u64, Access)],
    salt: Salt,
    block_txs: usize,
) -> Parallelism {
    let (mut interner, mut builder, mut dag) = (Interner::new(salt), DagBuilder::new(), Dag::default());
    let (mut frames, mut critical_path) = (0, 0);
    let order: Vec<u32> = (0..sets.len() as u32).collect();
    for block in order.chunks(block_txs) {
        interner.clear();
        let ids = intern(&mut interner, sets, digests, block);
        frames += frames_in_a_row(&ids, interner.len(), FramerConfig::default().max_txs);
        builder.build(&ids, interner.len(), &mut dag);
        critical_path += dag.critical_path();
    }
    Parallelism::new(sets.len(), frames, critical_path)
}

/// Number of frames of at most `max_txs` transactions without reordering.
fn frames_in_a_row(sets: &AccessSets<KeyId>, keys: usize, max_txs: usize) -> usize {
    // The access of each key by the last frame that touches it. Members of a frame do not conflict, so one access stands for all.
    let mut held: Vec<(usize, Access)> = vec![(0, Access::Read); keys];
    let (mut frame, mut members) = (0, 0);
    for set in sets.iter() {
        let conflicts = |(key, access): &(KeyId, Access)| {
            let (at, holds) = held[key.index()];
            at == frame && access.conflicts(holds)
        };
        if frame == 0 || members == max_txs || set.iter().any(conflicts) {
            (frame, members) = (frame + 1, 0);
        }
        members += 1;
        for (key, access) in set {
            held[key.index()] = (frame, *access);
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Credit, Read, Write};

    fn frames(sets: &[&[(u32, Access)]], max_txs: usize) -> usize {
        let mut ids = AccessSets::new();
        for set in sets {
            ids.push(set.iter().map(|(key, access)| (KeyId(*key), *access)));
        }
        frames_in_a_row(&ids, 4, max_txs)
    }

    #[test]
    fn a_frame_ends_with_a_conflict_or_when_it_is_full() {
        assert_eq!(frames(&[], 8), 0);
        let apart: [&[_]; 3] = [&[(0, Write)], &[(1, Write)], &[(2, Write)]];
        assert_eq!((frames(&apart, 8), frames(&apart, 2)), (1, 2));
        assert_eq!(frames(&[&[(0, Read)], &[(0, Read), (1, Credit)], &[(1, Credit)], &[(0, Credit)]], 8), 2);
        assert_eq!(frames(&[&[(0, Write)], &[(1, Write)], &[(0, Write)], &[(1, Write)]], 8), 2);
        assert_eq!(frames(&[&[(0, Write)], &[(0, Write)], &[(0, Write)]], 8), 3);
    }
}
