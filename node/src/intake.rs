//! Transactions that clients send, from every way in: one queue, and workers that admit all that waits at once.
//!
//! A worker takes what waits, recovers the signatures side by side, and admits all under one lock of the pool. There is no timer:
//! a worker is woken once the connections that have something to read have been read, and what arrives meanwhile is the next batch.
//! So a transaction that comes alone is taken at once, and those that come together together. A few that meet idle workers are admitted
//! by the thread that has read them: to wake another one, and to be woken by it, costs as much as half a signature.
//!
//! The first worker takes anything;
//! a further one takes many only, so that the lanes of a recovery are full. Workers recover at the same time, and admit in the
//! order in which they took: the transactions of a sender reach the pool as they arrived.

use crate::{
    chain::Chain,
    error::NodeError,
    exit::Exit,
    raw,
    upstream::{Upstream, UpstreamError},
};
use alloy_primitives::{B256, Bytes};
use parking_lot::{Condvar, Mutex};
use phalanx::{
    Recovered, SendError,
    alloy::consensus::TxType,
    api::Failure,
    pool::{Admission, Refusal},
};
use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};
use tokio::sync::{Notify, oneshot};

/// Maximum number of transactions that are admitted at once.
const BATCH: usize = 4_096;

/// Maximum number of transactions that the thread of a connection admits by itself: two groups of lanes, which take it less than a
/// tenth of a millisecond.
const FEW: usize = 16;

/// Maximum number of their bytes.
const FEW_BYTES: usize = 64 << 10;

/// Number of waiting transactions that is worth a further worker.
const MANY: usize = 512;

/// Maximum number of workers.
const WORKERS: usize = 8;

/// Bounds of the transactions that wait, or are being admitted.
const BOUNDS: Bounds = Bounds { txs: 1 << 16, bytes: 64 << 20 };

/// Maximum number of transactions and of their bytes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    txs: usize,
    bytes: usize,
}

/// Fate of an offered transaction: its hash, or the reason why it is not in the pool.
pub(crate) type Fate = Result<B256, Unadmitted>;

/// Reason why an offered transaction is not in the pool.
#[derive(Debug)]
pub(crate) enum Unadmitted {
    /// The transaction did not reach the rules of the pool.
    Unsent(SendError),
    /// The pool refuses it.
    Refused(Refusal),
    /// The node that this one follows does not take it.
    Upstream(UpstreamError),
    /// The hash that this node has for it is another one.
    Misnamed(B256),
}

/// Reason why an offer has no fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoFate {
    #[error("too many transactions wait to be admitted: retry later")]
    Full,
    #[error("the admission panicked; see the node's log")]
    Panicked,
}

/// The queue and its workers, which end when it is dropped.
pub(crate) struct Intake {
    queue: Arc<Queue>,
    /// Admits a batch on the caller's thread.
    admit: Box<AdmitFew>,
    workers: Vec<JoinHandle<()>>,
}

type AdmitFew = dyn Fn(Vec<Offer>, Turn<'_>) + Send + Sync;

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Intake {
    /// Starts the workers of a pool.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(chain: Arc<Chain>, exit: Exit) -> Result<Self, NodeError> {
        if let Some(upstream) = exit.upstream() {
            return Self::of(&Arc::new(upstream.clone()), 1, BOUNDS);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::of(&Arc::new(Door { chain, exit }), cores.min(WORKERS), BOUNDS)
    }

    fn of<P: Pool>(pool: &Arc<P>, workers: usize, bounds: Bounds) -> Result<Self, NodeError> {
        let queue = Arc::new(Queue::new(bounds, if pool.waits() { 0 } else { FEW }));
        let own = Arc::clone(pool);
        let few = move |offers, turn: Turn<'_>| guarded(|| admit(&*own, offers, turn, On::Connection));
        let mut intake = Self { queue: Arc::clone(&queue), admit: Box::new(few), workers: Vec::new() };
        for number in 0..workers {
            let (queue, pool) = (Arc::clone(&queue), Arc::clone(pool));
            let least = if number == 0 { 1 } else { MANY };
            let thread = std::thread::Builder::new().name("phalanx-admit".into());
            intake.workers.push(thread.spawn(move || queue.work(&*pool, least)).map_err(NodeError::Threads)?);
        }
        Ok(intake)
    }

    /// Offers transactions at once; their fates follow, in order. Nothing is offered that has no room. A worker is woken behind the other
    /// connections that can be read now, so that it takes theirs as well.
    ///
    /// # Errors
    /// [`NoFate::Full`], for all of them.
    pub(crate) async fn offer(&self, txs: Vec<Bytes>) -> Result<Fates, NoFate> {
        let (reply, fates) = oneshot::channel();
        let mut woken = self.queue.push(Offer { txs, reply }, 1)?;
        if woken.is_needed() {
            // The runtime comes back once it has run all tasks that can run. To look for more a second time brings nothing.
            tokio::task::yield_now().await;
        }
        if woken.first {
            match self.queue.take_few() {
                Waits::Nothing => woken.first = false,
                Waits::Few(offers, turn) => {
                    woken.first = false;
                    (self.admit)(offers, turn);
                }
                Waits::Many => {}
            }
        }
        drop(woken);
        Ok(Fates(fates))
    }

    /// Offers transactions once half of the queue has room for them: many that come together leave room for single ones.
    pub(crate) async fn offer_in_turn(&self, txs: Vec<Bytes>) -> Fates {
        let (reply, fates) = oneshot::channel();
        let mut offer = Offer { txs, reply };
        loop {
            let freed = self.queue.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.queue.try_push(offer, 2) {
                Ok(_) => return Fates(fates),
                Err(refused) => offer = refused,
            }
            freed.await;
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.queue.waiting.lock().has_ended = true;
        self.queue.bell.notify_all();
        self.queue.many.notify_all();
        for worker in self.workers.drain(..) {
            // A panic was caught and logged.
            let _ = worker.join();
        }
    }
}

/// Fates of the transactions of an offer, once they are there.
#[derive(Debug)]
pub(crate) struct Fates(oneshot::Receiver<Vec<Fate>>);

impl Fates {
    /// The fates, if they are there.
    pub(crate) fn ready(&mut self) -> Option<Result<Vec<Fate>, NoFate>> {
        match self.0.try_recv() {
            Ok(fates) => Some(Ok(fates)),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(NoFate::Panicked)),
        }
    }

    /// # Errors
    /// [`NoFate::Panicked`], for all of them.
    pub(crate) async fn all(self) -> Result<Vec<Fate>, NoFate> {
        self.0.await.map_err(|_| NoFate::Panicked)
    }
}

/// A pool, as the queue sees it.
trait Pool: Send + Sync + 'static {
    /// True if recovery or admission waits for anything but the processor and the lock of the pool.
    fn waits(&self) -> bool;

    type Recovered;

    /// Recovers senders. Runs on many threads at once.
    fn recover(&self, txs: &[&Bytes]) -> Self::Recovered;

    /// Admits what was recovered from `txs`. Runs on one thread at a time, in order.
    fn admit(&self, txs: &[&Bytes], recovered: Self::Recovered) -> Vec<Fate>;

    /// Does [`Self::admit`], unless that would wait for the lock of the pool.
    ///
    /// # Errors
    /// What was recovered.
    fn try_admit(&self, txs: &[&Bytes], recovered: Self::Recovered) -> Result<Vec<Fate>, Self::Recovered>;
}

/// Pool of the service, and the way out of it.
#[derive(Debug)]
struct Door {
    chain: Arc<Chain>,
    exit: Exit,
}

impl Door {
    /// Announces and passes on what the pool has admitted.
    fn fates(&self, txs: &[&Bytes], admissions: Result<Vec<Result<Admission, SendError>>, Failure>) -> Vec<Fate> {
        let admissions = match admissions {
            Ok(admissions) => admissions,
            Err(failure) => {
                return txs.iter().map(|_| Err(Unadmitted::Unsent(failure.clone().into()))).collect();
            }
        };
        let (mut passed, mut fates) = (Vec::with_capacity(txs.len()), Vec::with_capacity(txs.len()));
        for (admission, tx) in admissions.into_iter().zip(txs) {
            fates.push(match admission {
                Ok(Admission::Admitted { tx: of, .. })
                    if !of.tx().blob_hashes.is_empty() && !self.exit.takes_blobs() =>
                {
                    self.chain.service.forget(of.hash());
                    Err(Unadmitted::Unsent(SendError::Blobs))
                }
                Ok(Admission::Admitted { tx: admitted, .. }) => {
                    let hash = *admitted.hash();
                    self.chain.announce(admitted);
                    passed.push(*tx);
                    Ok(hash)
                }
                Ok(Admission::Refused(refusal)) => Err(Unadmitted::Refused(refusal)),
                Err(error) => Err(Unadmitted::Unsent(error)),
            });
        }
        self.exit.pass(&passed);
        fates
    }
}

impl Pool for Door {
    type Recovered = Recovered;

    /// A remote state is read for senders.
    fn waits(&self) -> bool {
        self.chain.remote.is_some()
    }

    fn recover(&self, txs: &[&Bytes]) -> Recovered {
        self.chain.service.recover(txs)
    }

    fn admit(&self, txs: &[&Bytes], recovered: Recovered) -> Vec<Fate> {
        self.fates(txs, self.chain.service.admit(recovered))
    }

    fn try_admit(&self, txs: &[&Bytes], recovered: Recovered) -> Result<Vec<Fate>, Recovered> {
        Ok(self.fates(txs, self.chain.service.try_admit(recovered)?))
    }
}

/// The node that this one follows takes transactions instead of the pool, and names each by its hash.
impl Pool for Upstream {
    type Recovered = ();

    fn waits(&self) -> bool {
        true
    }

    fn recover(&self, _: &[&Bytes]) {}

    fn admit(&self, txs: &[&Bytes], (): ()) -> Vec<Fate> {
        let fate = |(said, tx): (Result<B256, UpstreamError>, &&Bytes)| {
            let said = said.map_err(Unadmitted::Upstream)?;
            raw::hash_of(tx).filter(|hash| *hash == said).ok_or(Unadmitted::Misnamed(said))
        };
        self.send(txs).into_iter().zip(txs).map(fate).collect()
    }

    fn try_admit(&self, _: &[&Bytes], (): ()) -> Result<Vec<Fate>, ()> {
        Err(())
    }
}

/// Transactions of one request, which share its answer.
#[derive(Debug)]
struct Offer {
    txs: Vec<Bytes>,
    reply: oneshot::Sender<Vec<Fate>>,
}

impl Offer {
    fn bytes(&self) -> usize {
        self.txs.iter().map(|tx| tx.len()).sum()
    }
}

#[derive(Debug)]
struct Queue {
    bounds: Bounds,
    /// Maximum number of transactions that the thread of a connection admits.
    few: usize,
    waiting: Mutex<Waiting>,
    /// Notified when something waits, or the queue ends: for the first worker.
    bell: Condvar,
    /// Notified when many wait, or the queue ends: for the further workers, which a lone transaction does not wake.
    many: Condvar,
    /// Number of the batch that is admitted next.
    turn: Mutex<u64>,
    turned: Condvar,
    /// Notified when there is more room.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    offers: VecDeque<Offer>,
    /// Number of transactions in `offers`.
    txs: usize,
    /// Transactions and bytes that wait or are being admitted.
    held: (usize, usize),
    /// Number of batches that were taken.
    taken: u64,
    has_ended: bool,
}

impl Waiting {
    /// True if no transaction that waits has blobs, whose proofs take milliseconds, and none is long.
    fn is_quick(&self) -> bool {
        let blobs = |tx: &Bytes| tx.first() == Some(&(TxType::Eip4844 as u8));
        let bytes: usize = self.offers.iter().map(Offer::bytes).sum();
        bytes <= FEW_BYTES && !self.offers.iter().flat_map(|offer| &offer.txs).any(blobs)
    }
}

impl Queue {
    fn new(bounds: Bounds, few: usize) -> Self {
        Self {
            bounds,
            few,
            waiting: Mutex::default(),
            bell: Condvar::new(),
            many: Condvar::new(),
            turn: Mutex::default(),
            turned: Condvar::new(),
            freed: Notify::new(),
        }
    }

    /// Adds an offer if this share of the queue has room for it. The workers that it needs are woken once the result is dropped.
    fn push(&self, offer: Offer, share: usize) -> Result<Woken<'_>, NoFate> {
        self.try_push(offer, share).map_err(|_| NoFate::Full)
    }

    /// Does [`Self::push`], or gives the offer back.
    fn try_push(&self, offer: Offer, share: usize) -> Result<Woken<'_>, Offer> {
        if offer.txs.is_empty() {
            // An error means that the client has gone.
            let _ = offer.reply.send(Vec::new());
            return Ok(Woken { queue: self, first: false, further: false });
        }
        let mut waiting = self.waiting.lock();
        let held = (waiting.held.0 + offer.txs.len(), waiting.held.1 + offer.bytes());
        if held.0 > self.bounds.txs / share || held.1 > self.bounds.bytes / share {
            return Err(offer);
        }
        waiting.held = held;
        let before = waiting.txs;
        waiting.txs += offer.txs.len();
        waiting.offers.push_back(offer);
        let (first, further) = (before == 0, before < MANY && waiting.txs >= MANY);
        // A worker that wakes finds the lock free.
        drop(waiting);
        Ok(Woken { queue: self, first, further })
    }

    /// Admits what waits, if there are at least so many, until the queue ends. One worker takes any number.
    fn work<P: Pool>(&self, pool: &P, least: usize) {
        while let Some((offers, turn)) = self.take(least) {
            guarded(|| admit(pool, offers, turn, On::Worker));
        }
    }

    /// Takes all that waits if it is little and no worker is about to admit.
    fn take_few(&self) -> Waits<'_> {
        let waiting = &mut *self.waiting.lock();
        if waiting.txs == 0 {
            Waits::Nothing
        } else if waiting.txs > self.few || !waiting.is_quick() || *self.turn.lock() != waiting.taken {
            Waits::Many
        } else {
            let (offers, turn) = self.take_batch(waiting);
            Waits::Few(offers, turn)
        }
    }

    /// Takes the offers that wait, up to a batch.
    fn take(&self, least: usize) -> Option<(Vec<Offer>, Turn<'_>)> {
        let waiting = &mut self.waiting.lock();
        let bell = if least > 1 { &self.many } else { &self.bell };
        bell.wait_while(waiting, |waiting| !waiting.has_ended && waiting.txs < least);
        (waiting.txs >= least).then(|| self.take_batch(waiting))
    }

    fn take_batch(&self, waiting: &mut Waiting) -> (Vec<Offer>, Turn<'_>) {
        let (mut offers, mut txs, mut bytes) = (Vec::new(), 0, 0);
        while let Some(offer) = waiting.offers.pop_front_if(|offer| txs == 0 || txs + offer.txs.len() <= BATCH) {
            txs += offer.txs.len();
            bytes += offer.bytes();
            offers.push(offer);
        }
        waiting.txs -= txs;
        let number = waiting.taken;
        waiting.taken += 1;
        (offers, Turn { queue: self, number, held: (txs, bytes) })
    }
}

/// Transactions that wait, as a connection finds them.
enum Waits<'q> {
    Nothing,
    /// These alone, and their turn has come.
    Few(Vec<Offer>, Turn<'q>),
    /// Work for a worker.
    Many,
}

/// Workers that an offer needs. They are woken when this is dropped, whatever has become of the client meanwhile.
#[must_use = "the workers are woken when it is dropped"]
struct Woken<'q> {
    queue: &'q Queue,
    first: bool,
    further: bool,
}

impl Woken<'_> {
    /// True if a worker may sleep, and has to be woken. Without it the worker comes by itself.
    const fn is_needed(&self) -> bool {
        self.first || self.further
    }
}

impl Drop for Woken<'_> {
    fn drop(&mut self) {
        if self.first {
            self.queue.bell.notify_one();
        }
        if self.further {
            self.queue.many.notify_all();
        }
    }
}

/// Place of a batch in the order of admission, and its room in the queue. The next one follows once it is dropped.
struct Turn<'q> {
    queue: &'q Queue,
    number: u64,
    held: (usize, usize),
}

impl Turn<'_> {
    /// Waits until all earlier batches are admitted.
    fn come(&self) {
        let mut turn = self.queue.turn.lock();
        self.queue.turned.wait_while(&mut turn, |turn| *turn != self.number);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Also where the recovery has panicked.
        self.come();
        *self.queue.turn.lock() += 1;
        self.queue.turned.notify_all();
        let waiting = &mut *self.queue.waiting.lock();
        waiting.held = (waiting.held.0 - self.held.0, waiting.held.1 - self.held.1);
        self.queue.freed.notify_waiters();
    }
}

/// Thread that admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Worker,
    /// One of the runtime, which has other connections to read.
    Connection,
}

/// Ends a panic, which is a bug of the node: the clients get an error, and the node goes on.
fn guarded(act: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(act));
}

fn admit<P: Pool>(pool: &P, offers: Vec<Offer>, turn: Turn<'_>, on: On) {
    let txs: Vec<&Bytes> = offers.iter().flat_map(|offer| &offer.txs).collect();
    let recovered = pool.recover(&txs);
    turn.come();
    let fates = match on {
        On::Worker => pool.admit(&txs, recovered),
        // While this thread waits, another one reads its connections.
        On::Connection => pool
            .try_admit(&txs, recovered)
            .unwrap_or_else(|recovered| tokio::task::block_in_place(|| pool.admit(&txs, recovered))),
    };
    let mut fates = fates.into_iter();
    drop(turn);
    for Offer { txs, reply } in offers {
        // An error means that the client has gone.
        let _ = reply.send(fates.by_ref().take(txs.len()).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Condvar;
    use std::time::Duration;

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
                assert!(
                    core::future::poll_fn(|cx| core::task::Poll::Ready(first.as_mut().poll(cx).is_pending())).await
                );
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
}
