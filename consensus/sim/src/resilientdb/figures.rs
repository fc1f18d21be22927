//! Sweeps of the paper's figures, at the paper's settings.

use super::paper;
use crate::{
    load::{self, Clients, Order, Outcome, Setting, Signatures},
    paper::{Comparison, Evaluation, Of, Point as PointOf},
};

/// A point of a sweep.
pub type Point = PointOf<Setting>;

/// A figure of the paper's evaluation, or the two numbers of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// PBFT in the deep pipeline against Zyzzyva on one thread, by the number of replicas.
    One,
    /// The upper bound without consensus.
    Seven,
    /// Threads and replicas.
    Eight,
    /// Utilisation of threads.
    Nine,
    /// Transactions per batch.
    Ten,
    /// Operations per transaction.
    Eleven,
    /// Length of proposals.
    Twelve,
    /// Signatures.
    Thirteen,
    /// Storage.
    Fourteen,
    /// Clients.
    Fifteen,
    /// Cores.
    Sixteen,
    /// Failed backups.
    Seventeen,
    /// Out-of-order slots, and decoupled execution.
    Text,
}

const BASE: Setting = Setting::BASE;
const THREADS: [(&str, u64, u64); 4] = [("0E0B", 0, 0), ("1E0B", 1, 0), ("1E1B", 1, 1), ("1E2B", 1, 2)];
const ORDERS: [(&str, Order); 2] = [("PBFT", Order::Pbft), ("Zyzzyva", Order::Zyzzyva)];

impl Evaluation for Figure {
    type Setting = Setting;
    type Outcome = Outcome;

    const ALL: &'static [Self] = &[
        Self::One,
        Self::Seven,
        Self::Eight,
        Self::Nine,
        Self::Ten,
        Self::Eleven,
        Self::Twelve,
        Self::Thirteen,
        Self::Fourteen,
        Self::Fifteen,
        Self::Sixteen,
        Self::Seventeen,
        Self::Text,
    ];

    fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::One => ("PBFT in a deep pipeline and Zyzzyva on one thread (Figure 1)", "replicas"),
            Self::Seven => ("Upper bound without consensus (Figure 7)", "execution, 0 or 1"),
            Self::Eight => ("Threads and replicas (Figure 8)", "replicas"),
            Self::Nine => ("Utilisation of threads (Figure 9)", "0E0B, 1E0B, 1E1B, 1E2B"),
            Self::Ten => ("Transactions per batch (Figure 10)", "transactions per batch"),
            Self::Eleven => ("Operations per transaction (Figure 11)", "operations per transaction"),
            Self::Twelve => ("Length of proposals (Figure 12)", "KB per proposal"),
            Self::Thirteen => ("Signatures (Figure 13)", "none, MAC and Ed25519, Ed25519, RSA"),
            Self::Fourteen => ("Storage (Figure 14)", "memory, SQLite"),
            Self::Fifteen => ("Clients (Figure 15)", "thousand clients"),
            Self::Sixteen => ("Cores (Figure 16)", "cores"),
            Self::Seventeen => ("Failed backups (Figure 17)", "backups down"),
            Self::Text => ("Out-of-order slots and decoupled execution (text)", "off, on"),
        }
    }

    fn points(self) -> Vec<Point> {
        match self {
            Self::One => {
                let replicas = [4, 8, 16, 32];
                let pbft = by("PBFT 1E2B", &replicas, |n| steady(Setting { n: n as usize, ..BASE }));
                let zyzzyva = |n| Setting { n: n as usize, order: Order::Zyzzyva, batch_threads: 0, ..BASE };
                let one = by("Zyzzyva 1E0B", &replicas, zyzzyva);
                let none = by("Zyzzyva 0E0B", &replicas, |n| Setting { execute_threads: 0, ..zyzzyva(n) });
                pbft.into_iter().chain(one).chain(none).collect()
            }
            Self::Seven => by("primary alone", &[0, 1], |executes| Setting {
                order: Order::Nothing,
                executes: executes == 1,
                ..BASE
            }),
            Self::Eight => architectures(&[4, 8, 16, 32]),
            Self::Nine => architectures(&[16])
                .into_iter()
                .enumerate()
                .map(|(at, point)| {
                    // Queues move slowly from one thread to another that is nearly as full.
                    let setting = Setting { warm_up_ms: if at % 4 == 3 { 20_000 } else { 1_000 }, ..point.setting };
                    Point::new(ORDERS[at / 4].0, (at % 4) as f64, setting)
                })
                .collect(),
            Self::Ten => by("PBFT", &[1, 10, 50, 100, 500, 1000, 3000, 5000], |batch| Setting { batch, ..BASE }),
            Self::Eleven => (2..=5)
                .flat_map(|batch_threads| {
                    let of = |operations| Setting { operations, batch_threads, ..BASE };
                    by(&format!("{batch_threads}B"), &[1, 10, 20, 30, 50], of)
                })
                .collect(),
            Self::Twelve => by("PBFT", &[8, 16, 32, 64], |kb| Setting { proposal_bytes: Some(kb << 10), ..BASE }),
            Self::Thirteen => {
                let all = [Signatures::None, Signatures::MacAndEd25519, Signatures::Ed25519, Signatures::Rsa];
                by("PBFT", &[0, 1, 2, 3], |at| Setting { signatures: all[at as usize], ..BASE })
            }
            Self::Fourteen => by("PBFT", &[0, 1], |sqlite| Setting { sqlite: sqlite == 1, ..BASE }),
            Self::Fifteen => {
                by("PBFT", &[4, 8, 16, 32, 64, 80], |k| Setting { clients: Clients::Closed(k * 1000), ..BASE })
            }
            Self::Sixteen => by("PBFT", &[1, 2, 4, 8], |cores| Setting { cores, ..BASE }),
            Self::Seventeen => ORDERS
                .iter()
                .flat_map(|(name, order)| {
                    by(name, &[0, 1, 5], |down| Setting { down: down as usize, order: *order, ..BASE })
                })
                .collect(),
            Self::Text => {
                let window = |on| Setting { window: (on == 0).then_some(1), ..BASE };
                let execute = |on| Setting { execute_threads: on, batch_threads: 0, ..BASE };
                let slots = by("out-of-order slots", &[0, 1], window);
                slots.into_iter().chain(by("decoupled execution", &[0, 1], execute)).collect()
            }
        }
    }

    fn check(setting: &Setting) -> Result<(), &'static str> {
        setting.check()
    }

    fn run(setting: &Setting) -> Result<Outcome, &'static str> {
        load::run(setting)
    }

    fn numbers(self, of: &Of<'_, Outcome>) -> Vec<Comparison> {
        paper::numbers(self, of)
    }
}

fn by(series: &str, values: &[u64], setting: impl Fn(u64) -> Setting) -> Vec<Point> {
    let point = |value: &u64| Point::new(series, *value as f64, setting(*value));
    values.iter().map(point).collect()
}

/// More time for many replicas: fewer batches per second need more of it until queues keep their length.
const fn steady(setting: Setting) -> Setting {
    if setting.n < 32 { setting } else { Setting { warm_up_ms: 4_000, ..setting } }
}

/// PBFT, then Zyzzyva, by replicas, in all architectures.
fn architectures(replicas: &[u64]) -> Vec<Point> {
    let mut points = Vec::new();
    for (protocol, order) in ORDERS {
        for n in replicas {
            for (name, execute_threads, batch_threads) in THREADS {
                let setting = steady(Setting { order, n: *n as usize, execute_threads, batch_threads, ..BASE });
                points.push(Point::new(format!("{protocol} {name}"), *n as f64, setting));
            }
        }
    }
    points
}
