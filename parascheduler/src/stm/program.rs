//! Interface of a Block-STM run: the program that a caller implements, and the view of the state that it executes on.

use super::{
    chain::{Found, Reader, Write},
    memory::Memory,
    shaker::{Point, Shaker},
};
use crate::{dag::TxIndex, idle::Idle, sync::AtomicBool};
use core::fmt;
use phalanx_access::{Key, KeyId};
use std::sync::atomic::Ordering;

/// Program of a Block-STM run: transactions that read and write a state by key. Knows no EVM.
///
/// An execution must be a function of the transaction and of the values it reads. Then equal values mean an equal outcome;
/// the run relies on nothing else.
///
/// No function here may wait for a task of the [`Workers`](crate::workers::Workers) that run it, as rayon's iterators and
/// joins do. Meanwhile the thread could become another worker of the same run, which ends only with the run.
pub trait Program: Sync {
    /// Full name of a piece of state. Compared in full; the digest only finds the place.
    type Key: Key + Send + Sync;
    /// Whole value of a key. Cloned at every read, so it should be small or shared.
    type Value: Clone + PartialEq + Send + Sync;
    /// Commutative addition to a value. Two credits of a key do not conflict.
    type Credit: Clone + PartialEq + Send + Sync;
    /// Output of a transaction beside its writes: result, logs, gas.
    type Output: Send;
    /// Error of reading the state before the run.
    type Error: Send;
    /// State that each worker owns: an EVM, scratch buffers.
    type Local: Send;

    /// Returns the value of `key` before the run.
    ///
    /// Called from any worker, once per key unless it fails, under a lock that only readers of the same key wait for.
    ///
    /// # Errors
    /// If the state cannot be read. That ends the run only if the transaction needs the key at its place in the order; a failed
    /// speculative execution is repeated there.
    fn base(&self, key: &Self::Key) -> Result<Self::Value, Self::Error>;

    /// Returns true if [`Self::base`] may have to wait, as for a disk. Then workers read only what is at hand, and a thread of
    /// the run reads the rest beside them, with [`Self::read_apart`]. Called once per run.
    fn reads_apart(&self) -> bool {
        false
    }

    /// Returns the value of `key` before the run if that needs no wait. Called from any worker, by several at a time.
    ///
    /// # Errors
    /// As [`Self::base`].
    fn at_hand(&self, key: &Self::Key) -> Result<Option<Self::Value>, Self::Error> {
        self.base(key).map(Some)
    }

    /// Hands those keys to `name` that transaction `index` probably reads, as far as that is known without running it. Where it
    /// waits for one value, these are read along with it, so that it does not wait for each.
    fn named(&self, index: TxIndex, name: &mut dyn FnMut(&Self::Key)) {
        let _ = (index, name);
    }

    /// Reads the values of keys that are not at hand, and hands each to `found`. It may hand over values of other keys too: of
    /// those that it had to read anyway. A key without a value is read again by a transaction that needs it, which reports the
    /// error, and from then on every worker reads by itself.
    fn read_apart(&self, keys: &[Self::Key], found: &mut dyn FnMut(&Self::Key, Self::Value)) {
        for key in keys {
            if let Ok(value) = self.base(key) {
                found(key, value);
            }
        }
    }

    /// Called first on the thread that calls [`Self::read_apart`].
    fn reader_begins(&self) {}

    /// Returns `value` after `credit`, or [`None`] if that overflows. The order of credits must not matter.
    fn credited(&self, value: &Self::Value, credit: &Self::Credit) -> Option<Self::Value>;

    /// Returns a key that most transactions credit and few read, such as a fee's receiver. Called once per run.
    ///
    /// A credit to it stays with its transaction and is added when that is final, so that its versions do not go from worker
    /// to worker. A transaction that reads it waits until all lower transactions are final.
    fn tally(&self) -> Option<Self::Key> {
        None
    }

    /// Executes transaction `index` on `view` and returns its writes. May be called several times for an index, on several
    /// workers one after the other, until one outcome is committed.
    ///
    /// Reads may come from a state that never existed: an execution must end and must not panic on any values. An execution
    /// that may run long without a read should poll [`View::check`].
    ///
    /// # Errors
    /// Only an [`Interrupt`] that this `view` gave. Swallowing one does no harm: the view remembers it.
    fn execute(
        &self,
        local: &mut Self::Local,
        index: TxIndex,
        view: &mut View<'_, Self>,
    ) -> Result<Execution<Self>, Interrupt>;

    /// Inspects the final outcome of `index`. May end the run here, for a gas or size limit or an invalid transaction.
    ///
    /// Called in order, by one worker at a time; outcomes of stale executions are not shown.
    fn commit(&self, index: TxIndex, output: &Self::Output) -> Commit {
        let _ = (index, output);
        Commit::Continue
    }
}

/// Outcome of an execution.
pub struct Execution<P: Program + ?Sized> {
    /// Output, for [`Program::commit`] and, in order, for the caller.
    pub output: P::Output,
    /// Writes. If a key comes twice, the last write counts.
    pub writes: Writes<P>,
}

/// Changes by key.
pub type Writes<P> = Vec<(<P as Program>::Key, Write<<P as Program>::Value, <P as Program>::Credit>)>;

impl<P: Program + ?Sized> fmt::Debug for Execution<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("writes", &self.writes.len()).finish_non_exhaustive()
    }
}

/// Tells a [`Program`] to give this execution up, because its outcome would not count. The view holds the reason.
#[derive(Debug)]
pub struct Interrupt(pub(super) ());

/// Continuation after a final transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The next transaction is committed.
    Continue,
    /// The run ends; this transaction does not count.
    StopBefore,
    /// The run ends; this transaction is the last.
    StopAfter,
}

/// State that one execution sees: the writes of all lower transactions, as far as known, over the state before the run.
///
/// The view notes every key that is read, also if the execution then fails, reverts or finds its transaction invalid. The
/// outcome stands only if all these reads still give the same values at its place in the order. Repeated reads of a key agree
/// while the execution can still count.
pub struct View<'a, P: Program + ?Sized> {
    pub(super) program: &'a P,
    pub(super) memory: &'a Memory<P::Key, P::Value, P::Credit>,
    pub(super) tx: u32,
    pub(super) exact: bool,
    pub(super) load: Load,
    /// Number of values for which this execution waited, though the program reads apart.
    pub(super) waits: u32,
    /// [`None`] if transactions run in order, one at a time.
    pub(super) speculation: Option<Speculation<'a>>,
    pub(super) halt: Option<Halt<P::Error>>,
}

/// Behaviour of an execution that needs a value of the state before the run that is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Loads it: the state is in memory.
    Now,
    /// Loads it if it is at hand, and waits for it otherwise.
    Wait,
    /// Loads it if it is at hand, and ends otherwise.
    Park,
}

/// State of a speculative execution.
pub(super) struct Speculation<'a> {
    pub(super) incarnation: u32,
    /// True unless an earlier execution ended for another reason than a value on disk.
    pub(super) is_first: bool,
    /// Key that only the lowest transaction may read, unless this is the lowest.
    pub(super) barred: Option<KeyId>,
    pub(super) reads: Vec<KeyId>,
    pub(super) stale: &'a AtomicBool,
    pub(super) idle: &'a Idle,
    pub(super) shaker: Option<Shaker>,
}

/// Reason of an interrupt.
#[derive(Debug)]
pub(super) enum Halt<E> {
    /// A lower transaction will run again and probably write this key.
    Blocked { on: u32, key: KeyId },
    /// The value of this key before the run is to be read apart.
    Parked { key: KeyId },
    /// The execution reads the key that only the lowest transaction may read.
    Early,
    /// The execution has read a value that has changed, or the run is over.
    Stale,
    /// The execution met credits that do not fit; at its place in the order they will.
    Overflow,
    /// The state before the run could not be read.
    Base(E),
}

impl<P: Program + ?Sized> View<'_, P> {
    /// Reads the value of `key` after all lower transactions, as far as known. A transaction does not see its own writes.
    ///
    /// # Errors
    /// If this execution can no longer count, or must wait for another transaction, or if the state could not be read.
    pub fn read(&mut self, key: &P::Key) -> Result<P::Value, Interrupt> {
        self.check()?;
        let id = self.memory.id(key);
        if self.speculation.as_ref().is_some_and(|speculation| speculation.barred == Some(id)) {
            return Err(self.interrupt(Halt::Early));
        }
        loop {
            if let Some(speculation) = &self.speculation {
                speculation.pause(self.tx);
            }
            match self.find(id) {
                Found::Value(value) => {
                    if let Some(speculation) = &mut self.speculation {
                        speculation.reads.push(id);
                    }
                    return Ok(value);
                }
                Found::Again(value) => return Ok(value),
                Found::Unloaded => {
                    let Self { program, memory, load, .. } = *self;
                    let loaded = load.load(program, memory, key, id, &mut self.waits);
                    if !loaded.map_err(|error| self.interrupt(Halt::Base(error)))? {
                        return Err(self.interrupt(Halt::Parked { key: id }));
                    }
                }
                Found::Blocked(on) => {
                    if let Some(speculation) = &mut self.speculation {
                        // Not a read, but the next attempt checks the key before it begins.
                        speculation.reads.push(id);
                    }
                    return Err(self.interrupt(Halt::Blocked { on, key: id }));
                }
                Found::Overflow => return Err(self.interrupt(Halt::Overflow)),
            }
        }
    }

    fn find(&self, id: KeyId) -> Found<P::Value> {
        let mut chain = self.memory.chain(id);
        match &self.speculation {
            Some(Speculation { incarnation, is_first, .. }) => {
                let reader = Reader { tx: self.tx, incarnation: *incarnation, is_first: *is_first };
                chain.read(reader, |v, c| self.program.credited(v, c))
            }
            None => chain.settled().map_or(Found::Unloaded, |value| Found::Value(value.clone())),
        }
    }

    /// Interrupts an execution that can no longer count, because a value that it read has changed or the run is over. Cheap
    /// enough for every few hundred steps of an interpreter; [`Self::read`] does it too.
    ///
    /// # Errors
    /// If the execution can no longer count.
    #[inline]
    pub fn check(&mut self) -> Result<(), Interrupt> {
        if self.halt.is_some() {
            return Err(Interrupt(()));
        }
        if self.cancelled() {
            return Err(self.interrupt(Halt::Stale));
        }
        Ok(())
    }

    /// Returns true if this execution can no longer count; then [`Self::check`] gives the interrupt.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.halt.is_some() || self.speculation.as_ref().is_some_and(Speculation::is_stale)
    }

    /// Returns true if credits are not allowed, because a credit of this transaction did not fit.
    ///
    /// All lower transactions are final then, so reads cost no attempt. The transaction reads and writes values instead, and
    /// decides what the overflow means.
    #[inline]
    pub const fn exact(&self) -> bool {
        self.exact
    }

    fn interrupt(&mut self, halt: Halt<P::Error>) -> Interrupt {
        self.halt = Some(halt);
        Interrupt(())
    }
}

impl Load {
    /// Loads the value of a key before the run. Returns false if it is to be read apart.
    pub(super) fn load<P: Program + ?Sized>(
        self,
        program: &P,
        memory: &Memory<P::Key, P::Value, P::Credit>,
        key: &P::Key,
        id: KeyId,
        waits: &mut u32,
    ) -> Result<bool, P::Error> {
        if self != Self::Now {
            if memory.load_at_hand(id, || program.at_hand(key))? {
                return Ok(true);
            }
            if self == Self::Park {
                return Ok(false);
            }
        }
        let waited = memory.load(id, || program.base(key))?;
        *waits += u32::from(waited && self == Self::Wait);
        Ok(true)
    }
}

impl Speculation<'_> {
    #[inline]
    fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed) || self.idle.is_over()
    }

    fn pause(&self, tx: u32) {
        if let Some(shaker) = self.shaker {
            shaker.pause(Point::Read, tx, self.incarnation << 16 | self.reads.len() as u32 & 0xffff);
        }
    }
}

impl<P: Program + ?Sized> fmt::Debug for View<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("tx", &self.tx).field("exact", &self.exact).finish_non_exhaustive()
    }
}
