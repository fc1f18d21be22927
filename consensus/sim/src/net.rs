//! Links: latency and faults.

use crate::{regions, rng::Rng};

/// Latencies between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// The same latency between any two validators; µs one way.
    Uniform {
        /// Latency from validator to validator.
        validators: u64,
        /// Latency from client to fullnode.
        client: u64,
        /// Latency from fullnode to validator.
        fullnode: u64,
    },
    /// Validators spread over ten regions, clients and fullnodes beside theirs without latency, as in the paper's
    /// experiments.
    Aptos10,
}

/// A text that describes no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no topology: expected uniform:VV,CF,FV (milliseconds one way) or aptos10")]
pub struct TopologyError(String);

impl core::str::FromStr for Topology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || TopologyError(text.to_owned());
        if text == "aptos10" {
            return Ok(Self::Aptos10);
        }
        let list = text.strip_prefix("uniform:").ok_or_else(wrong)?;
        let times: Option<Vec<u64>> = list.split(',').map(micros).collect();
        match times.as_deref() {
            Some([validators, client, fullnode]) => {
                Ok(Self::Uniform { validators: *validators, client: *client, fullnode: *fullnode })
            }
            _ => Err(wrong()),
        }
    }
}

/// Parses milliseconds with at most three decimals, at most an hour, as microseconds.
fn micros(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 || whole.is_empty() {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    let us = whole.parse::<u64>().ok()?.checked_mul(1000)? + part;
    (us <= 3_600_000_000).then_some(us)
}

impl core::fmt::Display for Topology {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Uniform { validators, client, fullnode } => {
                let ms = |us: &u64| *us as f64 / 1000.0;
                write!(f, "uniform:{},{},{}", ms(validators), ms(client), ms(fullnode))
            }
            Self::Aptos10 => f.write_str("aptos10"),
        }
    }
}

impl Topology {
    /// Latency from one validator to another, in µs.
    #[must_use]
    pub fn between(&self, from: u32, to: u32) -> u64 {
        match self {
            _ if from == to => 0,
            Self::Uniform { validators, .. } => *validators,
            Self::Aptos10 => regions::one_way(from as usize % 10, to as usize % 10),
        }
    }

    /// Latency from a client to its fullnode, in µs.
    #[must_use]
    pub const fn client(&self) -> u64 {
        match self {
            Self::Uniform { client, .. } => *client,
            Self::Aptos10 => 0,
        }
    }

    /// Latency from a fullnode to its validator, in µs.
    #[must_use]
    pub const fn fullnode(&self) -> u64 {
        match self {
            Self::Uniform { fullnode, .. } => *fullnode,
            Self::Aptos10 => 0,
        }
    }
}

/// An interval in which messages between two groups are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Begin of the partition, in µs.
    pub from: u64,
    /// End of the partition, in µs.
    pub until: u64,
    /// Validators of the first group, one bit each; all others are the second.
    pub group: u128,
}

/// Faults of links until the network heals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Share of messages that are lost, per thousand.
    pub loss: u32,
    /// Share of messages that are duplicated, per thousand.
    pub duplicate: u32,
    /// Maximum extra latency of a message, which also reorders messages; in µs.
    pub jitter_us: u64,
    /// Intervals in which two groups are separated.
    pub partitions: Vec<Partition>,
    /// Time from which none of these faults happens, in µs.
    pub heals: u64,
    /// Bandwidth of a node, in bytes per millisecond; 0 for no limit.
    pub bandwidth: u64,
}

impl Faults {
    /// Latencies of the copies of a message that arrive: none, one or two.
    pub(crate) fn copies(&self, now: u64, base: u64, from: u32, to: u32, rng: &mut Rng) -> [Option<u64>; 2] {
        if now >= self.heals {
            return [Some(base), None];
        }
        let cut = |p: &Partition| {
            let side = |node: u32| p.group >> (node & 127) & 1;
            (p.from..p.until).contains(&now) && side(from) != side(to)
        };
        if self.partitions.iter().any(cut) || rng.chance(self.loss) {
            return [None, None];
        }
        let mut late = || base + if self.jitter_us == 0 { 0 } else { rng.below(self.jitter_us) };
        let first = late();
        let second = late();
        [Some(first), rng.chance(self.duplicate).then_some(second)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_read() {
        let uniform = Topology::Uniform { validators: 50_000, client: 10_500, fullnode: 1 };
        assert_eq!("uniform:50,10.5,0.001".parse(), Ok(uniform));
        assert_eq!(
            "uniform:50,10.5,0.001".parse::<Topology>().map(|t| t.to_string()),
            Ok("uniform:50,10.5,0.001".into())
        );
        assert_eq!("aptos10".parse(), Ok(Topology::Aptos10));
        for bad in [
            "",
            "uniform",
            "uniform:1,2",
            "uniform:1,2,3,4",
            "uniform:1,,3",
            "uniform:-1,2,3",
            "uniform:1.0001,2,3",
            "uniform:99999999999,1,1",
            "aptos11",
            "uniform:a,b,c",
            "uniform:1e3,2,3",
        ] {
            assert!(bad.parse::<Topology>().is_err(), "{bad}");
        }
    }
}
