//! Votes on states: when a slot's result is certified at enough replicas for its clients.

use phalanx_bft::{Quorums, Slot};

/// Newest vote of each replica as each node knows it, and what that certifies. Votes are in the order of slots, so that the newest
/// one includes all before.
#[derive(Debug)]
pub(super) struct Votes {
    quorums: Quorums,
    known: Vec<Vec<Slot>>,
    /// Slots whose clients have their answers.
    answered: Slot,
}

impl Votes {
    pub(super) fn new(quorums: Quorums) -> Self {
        Self { quorums, known: vec![vec![0; quorums.n()]; quorums.n()], answered: 0 }
    }

    /// Notes a vote that reaches a node. Returns the slots that are certified at f+1 replicas now.
    pub(super) fn note(&mut self, node: u16, from: u16, slot: Slot) -> impl Iterator<Item = Slot> + use<> {
        let newest = &mut self.known[usize::from(node)][usize::from(from)];
        *newest = slot.max(*newest);
        let Self { quorums, known, answered } = self;
        // A node commits what it has executed itself and a quorum has voted on.
        let committed = known.iter().enumerate().map(|(node, votes)| votes[node].min(nth(votes, quorums.quorum())));
        let before = *answered;
        *answered = before.max(nth(&committed.collect::<Vec<Slot>>(), quorums.one_correct()));
        before + 1..=*answered
    }
}

/// The slot that at least `count` of them have reached.
fn nth(slots: &[Slot], count: usize) -> Slot {
    let mut sorted = slots.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    sorted.get(count - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_answered_when_two_of_four_know_three_votes_and_their_own() {
        let mut votes = Votes::new(Quorums::new(4, 1).expect("a legal size"));
        let mut note = |node, from, slot| votes.note(node, from, slot).collect::<Vec<Slot>>();
        for from in [1, 2, 3] {
            assert!(note(0, from, 7).is_empty(), "node 0 has not executed it");
        }
        assert!(note(0, 0, 7).is_empty(), "one replica");
        assert!(note(1, 1, 5).is_empty());
        assert!(note(1, 2, 7).is_empty());
        assert_eq!(note(1, 0, 7), [1, 2, 3, 4, 5]);
        assert_eq!(note(1, 1, 7), [6, 7]);
    }
}
