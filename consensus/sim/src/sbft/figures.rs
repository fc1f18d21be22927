//! Sweeps of the paper's figures, at the paper's settings.

use super::{
    paper,
    setting::{Costs, Outcome, Setting, Variant, Workload},
    topology::Topology,
    world,
};
use crate::paper::{Comparison, Evaluation, Of, Point as PointOf};

/// A point of a sweep.
pub type Point = PointOf<Setting>;

/// A figure of the paper's evaluation, or the numbers of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Throughput of the key-value store by clients and failures, a put in each request.
    Single,
    /// The same with 64 puts in each request.
    Batched,
    /// Contracts on a continent and around the world.
    Contracts,
}

/// The protocols as the paper builds them up: name, protocol, c.
pub(super) const LADDER: [(&str, Variant, usize); 5] = [
    ("PBFT", Variant::Pbft, 0),
    ("linear PBFT", Variant::Linear, 0),
    ("linear PBFT with a fast path", Variant::Fast, 0),
    ("SBFT, c = 0", Variant::Sbft, 0),
    ("SBFT, c = 8", Variant::Sbft, 8),
];

/// Clients of the sweeps.
pub(super) const CLIENTS: [u64; 4] = [4, 32, 128, 256];

/// Crashed replicas of the sweeps.
pub(super) const CRASHED: [usize; 3] = [0, 8, 64];

impl Evaluation for Figure {
    type Setting = Setting;
    type Outcome = Outcome;

    const ALL: &'static [Self] = &[Self::Single, Self::Batched, Self::Contracts];

    fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Single => ("Key-value store, a put in each request (Figures 2 and 3)", "clients"),
            Self::Batched => ("Key-value store, 64 puts in each request (Figures 2 and 3)", "clients"),
            Self::Contracts => ("Contracts (section IX)", "alone, continent, world"),
        }
    }

    fn points(self) -> Vec<Point> {
        match self {
            Self::Single => key_value(1),
            Self::Batched => key_value(64),
            Self::Contracts => {
                let alone = Setting { variant: Variant::Alone, c: 0, ..Setting::PAPER };
                let mut points = vec![Point::new("no replication", 0.0, alone)];
                for (name, variant, c) in [LADDER[0], LADDER[4]] {
                    for (at, topology) in [(1.0, Topology::Continent), (2.0, Topology::World)] {
                        let setting = Setting { variant, c, topology, ..Setting::PAPER };
                        points.push(Point::new(name, at, setting));
                    }
                }
                points
            }
        }
    }

    fn check(setting: &Setting) -> Result<(), &'static str> {
        setting.check()
    }

    fn run(setting: &Setting) -> Result<Outcome, &'static str> {
        world::run(setting)
    }

    fn numbers(self, of: &Of<'_, Outcome>) -> Vec<Comparison> {
        paper::numbers(self, of)
    }
}

fn key_value(operations: u64) -> Vec<Point> {
    let workload = Workload::puts(operations, &Costs::FROZEN);
    let mut points = Vec::new();
    for crashed in CRASHED {
        for (name, variant, c) in LADDER {
            for clients in CLIENTS {
                // Whole rounds of all clients; many clients need few of them.
                let requests = if clients < 32 { 8 } else { 4 };
                let setting = Setting { variant, c, clients, workload, crashed, requests, ..Setting::PAPER };
                points.push(Point::new(format!("{name}, {crashed} crashed"), clients as f64, setting));
            }
        }
    }
    points
}
