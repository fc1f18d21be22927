use super::{
    Interrupt, Program,
    chain::Found,
    memory::Memory,
    shaker::{Point, Shaker},
};
use crate::{idle::Idle, sync::AtomicBool};
use core::fmt;
use phalanx_access::KeyId;
use std::sync::atomic::Ordering;

/// The state that one execution sees: what all lower transactions left, as far as it is known.
///
/// Every key that is read is noted, also by an execution that then fails, reverts or finds its transaction invalid: the
/// outcome stands only if all these reads still give the same at its place in the order. Repeated reads of a key agree
/// while the execution can still count.
pub struct View<'a, P: Program + ?Sized> {
    pub(super) program: &'a P,
    pub(super) memory: &'a Memory<P::Key, P::Value, P::Credit>,
    pub(super) tx: u32,
    pub(super) exact: bool,
    /// Nothing when transactions run in order, one at a time.
    pub(super) speculation: Option<Speculation<'a>>,
    pub(super) halt: Option<Halt<P::Error>>,
}

/// What a view needs to know of the others.
pub(super) struct Speculation<'a> {
    pub(super) incarnation: u32,
    /// The key that only the lowest transaction may read, unless this is it.
    pub(super) barred: Option<KeyId>,
    pub(super) reads: Vec<KeyId>,
    pub(super) stale: &'a AtomicBool,
    pub(super) idle: &'a Idle,
    pub(super) shaker: Option<Shaker>,
}

/// Why an execution was interrupted.
#[derive(Debug)]
pub(super) enum Halt<E> {
    /// A transaction below will run again and probably write this key.
    Blocked { on: u32, key: KeyId },
    /// It reads what only the lowest transaction may.
    Early,
    /// It has read what is no longer there, or the run is over.
    Stale,
    /// It met credits that do not fit; at its place in the order it will not.
    Overflow,
    /// The state before the run could not be read.
    Base(E),
}

impl<P: Program + ?Sized> View<'_, P> {
    /// The value of `key` after all lower transactions, as far as known. A transaction sees no writes of its own here.
    ///
    /// # Errors
    /// If this execution can no longer count, must wait for another transaction, or the state could not be read.
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
                    let loaded = self.memory.load(id, || self.program.base(key));
                    loaded.map_err(|error| self.interrupt(Halt::Base(error)))?;
                }
                Found::Blocked(on) => {
                    if let Some(speculation) = &mut self.speculation {
                        // Not a read, but the next attempt looks at it before it begins.
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
            Some(speculation) => chain.read(self.tx, speculation.incarnation, |v, c| self.program.credited(v, c)),
            None => chain.settled().map_or(Found::Unloaded, |value| Found::Value(value.clone())),
        }
    }

    /// Interrupts an execution that can no longer count: what it read is no longer there, or the run is over. Cheap
    /// enough for every few hundred steps of an interpreter; reads do it too.
    ///
    /// # Errors
    /// If so.
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

    /// Whether this execution can no longer count; then [`Self::check`] gives the interrupt.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.halt.is_some() || self.speculation.as_ref().is_some_and(Speculation::is_stale)
    }

    /// Whether credits are not allowed: one of this transaction's did not fit. All lower transactions are final, so
    /// reads cost nothing; the transaction writes values instead and finds out itself what the overflow means.
    #[inline]
    pub const fn exact(&self) -> bool {
        self.exact
    }

    fn interrupt(&mut self, halt: Halt<P::Error>) -> Interrupt {
        self.halt = Some(halt);
        Interrupt(())
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
