//! Ways to run a block: executor, threads, perturbed schedules, hints.

use super::{disk::SlowDisk, hints::Hint};
use phalanx::Executor;
use rand::Rng;
use std::sync::Arc;

/// A way to run a block.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) executor: Executor,
    pub(crate) threads: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) hints: Hint,
    /// True if all workers take part in every block. Otherwise the engine chooses, and short blocks run on the caller.
    pub(crate) all_workers: bool,
    /// If the state is on disk: bytes of it that are in memory.
    pub(crate) cached: Option<usize>,
    /// The disk, if it is a slow one.
    pub(crate) disk: Option<Arc<SlowDisk>>,
}

impl Way {
    const fn new(executor: Executor, threads: usize, seed: Option<u64>, hints: Hint) -> Self {
        Self { executor, threads, seed, hints, all_workers: true, cached: None, disk: None }
    }

    pub(crate) const fn sequential() -> Self {
        Self::new(Executor::Sequential, 1, None, Hint::None)
    }

    pub(crate) const fn stm(threads: usize, seed: Option<u64>) -> Self {
        Self::new(Executor::BlockStm, threads, seed, Hint::None)
    }

    pub(crate) const fn dag(threads: usize, hints: Hint) -> Self {
        Self::new(Executor::Dag, threads, None, hints)
    }

    /// Keeps the state on disk, so many bytes of it in memory.
    pub(crate) const fn on_disk(mut self, cached: usize) -> Self {
        self.cached = Some(cached);
        self
    }

    /// Keeps the state on a slow disk, so many bytes of it in memory.
    pub(crate) fn on_slow_disk(self, cached: usize, disk: &Arc<SlowDisk>) -> Self {
        Self { disk: Some(Arc::clone(disk)), ..self.on_disk(cached) }
    }

    /// Lets the engine choose the workers.
    pub(crate) const fn chosen(mut self) -> Self {
        self.all_workers = false;
        self
    }
}

/// Every executor on 1, 2, 4 and 8 threads, with every kind of hint, and the speculative ones on several schedules.
pub(crate) fn every_way() -> Vec<Way> {
    let mut ways = Vec::new();
    for threads in [1, 2, 4, 8] {
        ways.extend([None, Some(1), Some(2), Some(3)].map(|seed| Way::stm(threads, seed)));
        let hints = [
            Hint::Perfect,
            Hint::Predict,
            Hint::None,
            Hint::AccessList,
            Hint::Exceptions,
            Hint::Empty,
            Hint::Everything,
            Hint::Wrong { percent: 10, seed: 1 },
            Hint::Wrong { percent: 100, seed: 2 },
            Hint::Lies { seed: 3 },
            Hint::Lies { seed: 4 },
            Hint::Lies { seed: 5 },
        ];
        ways.extend(hints.map(|hints| Way { seed: Some(7), ..Way::dag(threads, hints) }));
        ways.push(Way { hints: Hint::AccessList, ..Way::stm(threads, None) });
        ways.push(Way::stm(threads, Some(4)).on_disk(0));
    }
    let hints = [Hint::Perfect, Hint::Predict, Hint::None, Hint::AccessList, Hint::Exceptions, Hint::Lies { seed: 3 }];
    ways.extend(hints.map(|hints| Way::dag(2, hints).chosen()));
    ways.push(Way::sequential().chosen());
    ways
}

/// Every executor on 1, 2, 4 and 8 threads, with its state on a slow disk.
pub(crate) fn ways_on(disk: &Arc<SlowDisk>, cached: usize, seed: u64) -> Vec<Way> {
    let mut ways = vec![Way::sequential()];
    for threads in [1, 2, 4, 8] {
        ways.extend([None, Some(seed)].map(|seed| Way::stm(threads, seed)));
        let hints = [Hint::Perfect, Hint::Predict, Hint::None, Hint::Empty, Hint::Lies { seed }];
        ways.extend(hints.map(|hints| Way::dag(threads, hints)));
    }
    ways.into_iter().map(|way| way.on_slow_disk(cached, disk)).collect()
}

/// Random ways, at least one of each kind.
pub(crate) fn some_ways(rng: &mut impl Rng) -> Vec<Way> {
    let mut threads = || [1, 2, 4, 8][rng.random_range(0..4)];
    let mut ways =
        vec![Way::stm(threads(), None), Way::dag(threads(), Hint::Perfect), Way::dag(threads(), Hint::Predict)];
    ways.push(Way::dag(threads(), Hint::AccessList));
    ways.push(Way::dag(threads(), Hint::Exceptions));
    ways.push(Way { hints: Hint::AccessList, ..Way::sequential() });
    ways.push(Way::stm([2, 4][rng.random_range(0..2)], Some(rng.random())));
    for _ in 0..3 {
        let seed = rng.random();
        let hints = match rng.random_range(0..8) {
            0 => Hint::Empty,
            1 => Hint::Everything,
            2 => Hint::Wrong { percent: 100, seed },
            3 => Hint::Wrong { percent: rng.random_range(1..50), seed },
            _ => Hint::Lies { seed },
        };
        let seed = rng.random_bool(0.5).then(|| rng.random());
        ways.push(Way { seed, ..Way::dag([1, 2, 4, 8][rng.random_range(0..4)], hints) });
    }
    let cached = [0, 2_000, 20_000, 1 << 20];
    for _ in 0..2 {
        let seed = rng.random_bool(0.5).then(|| rng.random());
        let way = Way::stm([1, 2, 4, 8][rng.random_range(0..4)], seed);
        ways.push(way.on_disk(cached[rng.random_range(0..cached.len())]));
    }
    let given = [Hint::None, Hint::Empty, Hint::Perfect, Hint::Lies { seed: 9 }][rng.random_range(0..4)].clone();
    ways.push(Way::dag([2, 4][rng.random_range(0..2)], given).on_disk(cached[rng.random_range(0..cached.len())]));
    let hints = [Hint::Predict, Hint::None, Hint::Exceptions, Hint::Perfect][rng.random_range(0..4)].clone();
    ways.push(Way::dag([1, 2, 4][rng.random_range(0..3)], hints).chosen());
    ways
}
