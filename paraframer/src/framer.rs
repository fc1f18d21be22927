//! ParaFramer (FAFO, section 2.4, Algorithm 1), extended to keep every sender's nonces in order.

use crate::{
    bloom::ParaBloom,
    frame::{Cause, Frame, FramerConfig},
    order::{Behind, Precedence},
    slot::{FRAMES, Slot, each},
};
use phalanx_access::Access;

/// Number of frames that leave before the filters are cleared of them, if no place is needed before.
const STALE: u32 = 8;

/// Minimum number of transactions that leave when a place is needed: to clear the filters takes as long as to place some
/// dozens.
const CROWD: usize = 32;

/// Packs a stream of transactions into frames, greedily, in one pass.
///
/// A transaction goes to the lowest of 64 open frames that it does not conflict with. If its sender has pending transactions,
/// it goes behind their frames: to a frame that waits for them already, or else to the lowest that may. A frame that
/// reached a limit takes no more members and leaves as soon as it waits for no earlier frame. When a transaction finds no
/// frame at all, the largest frame that waits for no other leaves.
///
/// A full frame waits, instead of forcing half-empty frames out before it. That keeps frames large under contention: 123
/// instead of 94 transactions per frame where half of them come from 100 hot senders.
///
/// The place of a frame that left stays closed until its filters are cleared, eight at a time or when a place is needed.
///
/// Members of a frame never conflict, for all digests: equal digests of distinct keys cost order and frame size only.
#[derive(Debug)]
pub struct Framer<T> {
    config: FramerConfig,
    bloom: ParaBloom,
    order: Precedence,
    members: Box<[Members<T>; FRAMES]>,
    /// Set of frames that have members.
    live: u64,
    /// Set of frames that reached a limit and wait for earlier ones; they take no more members.
    sealed: u64,
    /// Set of places whose frames have left and are still in the filters; they take no members.
    stale: u64,
    /// Number of pushes.
    clock: u64,
    /// Number of the first push at which a frame may reach the age limit.
    deadline: u64,
}

#[derive(Debug)]
struct Members<T> {
    txs: Vec<T>,
    gas: u64,
    /// Number of distinct accesses, less the few whose bits were all set before.
    keys: usize,
    /// Number of the first member's push.
    born: u64,
}

impl<T> Framer<T> {
    /// Creates a framer without pending transactions.
    pub fn new(config: FramerConfig) -> Self {
        // A frame of the default size never reallocates; a huge limit does not reserve memory in advance.
        let capacity = config.max_txs.min(1024);
        let members = core::array::from_fn(|_| Members { txs: Vec::with_capacity(capacity), gas: 0, keys: 0, born: 0 });
        Self {
            config,
            bloom: ParaBloom::new(),
            order: Precedence::new(),
            members: Box::new(members),
            live: 0,
            sealed: 0,
            stale: 0,
            clock: 0,
            deadline: u64::MAX,
        }
    }

    /// Places a transaction and emits the frames that leave because of it.
    ///
    /// `sender` is the digest of the key that carries the sender's nonce. It counts as written, even if `keys` does not list
    /// it. One sender's transactions are emitted in the order of their pushes. `keys` are salted digests with the access made
    /// to each.
    ///
    /// O(keys); plus O(64) if the sender has pending transactions; plus O([`BITS`](crate::BITS)) per eight emitted frames, or
    /// per frame that leaves for want of a place.
    #[inline]
    pub fn push(&mut self, tx: T, sender: u64, gas: u64, keys: &[(u64, Access)], emit: &mut impl FnMut(Frame<'_, T>)) {
        self.clock += 1;
        if self.clock >= self.deadline {
            self.expire(emit);
        }

        let seen = self.bloom.seen(sender);
        let pending = self.bloom.pending(sender, seen) & self.live;
        let mut taken = self.sealed | self.stale | seen.conflicts(Access::Write);
        for &(digest, access) in keys {
            if digest != sender {
                taken |= self.bloom.seen(digest).conflicts(access);
            }
        }
        let slot = match Slot::lowest(!taken) {
            Some(lowest) if pending == 0 => lowest,
            _ => self.place_behind(pending, taken, emit),
        };

        let mut fresh = usize::from(self.bloom.insert_sender(slot, sender));
        for &(digest, access) in keys {
            if digest != sender {
                fresh += usize::from(self.bloom.insert(slot, digest, access));
            }
        }
        let members = &mut self.members[slot.index()];
        if members.txs.is_empty() {
            members.born = self.clock;
            self.live |= slot.bit();
            self.deadline = self.deadline.min(self.clock.saturating_add(self.config.max_age));
        }
        members.txs.push(tx);
        members.gas = members.gas.saturating_add(gas);
        members.keys += fresh;
        if members.txs.len() >= self.config.max_txs
            || members.gas >= self.config.max_gas
            || members.keys >= self.config.max_keys
        {
            self.sealed |= slot.bit();
            self.release(emit);
        }
    }

    /// Emits all pending transactions, earlier frames first.
    pub fn flush(&mut self, emit: &mut impl FnMut(Frame<'_, T>)) {
        while let Some(slot) = Slot::lowest(self.live & !self.order.waiting()) {
            self.leave(slot, Cause::Flushed, emit);
        }
        self.deadline = u64::MAX;
    }

    /// Number of pending transactions. O(64).
    pub fn pending(&self) -> usize {
        each(self.live).map(|slot| self.members[slot.index()].txs.len()).sum()
    }

    /// Finds a frame outside `taken` that leaves after the `pending` frames. If there is none, frames leave.
    ///
    /// `pending` comes from the Bloom filters, so it may name a frame too many. That adds a constraint, never a cycle: every
    /// frame with which the constraint could close a cycle is in the closure and therefore not free.
    #[inline(never)]
    fn place_behind(&mut self, mut pending: u64, mut taken: u64, emit: &mut impl FnMut(Frame<'_, T>)) -> Slot {
        loop {
            let Behind { earlier, followers } = self.order.behind(pending);
            let free = !(taken | earlier);
            // First a frame that waits for the earlier ones already: it gets no new constraint.
            if let Some(slot) = self.order.first(free & followers).or_else(|| Slot::lowest(free)) {
                self.order.require(slot, earlier);
                return slot;
            }
            // No place is free. Unless frames have left, every slot is live, and one of them waits for none.
            if self.stale == 0 {
                self.eject_largest(emit);
            }
            self.clear();
            pending &= self.live;
            taken &= self.live;
        }
    }

    /// Clears the filters of the frames that have left, which frees their places.
    fn clear(&mut self) {
        if self.stale != 0 {
            self.bloom.clear(self.stale);
            self.stale = 0;
        }
    }

    /// Emits the largest frame, as Algorithm 1 does when all places are taken, and small frames until [`CROWD`] transactions
    /// have left. Only frames that wait for no other: a waiting frame would force smaller ones out before it.
    fn eject_largest(&mut self, emit: &mut impl FnMut(Frame<'_, T>)) {
        let mut left = 0;
        while left < CROWD {
            let sources = each(self.live & !self.order.waiting());
            let Some(slot) = sources.max_by_key(|slot| self.members[slot.index()].txs.len()) else { break };
            left += self.members[slot.index()].txs.len();
            self.leave(slot, Cause::Crowded, emit);
        }
        self.release(emit);
    }

    /// Emits the sealed frames that wait for none, and then sealed frames that waited only for them. Clears the filters if many
    /// frames have left.
    fn release(&mut self, emit: &mut impl FnMut(Frame<'_, T>)) {
        while let Some(slot) = Slot::lowest(self.sealed & !self.order.waiting()) {
            self.leave(slot, Cause::Full, emit);
        }
        if self.stale.count_ones() >= STALE {
            self.clear();
        }
    }

    /// Emits the frames that reached the age limit, after the frames that must leave before them.
    #[cold]
    fn expire(&mut self, emit: &mut impl FnMut(Frame<'_, T>)) {
        let max_age = self.config.max_age;
        let aged = each(self.live).filter(|slot| self.clock - self.members[slot.index()].born >= max_age);
        let aged = aged.fold(0, |set, slot| set | slot.bit());
        let mut due = self.order.behind(aged).earlier;
        while let Some(slot) = Slot::lowest(due & !self.order.waiting()) {
            due &= !slot.bit();
            let cause = if aged & slot.bit() != 0 { Cause::Aged } else { Cause::Precedes };
            self.leave(slot, cause, emit);
        }
        self.release(emit);
        let oldest = each(self.live).map(|slot| self.members[slot.index()].born).min();
        self.deadline = oldest.map_or(u64::MAX, |born| born.saturating_add(max_age));
    }

    /// Emits a frame that waits for no other. Its place is free once its filters are cleared.
    fn leave(&mut self, slot: Slot, cause: Cause, emit: &mut impl FnMut(Frame<'_, T>)) {
        self.order.leave(slot);
        self.stale |= slot.bit();
        self.live &= !slot.bit();
        self.sealed &= !slot.bit();
        let members = &mut self.members[slot.index()];
        emit(Frame { txs: &members.txs, gas: members.gas, cause });
        members.txs.clear();
        (members.gas, members.keys) = (0, 0);
    }
}

impl<T> Default for Framer<T> {
    fn default() -> Self {
        Self::new(FramerConfig::default())
    }
}
