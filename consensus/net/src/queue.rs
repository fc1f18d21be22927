//! Bounded queues between threads, and the bell that wakes the worker.

use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, time::Instant};

/// A first-in-first-out queue that is bounded by items and by bytes. One item of any length fits into an empty queue.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    emptied: Condvar,
    most_items: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    dropped: u64,
    closed: bool,
    /// Number of the writer that may append with [`Queue::push_of`].
    writer: u64,
}

/// Result of waiting for an item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    Item(T),
    TimedOut,
    Closed,
}

impl<T> State<T> {
    fn pop(&mut self) -> Option<T> {
        let (bytes, item) = self.items.pop_front()?;
        self.bytes -= bytes;
        Some(item)
    }

    fn push(&mut self, bytes: usize, item: T) {
        self.items.push_back((bytes, item));
        self.bytes += bytes;
    }
}

impl<T> Queue<T> {
    pub(crate) const fn new(most_items: usize, most_bytes: usize) -> Self {
        let state = State { items: VecDeque::new(), bytes: 0, dropped: 0, closed: false, writer: 0 };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new(), most_items, most_bytes }
    }

    const fn is_full(&self, items: usize, used: usize, bytes: usize) -> bool {
        items > 0 && (items >= self.most_items || used + bytes > self.most_bytes)
    }

    /// Appends an item once there is room. Returns false if the queue is closed.
    pub(crate) fn push_wait(&self, bytes: usize, item: T) -> bool {
        self.push_while(bytes, item, |_| true)
    }

    /// Makes the caller the only writer, and ends the wait of the one before. Returns its number.
    pub(crate) fn take_over(&self) -> u64 {
        let mut state = self.state.lock();
        state.writer += 1;
        self.emptied.notify_all();
        state.writer
    }

    /// Appends an item of a writer once there is room. Returns false if the queue is closed, or has another writer since.
    pub(crate) fn push_of(&self, writer: u64, bytes: usize, item: T) -> bool {
        self.push_while(bytes, item, |state| state.writer == writer)
    }

    fn push_while(&self, bytes: usize, item: T, may: impl Fn(&State<T>) -> bool) -> bool {
        let mut state = self.state.lock();
        while !state.closed && may(&state) && self.is_full(state.items.len(), state.bytes, bytes) {
            self.emptied.wait(&mut state);
        }
        if state.closed || !may(&state) {
            return false;
        }
        state.push(bytes, item);
        self.filled.notify_one();
        true
    }

    /// Appends an item if there is room.
    pub(crate) fn try_push(&self, bytes: usize, item: T) -> bool {
        let mut state = self.state.lock();
        if state.closed || self.is_full(state.items.len(), state.bytes, bytes) {
            return false;
        }
        state.push(bytes, item);
        self.filled.notify_one();
        true
    }

    /// Appends an item, and drops the oldest ones that leave it no room.
    pub(crate) fn push_over(&self, bytes: usize, item: T) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        while self.is_full(state.items.len(), state.bytes, bytes) {
            state.pop();
            state.dropped += 1;
        }
        state.push(bytes, item);
        self.filled.notify_one();
    }

    /// Drops all items, and counts them as dropped.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.dropped += state.items.len() as u64;
        state.items.clear();
        state.bytes = 0;
        self.emptied.notify_all();
    }

    pub(crate) fn try_pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        let item = state.pop()?;
        self.emptied.notify_one();
        Some(item)
    }

    /// Takes the oldest item, and waits for it until `deadline`, or for ever. A closed queue gives out the rest first.
    pub(crate) fn pop(&self, deadline: Option<Instant>) -> Popped<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(item) = state.pop() {
                self.emptied.notify_one();
                return Popped::Item(item);
            }
            if state.closed {
                return Popped::Closed;
            }
            match deadline {
                None => self.filled.wait(&mut state),
                Some(deadline) => {
                    if self.filled.wait_until(&mut state, deadline).timed_out() && state.items.is_empty() {
                        return if state.closed { Popped::Closed } else { Popped::TimedOut };
                    }
                }
            }
        }
    }

    /// Waits for an item, and takes what is there by then: so many items at most, and of so many bytes, but one of any length. Nothing once
    /// the queue is closed and empty.
    pub(crate) fn pop_together(&self, (items, bytes): (usize, usize)) -> Vec<T> {
        let mut state = self.state.lock();
        self.filled.wait_while(&mut state, |state| state.items.is_empty() && !state.closed);
        self.take(&mut state, (items, bytes))
    }

    /// Takes what is there, as [`Self::pop_together`] does.
    pub(crate) fn try_pop_together(&self, most: (usize, usize)) -> Vec<T> {
        self.take(&mut self.state.lock(), most)
    }

    fn take(&self, state: &mut State<T>, (items, bytes): (usize, usize)) -> Vec<T> {
        let (mut taken, mut left) = (Vec::new(), bytes);
        while taken.len() < items
            && let Some((bytes, _)) = state.items.front()
            && (taken.is_empty() || *bytes <= left)
        {
            left = left.saturating_sub(*bytes);
            taken.extend(state.pop());
        }
        // Each of them may have been in the way of another writer.
        if !taken.is_empty() {
            self.emptied.notify_all();
        }
        taken
    }

    /// Refuses further items, and wakes every thread that waits.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().items.is_empty()
    }

    /// Number of items that were dropped for lack of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }
}

/// Wakes a thread. A ring before the wait is not lost.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut rung = self.rung.lock();
        if !*rung {
            *rung = true;
            self.changed.notify_one();
        }
    }

    /// Waits for a ring, until `deadline` at most.
    pub(crate) fn wait(&self, deadline: Instant) {
        let mut rung = self.rung.lock();
        while !*rung {
            if self.changed.wait_until(&mut rung, deadline).timed_out() {
                break;
            }
        }
        *rung = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, thread, time::Duration};

    #[test]
    fn bounds_hold_and_the_oldest_goes() {
        let queue = Queue::new(3, 10);
        assert!(queue.try_push(99, 'a'), "one item of any length");
        assert!(!queue.try_push(1, 'b'));
        queue.push_over(4, 'b');
        (0..2).for_each(|_| assert!(queue.try_push(3, 'c')));
        queue.push_over(1, 'd');
        assert_eq!(
            (queue.dropped(), queue.try_pop(), queue.try_pop(), queue.try_pop()),
            (2, Some('c'), Some('c'), Some('d'))
        );
        assert_eq!(queue.pop(Some(Instant::now())), Popped::TimedOut);
        queue.push_over(1, 'e');
        queue.clear();
        assert!(queue.is_empty() && queue.dropped() == 3);
        queue.push_over(1, 'e');
        queue.close();
        queue.push_over(1, 'f');
        assert_eq!((queue.pop(None), queue.pop(None)), (Popped::Item('e'), Popped::Closed));
    }

    #[test]
    fn what_is_there_is_taken_together_in_order_and_within_bounds() {
        let queue = Arc::new(Queue::new(100, 1_000));
        for (bytes, item) in [(90, 0), (1, 1), (4, 2), (6, 3), (1, 4), (1, 5), (1, 6)] {
            assert!(queue.try_push(bytes, item));
        }
        assert_eq!(queue.pop_together((3, 10)), [0], "one of any length");
        assert_eq!(queue.pop_together((3, 10)), [1, 2], "the next one is too long beside them");
        assert_eq!(queue.try_pop_together((3, 10)), [3, 4, 5]);
        assert_eq!((queue.try_pop_together((3, 10)), queue.try_pop_together((3, 10))), (vec![6], vec![]));
        let full = Arc::new(Queue::new(2, 100));
        assert!(full.try_push(1, 0) && full.try_push(1, 1));
        let writers: Vec<_> = (2..4)
            .map(|item| {
                let full = Arc::clone(&full);
                thread::spawn(move || full.push_wait(1, item))
            })
            .collect();
        assert_eq!(full.pop_together((2, 100)), [0, 1]);
        assert!(writers.into_iter().all(|writer| writer.join().expect("no panic")), "both have room");
        full.close();
        assert_eq!((full.pop_together((9, 9)).len(), full.pop_together((9, 9)).len()), (2, 0));
    }

    #[test]
    fn a_full_queue_holds_its_writer_back_until_it_is_read_or_closed() {
        let queue = Arc::new(Queue::new(1, 100));
        assert!(queue.push_wait(1, 1));
        let writer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || (queue.push_wait(1, 2), queue.push_wait(1, 3))
        });
        assert_eq!(queue.pop(None), Popped::Item(1));
        assert_eq!(queue.pop(None), Popped::Item(2));
        assert_eq!(queue.pop(None), Popped::Item(3));
        assert_eq!(writer.join().expect("no panic"), (true, true));
        assert!(queue.push_wait(1, 4));
        let writer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push_wait(1, 5)
        });
        queue.close();
        assert!(!writer.join().expect("no panic"));
    }

    /// Each connection of a peer takes over from the one before, also from one that waits for room.
    #[test]
    fn a_writer_that_was_superseded_waits_no_longer() {
        let queue = Arc::new(Queue::new(1, 100));
        let mut writer = queue.take_over();
        assert!(queue.push_of(writer, 1, 0));
        let blocked: Vec<_> = (0..100)
            .map(|number| {
                let (waits, shared) = (writer, Arc::clone(&queue));
                let handle = thread::spawn(move || shared.push_of(waits, 1, number));
                writer = queue.take_over();
                handle
            })
            .collect();
        // The queue stays full: without the take-over these threads would wait for ever.
        assert!(blocked.into_iter().all(|handle| !handle.join().expect("no panic")));
        assert_eq!((queue.try_pop(), queue.try_pop()), (Some(0), None));
        assert!(queue.push_of(writer, 1, 7) && !queue.push_of(writer - 1, 1, 8));
    }

    #[test]
    fn a_ring_before_the_wait_is_not_lost() {
        let bell = Bell::default();
        let began = Instant::now();
        bell.ring();
        bell.wait(began + Duration::from_secs(60));
        bell.wait(Instant::now());
        assert!(began.elapsed() < Duration::from_secs(50));
    }
}
