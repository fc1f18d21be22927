//! Sweeps of the paper's figures, at the paper's settings.

use super::{
    setting::{Costs, Setting, Variant, Workload},
    topology::Topology,
};

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

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Name of its line in the plot.
    pub series: String,
    /// Value on the axis.
    pub at: f64,
    /// The setting.
    pub setting: Setting,
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

impl Figure {
    /// All figures.
    pub const ALL: [Self; 3] = [Self::Single, Self::Batched, Self::Contracts];

    /// Title, and the name of the axis of [`Point::at`].
    #[must_use]
    pub const fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Single => ("Key-value store, a put in each request (Figures 2 and 3)", "clients"),
            Self::Batched => ("Key-value store, 64 puts in each request (Figures 2 and 3)", "clients"),
            Self::Contracts => ("Contracts (section IX)", "alone, continent, world"),
        }
    }

    /// The points of the sweep.
    #[must_use]
    pub fn points(self) -> Vec<Point> {
        match self {
            Self::Single => key_value(1),
            Self::Batched => key_value(64),
            Self::Contracts => {
                let alone = Setting { variant: Variant::Alone, c: 0, ..Setting::PAPER };
                let mut points = vec![Point { series: "no replication".into(), at: 0.0, setting: alone }];
                for (name, variant, c) in [LADDER[0], LADDER[4]] {
                    for (at, topology) in [(1.0, Topology::Continent), (2.0, Topology::World)] {
                        let setting = Setting { variant, c, topology, ..Setting::PAPER };
                        points.push(Point { series: name.into(), at, setting });
                    }
                }
                points
            }
        }
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
                points.push(Point { series: format!("{name}, {crashed} crashed"), at: clients as f64, setting });
            }
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_of_every_figure_is_possible() {
        for point in Figure::ALL.into_iter().flat_map(Figure::points) {
            assert_eq!(point.setting.check(), Ok(()), "{} {}", point.series, point.at);
        }
    }
}
