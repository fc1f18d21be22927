//! Random operations on the pool and on the model, which must answer alike.
//!
//! `PHALANX_FUZZ_SEED` is the first seed, `PHALANX_POOL_CASES` the number of cases.

use super::{
    kit::{World, authorization, recovered, tx, who},
    model::{Gone, Item, Model},
};
use phalanx::{
    RecoveredTx,
    pool::{
        Account, Admission, Batch, Cause, Fees, Load, Policy, Pool, PoolConfig, PooledTx, Refusal, Removed, Settled,
        Tip,
    },
    revm::{
        context::TxEnv,
        context_interface::result::InvalidTransaction,
        primitives::{Address, B256, U256},
    },
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const STEPS: usize = 250;
const SENDERS: u8 = 7;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// Counters of the covered situations, so that a run without coverage is noticed.
#[derive(Debug, Default)]
struct Seen {
    admitted: usize,
    refused: usize,
    taken: usize,
    removed: usize,
    full: usize,
    returned_late: usize,
    /// Transactions that arrived together.
    together: usize,
    /// Transactions that were refused or removed because accounts delegate.
    delegated: usize,
}

/// Both pools, their state, and the transactions that builders and blocks hold.
struct Pair {
    rng: ChaCha8Rng,
    world: World,
    pool: Pool,
    model: Model,
    /// Transactions handed out and not settled for good.
    out: Vec<Arc<PooledTx>>,
    /// Transactions in blocks that may be rewound.
    past: Vec<Arc<PooledTx>>,
    seen: Seen,
}

fn overhead() -> usize {
    let mut pool = Pool::new(PoolConfig::default());
    let one = recovered(&tx(1, 0, 9));
    let _ = pool.add(Arc::clone(&one), &World::default());
    pool.ready_load().bytes - one.size()
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let each = overhead() + recovered(&tx(1, 0, 9)).size();
        let mut room = |most: usize| {
            let txs = rng.random_range(1..most);
            let bytes = if rng.random() { usize::MAX } else { each * rng.random_range(1..most) + each / 2 };
            Load { txs, bytes }
        };
        let (max_ready, max_future) = (room(24), room(9));
        let config = PoolConfig {
            policy: match rng.random_range(0..3) {
                0 => Policy::Arrival,
                _ => Policy::Price { boost: rng.random_range(0..3) },
            },
            max_ready,
            max_future,
            window: rng.random_range(3..12),
            min_tip: rng.random_range(0..2),
            max_age: rng.random_range(4..30),
            ..PoolConfig::default()
        };
        let (world, out, past) = Default::default();
        let (pool, model) = (Pool::new(config), Model::new(config, overhead()));
        Self { rng, world, pool, model, out, past, seen: Seen::default() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below)
    }

    fn random_tx(&mut self) -> TxEnv {
        let from = self.draw(u64::from(SENDERS)) as u8;
        let base = self.world.get(who(from)).nonce;
        let nonce = (base + self.draw(8)).saturating_sub(1);
        let cap = 1 + u128::from(self.draw(30));
        let mut tx = tx(from, nonce, cap);
        if self.rng.random() {
            (tx.tx_type, tx.gas_priority_fee) = (2, Some(u128::from(self.draw(cap as u64 + 1))));
        }
        if self.draw(6) == 0 {
            (tx.tx_type, tx.max_fee_per_blob_gas) = (3, 1 + u128::from(self.draw(6)));
            tx.blob_hashes = vec![B256::with_last_byte(1)];
        }
        if self.draw(10) == 0 {
            tx.tx_type = 4;
            tx.authorization_list = vec![authorization(self.draw(u64::from(SENDERS)) as u8)];
        }
        tx.value = U256::from(self.draw(3));
        tx.data = vec![0; self.draw(300) as usize].into();
        tx.gas_limit = if tx.authorization_list.is_empty() { 30_000 } else { 60_000 };
        tx
    }

    /// Adds one transaction, or several at once: of unknown senders, of known ones, and duplicates among them.
    fn add(&mut self, step: usize) {
        let count = if self.draw(3) == 0 { 1 + self.draw(9) } else { 1 };
        let mut txs: Vec<Arc<RecoveredTx>> = Vec::new();
        for _ in 0..count {
            let mut tx = self.random_tx();
            // Sometimes the same transaction again.
            if self.draw(20) > 0 {
                tx.gas_limit += step as u64;
            }
            let twin = txs.last().filter(|_| self.rng.random_range(0..8) == 0).map(Arc::clone);
            txs.push(twin.unwrap_or_else(|| recovered(&tx)));
        }
        let ours = match &txs[..] {
            [tx] => self.pool.add(Arc::clone(tx), &self.world).map(|admission| vec![admission]),
            txs => self.pool.add_all(txs.iter().map(Arc::clone), &self.world),
        };
        let Ok(ours) = ours;
        assert_eq!(ours.len(), txs.len());
        self.seen.together += usize::from(txs.len() > 1);
        for (tx, ours) in txs.iter().zip(ours) {
            match (ours, self.model.add(tx, &self.world)) {
                (Admission::Admitted { tx, is_ready, removed }, Ok((rank, ready, gone))) => {
                    assert_eq!((tx.rank(), is_ready), (rank, ready));
                    self.same(removed, gone);
                    self.seen.admitted += 1;
                }
                (Admission::Refused(ours), Err(theirs)) => {
                    self.seen.refused += 1;
                    self.seen.full += usize::from(ours == Refusal::Full);
                    let by_rule = matches!(ours, Refusal::OneOfDelegated { .. } | Refusal::AuthorityPending { .. });
                    self.seen.delegated += usize::from(by_rule);
                    assert_eq!(ours, theirs);
                }
                (ours, theirs) => panic!("{ours:?}, expected {theirs:?}"),
            }
        }
    }

    fn same(&mut self, ours: Vec<Removed>, mut theirs: Vec<Gone>) {
        self.seen.removed += ours.len();
        self.seen.delegated += ours.iter().filter(|removed| removed.cause == Cause::SenderDelegates).count();
        let mut ours: Vec<Gone> = ours.into_iter().map(|removed| (removed.tx.rank(), removed.cause)).collect();
        ours.sort_by_key(|(rank, _)| *rank);
        theirs.sort_by_key(|(rank, _)| *rank);
        assert_eq!(ours, theirs);
        self.out.retain(|tx| !ours.iter().any(|(rank, _)| *rank == tx.rank()));
    }

    fn take(&mut self) {
        let batch =
            Batch { max_txs: self.draw(8) as usize, max_of_sender: 1 + self.draw(5) as usize, ..Batch::default() };
        let ours = self.pool.take(&batch);
        let theirs = self.model.take(&batch);
        assert!(ours.iter().map(|tx| tx.rank()).eq(theirs.iter().copied()), "{ours:?}, expected {theirs:?}");
        self.seen.taken += ours.len();
        self.out.extend(ours);
    }

    fn settle(&mut self) {
        let mut outcomes = Vec::new();
        for tx in self.out.clone() {
            let settled = match self.draw(12) {
                0..7 => Settled::Included,
                7 | 8 => Settled::Returned,
                9 => Settled::Invalid(InvalidTransaction::NonceTooHigh { tx: 1, state: 0 }),
                10 => Settled::Invalid(InvalidTransaction::NonceTooLow { tx: 0, state: 1 }),
                _ => Settled::Invalid(InvalidTransaction::RejectCallerWithCode),
            };
            outcomes.push((tx.rank(), settled));
        }
        outcomes.push((u64::MAX, Settled::Returned));
        let theirs = self.model.settle(&outcomes);
        let ours = self.pool.settle(outcomes.iter().cloned());
        self.same(ours, theirs);
        // Transactions that can be handed out again are not with the builder any more.
        let ready: Vec<u64> = self.pool.ready().map(|tx| tx.rank()).collect();
        self.out.retain(|tx| !ready.contains(&tx.rank()));
    }

    fn advance(&mut self) {
        let mut changed: Vec<Address> = Vec::new();
        for from in 0..SENDERS {
            let mut account = self.world.get(who(from));
            match self.draw(6) {
                // The transaction went into a block, or another one of its sender did.
                0 | 1 => {
                    let of = self.out.iter().filter(|tx| tx.tx().caller == who(from)).map(|tx| tx.tx().nonce);
                    let included = of.max().map_or(account.nonce, |nonce| account.nonce.max(nonce + 1));
                    account.nonce = included + u64::from(self.rng.random_range(0..6) == 0);
                }
                2 => account.balance = U256::from(self.rng.random_range(1..40) * 300_000u64),
                3 => account.is_delegated = self.rng.random_range(0..4) == 0,
                _ => {}
            }
            if account != self.world.get(who(from)) {
                changed.push(who(from));
                let nonce = account.nonce;
                let passed = |tx: &Arc<PooledTx>| tx.tx().caller == who(from) && tx.tx().nonce < nonce;
                self.past.extend(self.out.extract_if(.., |tx| passed(tx)));
                self.world.0.insert(who(from), account);
            }
        }
        self.follow(changed, Vec::new());
    }

    fn retreat(&mut self) {
        let mut back = std::mem::take(&mut self.past);
        let keep = self.draw(1 + back.len() as u64) as usize;
        self.past = back.drain(..keep).collect();
        let mut changed = Vec::new();
        for tx in &back {
            let (sender, nonce) = (tx.tx().caller, tx.tx().nonce);
            let account = self.world.get(sender);
            if nonce < account.nonce && self.draw(4) > 0 {
                self.world.0.insert(sender, Account { nonce, ..account });
            }
        }
        if self.rng.random() {
            changed.extend((0..SENDERS).map(who));
        }
        self.seen.returned_late += back.len();
        self.follow(changed, back);
    }

    fn follow(&mut self, changed: Vec<Address>, back: Vec<Arc<PooledTx>>) {
        let fees = Fees { base: u128::from(self.draw(25)), blob: u128::from(self.draw(7)) };
        let now = self.model.now + self.draw(3);
        let items: Vec<Item> =
            back.iter().map(|tx| Item { tx: Arc::clone(tx.recovered()), rank: tx.rank(), born: tx.born() }).collect();
        let theirs = self.model.retreat(now, fees, &changed, &items, &self.world);
        let Ok(ours) = self.pool.retreat(&Tip { now, fees, changed }, back, &self.world);
        self.same(ours, theirs);
        let ready: Vec<u64> = self.pool.ready().map(|tx| tx.rank()).collect();
        self.out.retain(|tx| !ready.contains(&tx.rank()) && self.pool.get(tx.hash()).is_some());
    }

    fn compare(&self) {
        let ours = self.pool.iter().map(|tx| (tx.tx().caller, tx.tx().nonce, tx.rank(), tx.born()));
        let mut theirs: Vec<_> = self.model.items.iter().collect();
        theirs.sort_by_key(|(_, item)| item.rank);
        assert!(ours.eq(theirs.iter().map(|((sender, nonce), item)| (*sender, *nonce, item.rank, item.born))));
        assert_eq!(self.pool.len(), theirs.len());
        assert_eq!(self.pool.ready_load(), self.model.load(true));
        assert_eq!(self.pool.future_load(), self.model.load(false));
        let order: Vec<u64> = self.pool.ready().map(|tx| tx.rank()).collect();
        assert_eq!(order, self.model.order(usize::MAX));
        for (_, item) in theirs {
            assert_eq!(self.pool.get(item.tx.hash()).map(|tx| tx.rank()), Some(item.rank));
        }
    }
}

#[test]
fn any_operations_end_as_in_the_naive_model() {
    let (first, cases) = (number("PHALANX_FUZZ_SEED", 1), number("PHALANX_POOL_CASES", 120));
    let mut sum = Seen::default();
    for seed in first..first + cases {
        // Shown if the case fails.
        println!("seed {seed}");
        let mut pair = Pair::new(seed);
        for step in 0..STEPS {
            match pair.draw(20) {
                0..12 => pair.add(step),
                12..15 => pair.take(),
                15 | 16 => pair.settle(),
                17 | 18 => pair.advance(),
                _ if pair.draw(4) == 0 => {
                    let theirs = pair.model.settle_all_returned();
                    let ours = pair.pool.settle_all_returned();
                    pair.same(ours, theirs);
                    pair.out.clear();
                }
                _ => pair.retreat(),
            }
            pair.compare();
        }
        let Seen { admitted, refused, taken, removed, full, returned_late, together, delegated } = pair.seen;
        sum.admitted += admitted;
        sum.refused += refused;
        sum.taken += taken;
        sum.removed += removed;
        sum.full += full;
        sum.returned_late += returned_late;
        sum.together += together;
        sum.delegated += delegated;
    }
    println!("{sum:?}");
    let each = cases as usize;
    assert!(sum.admitted > 30 * each && sum.refused > 10 * each && sum.taken > 10 * each, "{sum:?}");
    assert!(sum.together > 10 * each && sum.delegated > 5 * each, "{sum:?}");
    assert!(sum.removed > 20 * each && sum.full > each / 2 && sum.returned_late > each / 2, "{sum:?}");
}
