//! Clients that send real transactions: signed transfers whose calldata names the batch or occasion.

use alloy_consensus::{Transaction as _, TxEnvelope};
use alloy_eips::Decodable2718 as _;
use alloy_primitives::{Bytes, TxKind, U256};
use phalanx::{
    api::{ReadState, StateView, ViewAt},
    revm::context::TxEnv,
};
use phalanx_sim::{Batch, Sent};
use phalanx_workloads::{Accounts, ConfigError, Native, TransferLoad, Workload as _};
use std::sync::Arc;

/// Number of sender groups that a node's occasions rotate through. When a group's turn comes again, its last transactions are
/// committed or lost, so the committed state has its next nonces.
const LANES: u64 = 64;
/// Senders in a group.
const LANE: usize = 8;
/// First byte of the calldata of a transaction that came in a batch.
const BATCH: u8 = 1;
/// Length of the calldata of such a transaction: the byte above, author, number, size of the batch, index in it.
const BATCH_MEMO: usize = 21;
/// Gas limit, enough for a transfer with calldata.
const GAS: u64 = 40_000;

/// The accounts of all clients, and their keys.
#[derive(Debug)]
pub(crate) struct Clients(Native);

impl Clients {
    /// Clients of `nodes` nodes.
    pub(crate) fn new(nodes: u32, seed: u64) -> Result<Self, ConfigError> {
        let accounts = u64::from(nodes) * LANES * LANE as u64;
        Native::new(TransferLoad { accounts, txs: 1, seed, signatures: true, ..Default::default() }).map(Self)
    }

    pub(crate) fn accounts(&self) -> &Accounts {
        self.0.accounts()
    }

    /// Signed transactions, with the next nonces after the node's committed state.
    pub(crate) fn transactions(&self, engine: &impl ReadState, sent: &Sent) -> Vec<Bytes> {
        let (author, turn, count, memo) = occasion(sent);
        let Ok(state) = engine.view(ViewAt::Committed) else { return Vec::new() };
        let txs = self.transfers(&state, (author, turn), count, &memo);
        // All senders have keys, and the transactions are of a kind that can be signed.
        self.0.accounts().sign(&txs).unwrap_or_default()
    }

    fn transfers(&self, state: &Arc<dyn StateView>, (author, turn): (u32, u64), count: u32, memo: &[u8]) -> Vec<TxEnv> {
        let accounts = self.accounts();
        let lane = (u64::from(author) * LANES + turn % LANES) as usize * LANE;
        let sender = |index: usize| accounts.address((lane + index % LANE) % accounts.len());
        let nonce = |index: usize| {
            let account = state.account(sender(index)).ok().flatten().unwrap_or_default();
            account.nonce + (index / LANE) as u64
        };
        let transfer = |index: u32| {
            let at = index as usize;
            // Any account but the sender.
            let to = accounts.address((lane + at % LANE + 1 + at * 7919 % (accounts.len() - 1)) % accounts.len());
            TxEnv {
                tx_type: 2,
                caller: sender(at),
                gas_limit: GAS,
                gas_price: 100,
                gas_priority_fee: Some(3),
                kind: TxKind::Call(to),
                value: U256::from(1 + index),
                data: [memo, &index.to_be_bytes()].concat().into(),
                nonce: nonce(at),
                chain_id: Some(self.0.load().chain_id),
                ..Default::default()
            }
        };
        (0..count).map(transfer).collect()
    }

    /// The batch that a transaction of these clients came in.
    pub(crate) fn batch_of(tx: &Bytes) -> Option<Batch> {
        let tx = TxEnvelope::decode_2718(&mut &tx[..]).ok()?;
        let memo: &[u8; BATCH_MEMO] = tx.input().as_ref().try_into().ok()?;
        let number = |from: usize, to: usize| memo[from..to].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let batch = Batch { author: number(1, 5) as u32, number: number(5, 13), txs: number(13, 17) as u32 };
        (memo[0] == BATCH).then_some(batch)
    }
}

/// Node, turn and number of transactions of an occasion, and their calldata.
fn occasion(sent: &Sent) -> (u32, u64, u32, Vec<u8>) {
    match *sent {
        Sent::Batch(Batch { author, number, txs }) => {
            let memo = [&[BATCH][..], &author.to_be_bytes(), &number.to_be_bytes(), &txs.to_be_bytes()].concat();
            (author, number, txs, memo)
        }
        Sent::Invented { author, view, parent, life, count } => {
            let memo = [&[0][..], &view.to_be_bytes(), &life.to_be_bytes(), parent.0.as_slice()].concat();
            (author, view, count, memo)
        }
        Sent::Instant { view, weight } => (0, view, weight, [&[0][..], &view.to_be_bytes()].concat()),
    }
}
