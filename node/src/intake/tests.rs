use super::{
    admission::{BOUNDS, FEW, Intake},
    door::Pool,
    fate::{Fate, NoFate},
    queue::{BATCH, Bounds, FEW_BYTES, Offer},
};
use alloy_primitives::{B256, Bytes};
use parking_lot::{Condvar, Mutex};
use phalanx::alloy::consensus::TxType;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// A pool that records the batches. The first byte of a transaction says what becomes of it.
#[derive(Debug, Default)]
struct Recorder {
    batches: Mutex<Vec<Vec<Bytes>>>,
    /// Names of the threads that have admitted.
    threads: Mutex<Vec<String>>,
    is_open: Mutex<bool>,
    opened: Condvar,
    /// True if the lock of the pool is never free at once.
    is_locked: bool,
}

const BOOM: u8 = 0xff;

impl Recorder {
    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }

    fn all(&self) -> Vec<Bytes> {
        self.batches.lock().concat()
    }
}

impl Pool for Recorder {
    type Recovered = usize;

    fn waits(&self) -> bool {
        false
    }

    fn recover(&self, txs: &[&Bytes]) -> usize {
        self.opened.wait_while(&mut self.is_open.lock(), |is_open| !*is_open);
        // Batches that were taken later are ready sooner.
        std::thread::sleep(Duration::from_micros(u64::from(txs[0][0] % 7) * 100));
        assert!(txs.iter().all(|tx| tx[0] != BOOM), "a panic");
        txs.len()
    }

    fn admit(&self, txs: &[&Bytes], recovered: usize) -> Vec<Fate> {
        assert_eq!(recovered, txs.len());
        self.batches.lock().push(txs.iter().copied().cloned().collect());
        self.threads.lock().push(std::thread::current().name().unwrap_or_default().to_owned());
        txs.iter().map(|tx| Ok(B256::left_padding_from(&tx[..tx.len().min(32)]))).collect()
    }

    fn try_admit(&self, txs: &[&Bytes], recovered: usize) -> Result<Vec<Fate>, usize> {
        if self.is_locked { Err(recovered) } else { Ok(self.admit(txs, recovered)) }
    }
}

/// Calls `act` on a thread of a runtime with so many.
fn on_runtime<R: Send + 'static>(threads: usize, act: impl Future<Output = R> + Send + 'static) -> R {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).thread_name("io").enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::spawn(act).await.expect("no panic") })
}

fn tx(first: u8, number: u32) -> Bytes {
    [&[first][..], &number.to_be_bytes()].concat().into()
}

/// Offers transactions, without waiting for their fates.
fn offer(intake: &Intake, txs: Vec<Bytes>) -> Result<oneshot::Receiver<Vec<Fate>>, NoFate> {
    let (reply, fates) = oneshot::channel();
    drop(intake.queue.push(Offer { txs, reply }, 1)?);
    Ok(fates)
}

fn hashes(fates: oneshot::Receiver<Vec<Fate>>) -> Option<Vec<B256>> {
    let fates = fates.blocking_recv().ok()?;
    Some(fates.into_iter().map(|fate| fate.expect("the pool admits everything")).collect())
}

#[test]
fn many_workers_admit_in_the_order_of_arrival() {
    let pool = Arc::new(Recorder::default());
    pool.open();
    let intake = Intake::of(&pool, 4, BOUNDS).expect("threads");
    let all: Vec<Vec<_>> = (0..200u32).map(|n| (0..=n % 300).map(|m| tx((n % 250) as u8, m)).collect()).collect();
    let fates: Vec<_> = all.iter().map(|txs| offer(&intake, txs.clone()).expect("room")).collect();
    for (txs, fates) in all.iter().zip(fates) {
        let wanted: Vec<_> = txs.iter().map(|tx| B256::left_padding_from(tx)).collect();
        assert_eq!(hashes(fates), Some(wanted));
    }
    assert_eq!(pool.all(), all.concat());
    assert!(pool.batches.lock().iter().all(|batch| batch.len() <= BATCH));
    assert_eq!(intake.queue.waiting.lock().held, (0, 0));
}

#[test]
fn what_waits_meanwhile_is_one_batch() {
    let pool = Arc::new(Recorder::default());
    let intake = Intake::of(&pool, 1, BOUNDS).expect("threads");
    let fates: Vec<_> = (0..100).map(|n| offer(&intake, vec![tx(0, n)]).expect("room")).collect();
    pool.open();
    assert!(fates.into_iter().all(|fates| hashes(fates).is_some()));
    let sizes: Vec<_> = pool.batches.lock().iter().map(Vec::len).collect();
    assert!(sizes.iter().sum::<usize>() == 100 && sizes.len() <= 2, "{sizes:?}");
}

#[test]
fn a_full_queue_refuses_at_once_and_has_room_again() {
    let pool = Arc::new(Recorder::default());
    let intake = Intake::of(&pool, 1, Bounds { txs: 10, bytes: 1_000 }).expect("threads");
    let some = |count: u32| (0..count).map(|n| tx(0, n)).collect();
    let first = offer(&intake, some(8)).expect("room");
    assert_eq!(offer(&intake, some(3)).err(), Some(NoFate::Full), "also while the first ones are recovered");
    assert_eq!(offer(&intake, vec![vec![0; 1_000].into()]).err(), Some(NoFate::Full));
    pool.open();
    assert_eq!(hashes(first).map(|hashes| hashes.len()), Some(8));
    let second = offer(&intake, some(10)).expect("room again");
    assert_eq!(hashes(second).map(|hashes| hashes.len()), Some(10));
    assert_eq!(pool.all().len(), 18);
}

#[test]
fn many_leave_half_of_the_queue_to_single_ones() {
    let pool = Arc::new(Recorder::default());
    let intake = Intake::of(&pool, 1, Bounds { txs: 10, bytes: 1_000 }).expect("threads");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let some = |count: u32| (0..count).map(|n| tx(0, n)).collect::<Vec<_>>();
        let first = intake.offer_in_turn(some(5)).await;
        // A worker has them, so that no connection does its work.
        while intake.queue.waiting.lock().taken == 0 {
            std::thread::yield_now();
        }
        let second = intake.offer_in_turn(some(1));
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err(), "half is taken");
        let mut single = intake.offer(some(5)).await.expect("the other half");
        assert!(single.ready().is_none());
        pool.open();
        assert_eq!(first.all().await.expect("fates").len(), 5);
        assert_eq!(second.await.all().await.expect("fates").len(), 1);
        assert_eq!(single.all().await.expect("fates").len(), 5);
        assert!(intake.offer_in_turn(Vec::new()).await.ready().expect("at once").expect("fates").is_empty());
    });
}

#[test]
fn few_are_admitted_by_the_thread_that_has_read_them_and_together() {
    for is_locked in [false, true] {
        let pool = Arc::new(Recorder { is_locked, ..Recorder::default() });
        pool.open();
        let intake = Arc::new(Intake::of(&pool, 2, BOUNDS).expect("threads"));
        let offered = Arc::clone(&intake);
        on_runtime(1, async move {
            let offer = |n: u32| {
                let intake = Arc::clone(&offered);
                tokio::spawn(async move { intake.offer(vec![tx(1, n)]).await.expect("room").all().await })
            };
            let all: Vec<_> = (0..8).map(offer).collect();
            for (n, fates) in (0..).zip(all) {
                let fates = fates.await.expect("no panic").expect("fates");
                assert!(matches!(fates[..], [Ok(hash)] if hash == B256::left_padding_from(&tx(1, n))));
            }
            let many: Vec<_> = (0..=FEW as u32).map(|n| tx(2, n)).collect();
            let long = [&tx(1, 0)[..], &[0; FEW_BYTES]].concat().into();
            for slow in [many, vec![tx(TxType::Eip4844 as u8, 0)], vec![long]] {
                let count = slow.len();
                let fates = offered.offer(slow).await.expect("room").all().await.expect("fates");
                assert_eq!(fates.len(), count);
            }
        });
        let threads = pool.threads.lock().clone();
        let (few, slow) = threads.split_at(threads.len() - 3);
        assert!(slow.iter().all(|name| name == "phalanx-admit"), "for a worker: {slow:?}");
        assert!(few.iter().all(|name| name == "io"), "{few:?}");
        assert!(few.len() <= 2, "what is read together is admitted together: {few:?}");
        assert_eq!(intake.queue.waiting.lock().held, (0, 0));
    }
}

#[test]
fn a_client_that_goes_between_its_offer_and_its_turn_takes_nothing_with_it() {
    let pool = Arc::new(Recorder::default());
    pool.open();
    let intake = Arc::new(Intake::of(&pool, 1, BOUNDS).expect("threads"));
    let offered = Arc::clone(&intake);
    on_runtime(1, async move {
        {
            let first = offered.offer(vec![tx(1, 0)]);
            tokio::pin!(first);
            // It has offered, and lets others read.
            assert!(core::future::poll_fn(|cx| core::task::Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
        }
        let fates = offered.offer(vec![tx(1, 1)]).await.expect("room").all().await.expect("fates");
        assert_eq!(fates.len(), 1);
    });
    drop(intake);
    assert_eq!(pool.all(), [tx(1, 0), tx(1, 1)]);
}

#[test]
fn a_panic_is_an_error_of_its_batch_alone() {
    let pool = Arc::new(Recorder::default());
    pool.open();
    let intake = Intake::of(&pool, 2, BOUNDS).expect("threads");
    assert_eq!(hashes(offer(&intake, vec![tx(BOOM, 0)]).expect("room")), None);
    assert!(hashes(offer(&intake, vec![tx(1, 0)]).expect("room")).is_some(), "it goes on");
    assert_eq!(intake.queue.waiting.lock().held, (0, 0));
}

#[test]
fn what_waits_is_admitted_before_the_end() {
    let pool = Arc::new(Recorder::default());
    let intake = Intake::of(&pool, 2, BOUNDS).expect("threads");
    let fates = offer(&intake, vec![tx(1, 0)]).expect("room");
    pool.open();
    drop(intake);
    assert!(hashes(fates).is_some());
}
