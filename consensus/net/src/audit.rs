//! Comparison of the notices of all replicas: one result per height, believed once f+1 replicas name it.

use crate::client::Notice;
use alloy_primitives::B256;
use phalanx_bft::{Index, Quorums, ReplicaSet};
use phalanx_engine_api::TxStatus;
use std::collections::BTreeMap;

/// A difference between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Two results of one height.
    #[error("height {height}: {replica} has the result {ours}, and {other} has {theirs}")]
    Diverged {
        /// Height of the block.
        height: u64,
        /// Replica whose notice came last.
        replica: Index,
        /// Digest in its notice.
        ours: B256,
        /// Replica with another notice; the same one if it contradicts itself.
        other: Index,
        /// Digest in that notice.
        theirs: B256,
    },
    /// A notice whose statuses do not lead to its transactions root.
    #[error("height {height}: the statuses that {replica} sent do not lead to the transactions root")]
    Statuses {
        /// Height of the block.
        height: u64,
        /// Replica that sent the notice.
        replica: Index,
    },
}

/// A block that f+1 replicas have committed with one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Notice of the block.
    pub notice: Notice,
    /// Status of each transaction; `None` if only replicas that restarted since have told.
    pub statuses: Option<Vec<TxStatus>>,
}

/// Notices of all replicas. Memory grows with the number of heights: some 100 bytes each.
#[derive(Debug)]
pub struct Audit {
    quorums: Quorums,
    heights: BTreeMap<u64, OfHeight>,
    /// Heights up to this one are settled.
    settled: u64,
    /// Next height of each replica.
    next: Vec<u64>,
}

#[derive(Debug)]
struct OfHeight {
    digest: B256,
    first: Index,
    replicas: ReplicaSet,
    /// Until it is settled.
    pending: Option<Settled>,
}

impl Audit {
    /// An audit of a network from its first block on.
    #[must_use]
    pub fn new(quorums: Quorums) -> Self {
        Self { quorums, heights: BTreeMap::new(), settled: 0, next: vec![1; quorums.n()] }
    }

    /// Takes a notice. Returns the blocks that it settles, in the order of their heights.
    ///
    /// # Errors
    /// The notice contradicts another one, or itself.
    pub fn on_notice(&mut self, replica: Index, notice: Notice) -> Result<Vec<Settled>, AuditError> {
        let (height, digest) = (notice.height, notice.digest());
        let statuses = notice.checked_statuses();
        if statuses.is_none() && !notice.statuses.is_empty() {
            return Err(AuditError::Statuses { height, replica });
        }
        if let Some(next) = self.next.get_mut(usize::from(replica.0)) {
            *next = (*next).max(height.saturating_add(1));
        }
        let settled = self.settled;
        let of = self.heights.entry(height).or_insert_with(|| OfHeight {
            digest,
            first: replica,
            replicas: ReplicaSet::default(),
            pending: (height > settled).then(|| Settled { notice, statuses: None }),
        });
        if of.digest != digest {
            return Err(AuditError::Diverged { height, replica, ours: digest, other: of.first, theirs: of.digest });
        }
        of.replicas.insert(replica);
        if let Some(pending) = &mut of.pending
            && pending.statuses.is_none()
        {
            pending.statuses = statuses;
        }
        Ok(self.settle())
    }

    fn settle(&mut self) -> Vec<Settled> {
        let mut settled = Vec::new();
        while let Some(of) = self.heights.get_mut(&(self.settled + 1))
            && of.replicas.len() >= self.quorums.one_correct()
            && let Some(pending) = of.pending.take()
        {
            self.settled += 1;
            settled.push(pending);
        }
        settled
    }

    /// Notes that a replica has no notices of heights below this one: it joined by a snapshot, or has pruned them.
    pub fn on_pruned(&mut self, replica: Index, from: u64) {
        if let Some(next) = self.next.get_mut(usize::from(replica.0)) {
            *next = (*next).max(from);
        }
    }

    /// Height from which on a replica's notices are missing.
    #[must_use]
    pub fn next(&self, replica: Index) -> u64 {
        self.next.get(usize::from(replica.0)).copied().unwrap_or(1)
    }

    /// Heights up to this one are settled.
    #[must_use]
    pub const fn settled(&self) -> u64 {
        self.settled
    }

    /// Highest height that any replica has committed.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.heights.last_key_value().map_or(0, |(height, _)| *height)
    }

    /// Number of heights that `replica` has named the result of.
    #[must_use]
    pub fn compared(&self, replica: Index) -> usize {
        self.heights.values().filter(|of| of.replicas.contains(replica)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;

    fn notice(height: u64, root: u8) -> Notice {
        let txs = vec![B256::repeat_byte(height as u8)];
        let statuses = [TxStatus::Succeeded];
        Notice {
            height,
            block: B256::ZERO,
            timestamp_ms: 0,
            prevrandao: B256::ZERO,
            beneficiary: Default::default(),
            gas_limit: 0,
            base_fee: 0,
            execution: B256::ZERO,
            state_root: B256::repeat_byte(root),
            receipts_root: B256::ZERO,
            transactions_root: phalanx_engine_api::transactions_root(&txs, &statuses),
            gas_used: 0,
            leader: 0,
            path: 0,
            txs,
            statuses: Bytes::from_static(&[0]),
        }
    }

    #[test]
    fn blocks_settle_in_order_at_two_of_four() {
        let mut audit = Audit::new(Quorums::new(4, 1).expect("a legal size"));
        let mut tell = |replica, height| {
            let settled = audit.on_notice(Index(replica), notice(height, 1)).expect("equal");
            settled.iter().map(|block| block.notice.height).collect::<Vec<u64>>()
        };
        assert_eq!(tell(0, 1), [0; 0]);
        assert_eq!(tell(0, 1), [0; 0], "the same replica again");
        assert_eq!(tell(0, 2), [0; 0]);
        assert_eq!(tell(3, 2), [0; 0], "height 1 comes first");
        assert_eq!(tell(3, 1), [1, 2]);
        assert_eq!(tell(1, 1), [0; 0], "settled once");
        assert_eq!((audit.settled(), audit.highest(), audit.next(Index(0)), audit.next(Index(1))), (2, 2, 3, 2));
    }

    #[test]
    fn the_highest_height_overflows_nothing() {
        let mut audit = Audit::new(Quorums::new(4, 1).expect("a legal size"));
        let settled = audit.on_notice(Index(1), notice(u64::MAX, 1)).expect("the first");
        assert!(settled.is_empty(), "the heights below are missing");
        assert_eq!((audit.next(Index(1)), audit.highest(), audit.settled()), (u64::MAX, u64::MAX, 0));
    }

    #[test]
    fn differences_and_lies_about_statuses_are_found() {
        let mut audit = Audit::new(Quorums::new(4, 1).expect("a legal size"));
        audit.on_notice(Index(0), notice(1, 1)).expect("the first");
        let other = audit.on_notice(Index(2), notice(1, 2));
        assert!(matches!(other, Err(AuditError::Diverged { height: 1, replica: Index(2), other: Index(0), .. })));
        let lie = Notice { statuses: Bytes::from_static(&[1]), ..notice(2, 1) };
        assert_eq!(audit.on_notice(Index(1), lie), Err(AuditError::Statuses { height: 2, replica: Index(1) }));
        let unknown = Notice { statuses: Bytes::new(), ..notice(2, 1) };
        audit.on_notice(Index(1), unknown.clone()).expect("no statuses are no lie");
        let settled = audit.on_notice(Index(3), unknown).expect("equal");
        assert!(settled.is_empty(), "height 1 is not settled");
    }
}
