//! The modelled curve: throughput by cores, its knee, and the parts that limit it. Pure.

use super::{
    replay::Machine,
    shape::{BlockCosts, Constants, Part, tasks},
};
use crate::report::text;
use core::fmt;

/// Cores of the curve.
pub(super) const CORES: [usize; 13] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256];

/// Maximum number of cores of the curve.
pub(super) const MOST: usize = CORES[CORES.len() - 1];

/// Share of perfect scaling that counts as scaling.
pub(super) const ENOUGH: f64 = 0.9;

/// Costs of all blocks, with constants.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    pub(super) blocks: &'a [BlockCosts],
    pub(super) constants: Constants,
}

/// A replay of all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replay {
    /// Workers.
    workers: usize,
    /// Cores of the machine, at least as many.
    cores: usize,
    /// Part that costs nothing.
    without: Option<Part>,
}

impl Replay {
    /// `workers` workers on `cores` cores.
    pub(super) const fn new(workers: usize, cores: usize) -> Self {
        Self { workers, cores, without: None }
    }

    /// Workers on all of `cores` cores, without the costs of a part.
    const fn without(cores: usize, part: Part) -> Self {
        Self { workers: cores, cores, without: Some(part) }
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", text::counted(self.workers, "core"))?;
        self.without.map_or(Ok(()), |part| write!(f, " without {}", part.name()))
    }
}

impl Model<'_> {
    /// Transactions per second of a replay. O((tasks + edges) log tasks) in time, O(tasks + edges) in memory.
    pub(super) fn tps(&self, replay: &Replay) -> f64 {
        let Replay { workers, cores, without } = *replay;
        let machine = Machine { cores: workers, writer_apart: cores > workers };
        let txs: usize = self.blocks.iter().map(|block| block.txs).sum();
        let crowding = if machine.cores > 1 { self.constants.crowding } else { 1.0 };
        let factor = |part: Part| match part {
            part if without == Some(part.cause()) => 0.0,
            part if part.is_bandwidth() => 1.0,
            _ => crowding,
        };
        let ns = tasks(self.blocks, &self.constants, machine.cores, &factor).replay(machine);
        txs as f64 * 1e9 / ns.max(1.0)
    }
}

/// Replays of the curve: every number of cores, all of them workers.
pub(super) fn of_curve() -> Vec<Replay> {
    CORES.iter().map(|cores| Replay::new(*cores, *cores)).collect()
}

/// Parts that may be the cause of waiting.
fn parts() -> impl Iterator<Item = Part> {
    Part::ALL.into_iter().filter(|part| part.cause() == *part)
}

/// Replays that the [`causes`] on `cores` follow from: with all parts, and without each, on one core and on `cores`.
pub(super) fn of_causes(cores: usize) -> Vec<Replay> {
    let on = |cores: usize| {
        core::iter::once(Replay::new(cores, cores)).chain(parts().map(move |part| Replay::without(cores, part)))
    };
    on(1).chain(on(cores)).collect()
}

/// Gain in scaling without each part, `(part, ratio)`, largest first, from the transactions per second of [`of_causes`].
///
/// Removing a part that scales saves as much on one core as on many: its ratio is one. Only parts that keep cores waiting
/// are above.
pub(super) fn causes(tps: &[f64]) -> Vec<(Part, f64)> {
    let (one, many) = tps.split_at(tps.len() / 2);
    let gain = |of: &[f64], at: usize| of[at + 1] / of[0];
    let mut causes: Vec<(Part, f64)> =
        parts().enumerate().map(|(at, part)| (part, gain(many, at) / gain(one, at))).collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    causes
}

/// The place where a curve bends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knee {
    /// Most cores with the required share of perfect scaling.
    pub(super) at: usize,
    /// First number of cores below it.
    pub(super) beyond: usize,
}

/// Transactions per second under perfect scaling to `cores`. Crowding is the machine's and not a limit of the engine, so the
/// ideal contains it.
pub(super) fn ideal(curve: &[(usize, f64)], crowding: f64, cores: usize) -> f64 {
    let one = curve.first().map_or(0.0, |(_, tps)| *tps);
    one * cores as f64 / if cores > 1 { crowding } else { 1.0 }
}

/// Knee at `share` of perfect scaling; `None` if the whole curve is above.
pub(super) fn knee(curve: &[(usize, f64)], crowding: f64, share: f64) -> Option<Knee> {
    let bends = |(cores, tps): &(usize, f64)| *tps < share * ideal(curve, crowding, *cores);
    let beyond = curve.iter().position(bends)?;
    Some(Knee { at: curve[beyond.checked_sub(1)?].0, beyond: curve[beyond].0 })
}

#[cfg(test)]
mod tests {
    use super::{
        super::shape::{FREE, Span},
        *,
    };
    use phalanx::{access::AccessSets, parascheduler::Dag};

    fn curve(model: &Model<'_>) -> Vec<(usize, f64)> {
        of_curve().iter().map(|replay| (replay.cores, model.tps(replay))).collect()
    }

    fn causes(model: &Model<'_>, cores: usize) -> Vec<(Part, f64)> {
        super::causes(&of_causes(cores).iter().map(|replay| model.tps(replay)).collect::<Vec<_>>())
    }

    fn model(frame: f64) -> Vec<BlockCosts> {
        let mut sets = AccessSets::new();
        (0..1000).for_each(|_| sets.push([]));
        let span = |part, ns, pieces| Span { part, ns, pieces };
        let block = || BlockCosts {
            plan: vec![span(Part::Frame, frame, 1)],
            plan_of_many: vec![],
            run: vec![span(Part::Wave, 1_000_000.0, 1000)],
            apply: vec![],
            keep: vec![],
            dag: Dag::build(&sets, 0),
            wide: true,
            weights: vec![1e-3; 1000],
            planned: 1000,
            txs: 1000,
        };
        (0..20).map(|_| block()).collect()
    }

    #[test]
    fn the_knee_is_where_planning_no_longer_hides_and_its_cause_is_named() {
        // A block runs in 1 ms of work, and is framed in 50 µs on one thread: past 20 cores framing takes longer.
        let blocks = model(50_000.0);
        let model = Model { blocks: &blocks, constants: FREE };
        let bent = curve(&model);
        assert_eq!(knee(&bent, 1.0, ENOUGH), Some(Knee { at: 16, beyond: 24 }), "{bent:?}");
        assert_eq!(causes(&model, 64)[0].0, Part::Frame);
        let wave = causes(&model, 64).into_iter().find(|(part, _)| *part == Part::Wave).unwrap();
        assert!(wave.1 < 1.0, "it scales, so that without it framing would weigh more: {wave:?}");
        assert!(causes(&model, 2)[0].1 < 1.01, "nothing keeps two cores waiting");
        let free = curve(&Model { blocks: &self::model(0.0), constants: FREE });
        assert!(knee(&free, 1.0, ENOUGH).is_none_or(|knee| knee.at >= 48), "{free:?}");
    }

    #[test]
    fn perfect_scaling_has_no_knee() {
        let curve = |rate: fn(usize) -> f64| CORES.map(|cores| (cores, rate(cores)));
        assert_eq!(knee(&curve(|cores| cores as f64), 1.0, ENOUGH), None);
        assert_eq!(knee(&curve(|_| 1.0), 1.0, ENOUGH), Some(Knee { at: 1, beyond: 2 }));
        assert_eq!(knee(&curve(|cores| cores.min(200) as f64), 1.0, ENOUGH), Some(Knee { at: 192, beyond: 256 }));
        assert_eq!(knee(&[], 1.0, ENOUGH), None);
        assert_eq!(knee(&curve(|cores| cores.min(4) as f64), 1.0, 0.5), Some(Knee { at: 8, beyond: 16 }));
    }

    #[test]
    fn several_cores_slow_each_other_down_and_one_does_not() {
        let blocks = model(0.0);
        let free = Model { blocks: &blocks, constants: FREE };
        let crowded = Model { blocks: &blocks, constants: Constants { crowding: 1.25, ..FREE } };
        assert!((crowded.tps(&Replay::new(1, 1)) / free.tps(&Replay::new(1, 1)) - 1.0).abs() < 1e-9);
        for cores in [2, 8] {
            let ratio = free.tps(&Replay::new(cores, cores)) / crowded.tps(&Replay::new(cores, cores));
            assert!((ratio - 1.25).abs() < 1e-9, "{cores} cores: {ratio}");
        }
        let (free, crowded) = (curve(&free), curve(&crowded));
        assert_eq!(
            knee(&crowded, 1.25, ENOUGH).map(|knee| knee.at),
            knee(&free, 1.0, ENOUGH).map(|knee| knee.at),
            "it is no knee"
        );
        assert_eq!(knee(&crowded, 1.0, ENOUGH).map(|knee| knee.at), Some(1));
        // Crowding does not slow a bandwidth down.
        let bound = |crowding| Constants { crowding, memory_ns: 10_000.0, ..FREE };
        let tps = |crowding| Model { blocks: &blocks, constants: bound(crowding) }.tps(&Replay::new(8, 8));
        assert!((tps(1.25) / tps(1.0) - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_bandwidth_is_a_cause_like_any_other() {
        let blocks = model(0.0);
        // 100 ns of memory per transaction are 10 M per second, whatever the cores.
        let model = Model { blocks: &blocks, constants: Constants { memory_ns: 100.0, ..FREE } };
        let bent = curve(&model);
        assert!(bent.last().unwrap().1 <= 1.0e7 * 1.0001, "{bent:?}");
        assert_eq!(causes(&model, 256)[0].0, Part::Memory);
    }
}
