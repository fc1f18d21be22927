//! Clients: each has one transaction in flight, and waits until f+1 replicas have answered.

use alloy_primitives::{B256, Bytes, TxKind, U256};
use phalanx::{api::TxStatus, revm::context::TxEnv};
use phalanx_workloads::{Native, SignError, Workload as _};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Transactions that are sent at once, at most.
const MOST_AT_ONCE: usize = 512;

/// A transaction without an answer.
#[derive(Clone, Debug)]
struct Pending {
    client: usize,
    /// Time at which it was due, and at which it was sent last, in µs.
    due_us: u64,
    sent_us: u64,
}

/// Transactions that were due in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    pub(crate) sent: u64,
    pub(crate) confirmed: u64,
    pub(crate) latency_us: u64,
    pub(crate) most_us: u64,
}

/// The clients of a run. Latency counts from the time at which a transaction is due, also if its client is not free then.
pub(crate) struct Load {
    native: Native,
    tps: u64,
    end_us: u64,
    retry_us: u64,
    free: VecDeque<usize>,
    nonces: Vec<u64>,
    pending: HashMap<B256, Pending>,
    /// Bytes of every transaction, for repetition and for the serial execution.
    pub(crate) txs: HashMap<B256, Bytes>,
    /// Number of transactions that were due so far.
    due: u64,
    pub(crate) latencies_us: Vec<u64>,
    /// Time at which each answered transaction was due, with its latency, in µs.
    pub(crate) answers: Vec<(u64, u64)>,
    pub(crate) seconds: BTreeMap<u64, Second>,
    pub(crate) skipped: u64,
    pub(crate) repeated: u64,
    /// Time of the last confirmation, and the longest time without one, in µs.
    last_us: u64,
    pub(crate) longest_gap_us: u64,
}

impl Load {
    pub(crate) fn new(native: Native, tps: u64, seconds: u64, retry_ms: u64) -> Self {
        let clients = native.accounts().len();
        Self {
            native,
            tps,
            end_us: seconds * 1_000_000,
            retry_us: retry_ms * 1_000,
            free: (0..clients).collect(),
            nonces: vec![0; clients],
            pending: HashMap::new(),
            txs: HashMap::new(),
            due: 0,
            latencies_us: Vec::new(),
            answers: Vec::new(),
            seconds: BTreeMap::new(),
            skipped: 0,
            repeated: 0,
            last_us: 0,
            longest_gap_us: 0,
        }
    }

    pub(crate) const fn native(&self) -> &Native {
        &self.native
    }

    /// Number of transactions without an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.pending.len()
    }

    /// Transactions to send now.
    pub(crate) fn take_due(&mut self, now_us: u64) -> Result<Vec<Bytes>, SignError> {
        if now_us >= self.end_us {
            return Ok(Vec::new());
        }
        let mut envelopes = Vec::new();
        let mut of = Vec::new();
        while envelopes.len() < MOST_AT_ONCE {
            let due_us = (self.due * 1_000_000).checked_div(self.tps).unwrap_or(now_us);
            if due_us > now_us {
                break;
            }
            let Some(client) = self.free.pop_front() else { break };
            self.due += 1;
            envelopes.push(self.transfer(client));
            self.nonces[client] += 1;
            of.push((client, due_us));
        }
        let txs = self.native.accounts().sign(&envelopes)?;
        for (tx, (client, due_us)) in txs.iter().zip(of) {
            let hash = phalanx::api::transaction_hash(tx);
            self.pending.insert(hash, Pending { client, due_us, sent_us: now_us });
            self.txs.insert(hash, tx.clone());
            self.seconds.entry(due_us / 1_000_000).or_default().sent += 1;
        }
        Ok(txs)
    }

    /// The next transfer of a client, to another one.
    fn transfer(&self, client: usize) -> TxEnv {
        let accounts = self.native.accounts();
        let nonce = self.nonces[client];
        let away = 1 + (nonce as usize * 7_919 + client) % (accounts.len() - 1).max(1);
        let fees = self.native.load().fees;
        TxEnv {
            tx_type: 2,
            caller: accounts.address(client),
            gas_limit: Native::GAS,
            gas_price: fees.max_fee.into(),
            gas_priority_fee: Some(fees.priority_fee.into()),
            kind: TxKind::Call(accounts.address((client + away) % accounts.len())),
            value: U256::from(1 + nonce % 1_000),
            nonce,
            chain_id: Some(self.native.load().chain_id),
            ..Default::default()
        }
    }

    /// Transactions that have waited too long for an answer: clients send them to all replicas.
    pub(crate) fn take_overdue(&mut self, now_us: u64) -> Vec<Bytes> {
        let mut overdue = Vec::new();
        for (hash, pending) in &mut self.pending {
            if now_us.saturating_sub(pending.sent_us) >= self.retry_us && overdue.len() < MOST_AT_ONCE {
                pending.sent_us = now_us;
                overdue.extend(self.txs.get(hash).cloned());
            }
        }
        self.repeated += overdue.len() as u64;
        overdue
    }

    /// Notes that f+1 replicas have committed a transaction.
    pub(crate) fn on_settled(&mut self, now_us: u64, hash: &B256, status: Option<TxStatus>) {
        let Some(Pending { client, due_us, .. }) = self.pending.remove(hash) else { return };
        self.longest_gap_us = self.longest_gap_us.max(now_us.saturating_sub(self.last_us));
        self.last_us = now_us;
        if status == Some(TxStatus::Skipped) {
            // The client's later transactions would be skipped as well: it is out of the run.
            self.skipped += 1;
            return;
        }
        self.free.push_back(client);
        let latency = now_us.saturating_sub(due_us);
        self.latencies_us.push(latency);
        self.answers.push((due_us, latency));
        let second = self.seconds.entry(due_us / 1_000_000).or_default();
        second.confirmed += 1;
        second.latency_us += latency;
        second.most_us = second.most_us.max(latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_workloads::TransferLoad;

    fn load(clients: u64, tps: u64) -> Load {
        let load = TransferLoad { accounts: clients, txs: 100, signatures: true, ..Default::default() };
        Load::new(Native::new(load).expect("a load"), tps, 10, 100)
    }

    fn hash(tx: &Bytes) -> B256 {
        phalanx::api::transaction_hash(tx)
    }

    #[test]
    fn the_rate_holds_and_a_late_client_counts_from_the_due_time() {
        let mut load = load(3, 1_000);
        let first = load.take_due(1_500).expect("keys");
        assert_eq!(first.len(), 2, "due at 0 and at 1 ms");
        assert_eq!(load.take_due(9_000).expect("keys").len(), 1, "the third client; no other is free");
        load.on_settled(9_500, &hash(&first[0]), Some(TxStatus::Succeeded));
        load.on_settled(9_600, &hash(&first[0]), Some(TxStatus::Succeeded));
        let next = load.take_due(10_000).expect("keys");
        assert_eq!((next.len(), load.unanswered()), (1, 3));
        load.on_settled(11_000, &hash(&next[0]), None);
        assert_eq!(load.latencies_us, [9_500, 8_000], "due at 3 ms");
        assert_eq!(load.seconds[&0].sent, 4);
        assert!(load.take_due(10_000_000).expect("keys").is_empty(), "the end");
    }

    #[test]
    fn overdue_transactions_are_repeated_and_skipped_ones_end_their_client() {
        let mut load = load(2, 0);
        let sent = load.take_due(0).expect("keys");
        assert_eq!((sent.len(), load.take_overdue(99_999).len()), (2, 0));
        assert_eq!((load.take_overdue(100_000).len(), load.take_overdue(150_000).len()), (2, 0));
        load.on_settled(150_000, &hash(&sent[1]), Some(TxStatus::Skipped));
        load.on_settled(160_000, &hash(&sent[0]), Some(TxStatus::Succeeded));
        assert_eq!((load.skipped, load.take_due(160_000).expect("keys").len()), (1, 1));
        assert_eq!(load.longest_gap_us, 150_000);
    }
}
