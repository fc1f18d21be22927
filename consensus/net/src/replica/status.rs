//! Progress of a replica.

use serde::Serialize;

/// Progress of a replica, and what it refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Height of the newest committed block.
    pub committed: u64,
    /// Blocks up to this height are decided.
    pub decided: u64,
    /// Number of the replica set.
    pub epoch: u64,
    /// View of the protocol.
    pub view: u64,
    /// True while the replica learns and does not vote, because its log may lack what it has said.
    pub silent: bool,
    /// Replica that leads it.
    pub leader: u16,
    /// Blocks that have a certificate of f+1 replicas, of protocols that form them.
    pub certificates: u64,
    /// Committed blocks that the fast path decided, of protocols with two.
    pub fast: u64,
    /// Committed blocks that the slow path decided, of protocols with two.
    pub slow: u64,
    /// Acknowledgements that were sent to clients.
    pub acknowledged: u64,
    /// Proofs of faults, kept in the replica's folder.
    pub evidence: u64,
    /// Times that decided blocks were asked of a peer, because the replica was behind a checkpoint.
    pub transfers: u64,
    /// Heights of the states that others can take as snapshots.
    pub snapshots: Vec<u64>,
    /// Times that the log was compacted.
    pub compactions: u64,
    /// Refused connections and frames by kind.
    pub refused: Vec<(&'static str, u64)>,
    /// Replicas that sent a wrong signature inside an authentic frame. Their connections are closed for a while.
    pub forgers: Vec<u16>,
    /// Transactions of clients, or forwarded by replicas, that were malformed or badly signed.
    pub refused_txs: u64,
    /// Frames that were dropped because a peer did not take them.
    pub dropped: u64,
}
