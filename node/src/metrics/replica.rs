//! Status of a replica on the page.

use phalanx_net::Status;
use std::fmt::Write as _;

/// Reader of the status of a replica.
pub(crate) type Reporter = Box<dyn Fn() -> Option<Status> + Send + Sync>;

/// Appends the status of a replica.
pub(super) fn write(page: &mut String, status: &Status) {
    let gauges = [
        ("decided_height", status.decided),
        ("epoch", status.epoch),
        ("view", status.view),
        ("leader", status.leader.into()),
        ("silent", status.silent.into()),
        ("forgers", status.forgers.len() as u64),
    ];
    let counters = [
        ("evidence", status.evidence),
        ("transfers", status.transfers),
        ("log_compactions", status.compactions),
        ("fast_blocks", status.fast),
        ("slow_blocks", status.slow),
        ("dropped_frames", status.dropped),
        ("refused_transactions", status.refused_txs),
        ("refused_frames", status.refused.iter().map(|(_, count)| count).sum()),
    ];
    // Writing to a string does not fail.
    for (name, value) in gauges {
        let _ = writeln!(page, "# TYPE phalanx_replica_{name} gauge\nphalanx_replica_{name} {value}");
    }
    for (name, value) in counters {
        let _ = writeln!(page, "# TYPE phalanx_replica_{name} counter\nphalanx_replica_{name}_total {value}");
    }
}
