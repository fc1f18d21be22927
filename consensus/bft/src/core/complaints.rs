//! Complaints about the primary of a view, shared by protocols whose view change keeps a replica out of the view that it leaves.
//!
//! A replica complains after half of its patience, and leaves when all of it is over and f other replicas wait as well. Alone it
//! would be absent from every quorum until all change views. So a replica that was suspended or cut off would stay one of the f
//! faults. A complaint promises nothing: it is neither signed nor logged, and a restart forgets it. It is repeated while its
//! sender waits, and counts until the receiver's patience is over once more: complaints of other times do not add up.

use super::{
    protocol::Micros,
    replica::{Index, ReplicaSet},
};

/// Complaints about the primary of the current view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Complaints {
    /// Replicas that complain.
    from: ReplicaSet,
    /// True once this replica's patience is over.
    overdue: bool,
    /// True while the timer of the own complaint runs.
    pub(crate) runs: bool,
}

impl Complaints {
    /// Time after which a replica complains. Half of its patience, so that others know of it when that is over.
    pub(crate) const fn due_after(patience: Micros) -> Micros {
        patience / 2
    }

    /// Notes that a replica complains. Each counts once.
    pub(crate) fn note(&mut self, from: Index) {
        self.from.insert(from);
    }

    /// Notes that this replica's patience is over.
    pub(crate) const fn expire(&mut self) {
        self.overdue = true;
    }

    /// Forgets the complaints of all but `me`, whose patience stays over.
    pub(crate) fn renew(&mut self, me: Index) {
        self.from = [me].into_iter().collect();
    }

    /// Returns true if the replica has complained.
    pub(crate) fn has(&self, replica: Index) -> bool {
        self.from.contains(replica)
    }

    /// Returns true if patience is over and `needed` replicas wait: those that complain, and those that have left the view.
    pub(crate) fn suffice(&self, left: impl Iterator<Item = Index>, needed: usize) -> bool {
        self.overdue && self.from.iter().chain(left).collect::<ReplicaSet>().len() >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_and_others_are_both_needed() {
        let mut complaints = Complaints::default();
        complaints.note(Index(1));
        complaints.note(Index(1));
        complaints.note(Index(2));
        assert!(!complaints.suffice([].into_iter(), 2), "patience is not over");
        complaints.expire();
        assert!(complaints.suffice([].into_iter(), 2));
        assert!(!complaints.suffice([Index(2)].into_iter(), 3), "a replica counts once");
        assert!(complaints.suffice([Index(3)].into_iter(), 3), "a replica that has left waits too");
    }

    #[test]
    fn old_complaints_do_not_count() {
        let mut complaints = Complaints::default();
        complaints.note(Index(1));
        complaints.note(Index(2));
        complaints.expire();
        complaints.renew(Index(1));
        assert!(complaints.has(Index(1)) && !complaints.has(Index(2)));
        complaints.note(Index(3));
        assert!(complaints.suffice([].into_iter(), 2), "patience is still over");
        assert!(!complaints.suffice([].into_iter(), 3));
    }
}
