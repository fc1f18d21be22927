use super::{View, Write};
use crate::TxIndex;
use core::fmt;
use phalanx_access::Key;

/// What a Block-STM run executes: transactions that read and write a state by key. Knows no EVM.
///
/// An execution must be a function of the transaction and of the values it reads. Then equal values mean an equal
/// outcome, which is all that the run relies on.
///
/// Nothing here may wait for a task of the [`Workers`](crate::Workers) that run it, as rayon's iterators and joins do: the
/// thread could take up another worker of the same run meanwhile, which ends only with the run.
pub trait Program: Sync {
    /// Full name of a piece of state; compared in full, its digest only finds the place.
    type Key: Key + Send + Sync;
    /// The whole value of a key. Cloned at every read, so it should be small or shared.
    type Value: Clone + PartialEq + Send + Sync;
    /// A commutative addition to a value. Two credits of a key do not conflict.
    type Credit: Clone + PartialEq + Send + Sync;
    /// What a finished transaction leaves beside its writes: result, logs, gas.
    type Output: Send;
    /// Why the state before the run could not be read.
    type Error: Send;
    /// What each worker owns: an EVM, scratch buffers.
    type Local: Send;

    /// The value of `key` before the run. Called from any worker, without any lock that others wait for but those who
    /// want the same key; asked once per key unless it fails.
    ///
    /// # Errors
    /// If the state cannot be read. It ends the run only if the transaction needs the key at its place in the order; a
    /// speculative execution that fails is tried again there.
    fn base(&self, key: &Self::Key) -> Result<Self::Value, Self::Error>;

    /// `value` after `credit`, or nothing when that overflows. The order of credits must not matter.
    fn credited(&self, value: &Self::Value, credit: &Self::Credit) -> Option<Self::Value>;

    /// A key that most transactions credit and few read, as a fee's receiver. What is credited to it is kept with its
    /// transaction and added when that is final, instead of going from worker to worker as a version that all write; whoever
    /// reads it waits until all lower transactions are final. Asked once per run.
    fn tally(&self) -> Option<Self::Key> {
        None
    }

    /// Runs transaction `index` against `view` and hands over what it writes. May be called more than once for an
    /// index, on several workers one after the other, until one outcome is committed.
    ///
    /// Reads may come from a state that never was: an execution must end and must not panic on any values. One that can
    /// run long without reading polls [`View::check`].
    ///
    /// # Errors
    /// Only with an [`Interrupt`] that this `view` gave. Swallowing one does no harm: the view remembers it.
    fn execute(
        &self,
        local: &mut Self::Local,
        index: TxIndex,
        view: &mut View<'_, Self>,
    ) -> Result<Execution<Self>, Interrupt>;

    /// Looks at the outcome of `index`, in order and when it is final: whatever an earlier execution made of a stale
    /// state is not shown. May end the run here, for a gas or size limit or an invalid transaction. Called by one worker
    /// at a time.
    fn commit(&self, index: TxIndex, output: &Self::Output) -> Commit {
        let _ = (index, output);
        Commit::Continue
    }
}

/// What a transaction did.
pub struct Execution<P: Program + ?Sized> {
    /// Handed to [`Program::commit`] and, in order, to the caller.
    pub output: P::Output,
    /// What it changes. If a key comes twice, the last one counts.
    pub writes: Writes<P>,
}

/// Changes by key.
pub type Writes<P> = Vec<(<P as Program>::Key, Write<<P as Program>::Value, <P as Program>::Credit>)>;

impl<P: Program + ?Sized> fmt::Debug for Execution<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("writes", &self.writes.len()).finish_non_exhaustive()
    }
}

/// Tells a [`Program`] to give this execution up; its outcome would not count. Why is between the view and the run.
#[derive(Debug)]
pub struct Interrupt(pub(super) ());

/// What follows a final transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The next one.
    Continue,
    /// Nothing; this transaction does not count either.
    StopBefore,
    /// Nothing; this transaction is the last.
    StopAfter,
}
