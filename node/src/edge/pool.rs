//! Bytes in flight, of one connection and of all.
//!
//! The first bytes of every connection are its own: small messages pass, however much others hold. What is beyond comes out of a
//! pool that all connections share. Nothing waits here: a caller without room refuses.

use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Notify;

/// Bytes that all connections share.
#[derive(Debug)]
pub(crate) struct Pool {
    max: usize,
    used: AtomicUsize,
}

/// Bytes of one connection.
#[derive(Debug)]
pub(crate) struct Account {
    pool: Arc<Pool>,
    /// Bytes that the pool does not count.
    own: usize,
    /// Maximum of the connection.
    max: usize,
    held: Mutex<usize>,
    /// Notified when bytes come back.
    freed: Notify,
}

/// Bytes that a message holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    account: Arc<Account>,
    bytes: usize,
}

/// No room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// The connection holds too much.
    #[error("the connection holds too many bytes, of at most {max}")]
    Connection { max: usize },
    /// All connections together hold too much.
    #[error("all connections hold too many bytes, of at most {max}: retry later")]
    All { max: usize },
}

impl Pool {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicUsize::new(0) })
    }

    /// Bytes that connections hold beyond their own.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) -> Result<(), Full> {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max);
        let added = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.map(drop).map_err(|_| Full::All { max: self.max })
    }

    fn sub(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Account {
    /// An account with `own` bytes beside the pool, and at most `max` in all.
    pub(crate) fn new(pool: &Arc<Pool>, own: usize, max: usize) -> Arc<Self> {
        Arc::new(Self { pool: Arc::clone(pool), own, max, held: Mutex::new(0), freed: Notify::new() })
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// [`Full`]: nothing is taken.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Result<Held, Full> {
        let mut held = self.empty();
        held.grow(bytes)?;
        Ok(held)
    }

    /// Holds nothing yet.
    pub(crate) fn empty(self: &Arc<Self>) -> Held {
        Held { account: Arc::clone(self), bytes: 0 }
    }

    /// Bytes that the connection holds.
    pub(crate) fn held(&self) -> usize {
        *self.held.lock()
    }

    /// Waits until the connection holds at most so many bytes.
    pub(crate) async fn at_most(&self, bytes: usize) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.held() <= bytes {
                return;
            }
            freed.await;
        }
    }
}

impl Held {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes further bytes.
    ///
    /// # Errors
    /// [`Full`]: what was held before still is.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let account = &*self.account;
        let mut held = account.held.lock();
        let after = held.checked_add(bytes).filter(|after| *after <= account.max);
        let after = after.ok_or(Full::Connection { max: account.max })?;
        account.pool.add(after.saturating_sub(account.own) - held.saturating_sub(account.own))?;
        *held = after;
        drop(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back all but so many bytes.
    pub(crate) fn shrink(&mut self, to: usize) {
        let back = self.bytes.saturating_sub(to);
        if back == 0 {
            return;
        }
        let account = &*self.account;
        let mut held = account.held.lock();
        let after = *held - back;
        account.pool.sub(held.saturating_sub(account.own) - after.saturating_sub(account.own));
        *held = after;
        drop(held);
        self.bytes -= back;
        account.freed.notify_waiters();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn a_connection_has_bytes_of_its_own_beside_a_full_pool() {
        let pool = Pool::new(100);
        let (greedy, small) = (Account::new(&pool, 10, 1_000), Account::new(&pool, 10, 1_000));
        let all = greedy.take(110).expect("its own, and the pool");
        assert_eq!(pool.used(), 100);
        assert_eq!(greedy.take(1).unwrap_err(), Full::All { max: 100 });
        let mut own = small.take(10).expect("its own");
        assert_eq!(own.grow(1), Err(Full::All { max: 100 }));
        assert_eq!((own.bytes(), small.held()), (10, 10), "a refusal changes nothing");
        drop(all);
        assert_eq!((pool.used(), greedy.held()), (0, 0));
        assert_eq!(own.grow(1), Ok(()));
        assert_eq!(pool.used(), 1);
    }

    #[test]
    fn a_connection_has_a_bound_of_its_own() {
        let pool = Pool::new(1_000);
        let account = Account::new(&pool, 0, 50);
        let mut held = account.take(50).expect("room");
        assert_eq!(held.grow(1), Err(Full::Connection { max: 50 }));
        assert_eq!(account.take(usize::MAX).unwrap_err(), Full::Connection { max: 50 });
        held.shrink(49);
        held.shrink(60);
        assert_eq!((held.bytes(), pool.used()), (49, 49));
        assert!(account.take(1).is_ok());
    }

    #[test]
    fn the_books_are_even_after_any_sequence() {
        let seed = 7;
        println!("seed {seed}");
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let pool = Pool::new(500);
        let accounts: Vec<_> = (0..4).map(|_| Account::new(&pool, 30, 300)).collect();
        let mut all: Vec<(usize, Held)> = Vec::new();
        for _ in 0..10_000 {
            let place = rng.random_range(0..accounts.len());
            match rng.random_range(0..4) {
                0 => all.extend(accounts[place].take(rng.random_range(0..120)).ok().map(|held| (place, held))),
                1 if !all.is_empty() => drop(all.swap_remove(rng.random_range(0..all.len()))),
                2 if !all.is_empty() => {
                    let index = rng.random_range(0..all.len());
                    let _ = all[index].1.grow(rng.random_range(0..50));
                }
                _ if !all.is_empty() => {
                    let index = rng.random_range(0..all.len());
                    all[index].1.shrink(rng.random_range(0..120));
                }
                _ => {}
            }
            let held = |place| all.iter().filter(|(of, _)| *of == place).map(|(_, held)| held.bytes()).sum::<usize>();
            let beyond: usize = (0..accounts.len()).map(|place| held(place).saturating_sub(30)).sum();
            assert_eq!(pool.used(), beyond, "seed {seed}");
            assert!(beyond <= 500 && (0..accounts.len()).all(|place| held(place) == accounts[place].held()));
        }
        all.clear();
        assert_eq!(pool.used(), 0);
    }

    #[tokio::test]
    async fn a_reader_waits_until_bytes_come_back() {
        let account = Account::new(&Pool::new(100), 0, 100);
        let held = account.take(60).expect("room");
        account.at_most(60).await;
        let waiting = account.at_most(59);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), &mut waiting).await.is_err());
        drop(held);
        waiting.await;
    }
}
