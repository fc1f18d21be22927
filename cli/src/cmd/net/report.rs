//! The result of a run, as JSON and as text.

use super::{
    args::{NetArgs, PROTOCOLS},
    load::Load,
    sample::Sample,
};
use phalanx_lab::config::name_of;
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _};

/// The result of a run.
pub(crate) struct Report {
    pub(crate) blocks: u64,
    /// Blocks that sequential revm has executed with the same result.
    pub(crate) executed: u64,
    /// Blocks of each second that the fast path decided, and the slow one.
    pub(crate) paths: BTreeMap<u64, [u64; 2]>,
    /// Faults as they were given, with their hangovers in µs.
    pub(crate) hangovers: Vec<(String, Option<u64>)>,
    /// The client that believes a single message, of protocols with such messages.
    pub(crate) sample: Option<Sample>,
    pub(crate) txs: u64,
    /// Time from the first transaction to the last answer, in µs.
    pub(crate) took_us: u64,
    pub(crate) floor_us: Option<u64>,
    /// Heights whose result each replica has named.
    pub(crate) compared: Vec<usize>,
    pub(crate) state_root: String,
    /// Faults with the replica that they hit, in the order of their ends.
    pub(crate) faults: Vec<String>,
    pub(crate) replicas: Vec<Value>,
    /// True if all replicas stand at one height and every transaction is answered.
    pub(crate) settled: bool,
    pub(crate) interrupted: bool,
}

/// A quantile of sorted values.
pub(crate) fn quantile(sorted: &[u64], of: f64) -> u64 {
    let at = (sorted.len() as f64 * of) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

pub(super) fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

impl Report {
    pub(super) fn tps(&self) -> f64 {
        self.txs as f64 * 1e6 / self.took_us.max(1) as f64
    }

    /// True if every replica has named the result of every height, and there is one. Another result has ended the run before.
    pub(super) fn has_one_root(&self) -> bool {
        self.blocks > 0 && self.compared.iter().all(|heights| *heights as u64 == self.blocks)
    }

    /// True if sequential revm has executed every height. Another result has ended the run before.
    pub(super) const fn equals_serial(&self) -> bool {
        self.blocks > 0 && self.executed == self.blocks
    }

    /// Number of blocks that a path decided.
    pub(super) fn of_path(&self, path: usize) -> u64 {
        self.paths.values().map(|of| of[path]).sum()
    }

    pub(crate) fn text(&self, args: &NetArgs, load: &Load) -> String {
        let mut sorted = load.latencies_us.clone();
        sorted.sort_unstable();
        let mut text = String::new();
        let q = |of| ms(quantile(&sorted, of));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} replicas, {}: {} transactions in {} blocks, {:.0} per second",
            args.n,
            name_of(PROTOCOLS, &args.protocol),
            self.txs,
            self.blocks,
            self.tps()
        );
        let _ = writeln!(text, "latency: median {:.1} ms, p99 {:.1} ms, maximum {:.1} ms", q(0.5), q(0.99), q(1.0));
        if let Some(floor) = self.floor_us {
            let _ = writeln!(text, "floor of the distances: {:.1} ms", ms(floor));
        }
        let _ = writeln!(text, "longest time without an answer: {:.0} ms", ms(load.longest_gap_us));
        if self.of_path(0) + self.of_path(1) > 0 {
            let _ =
                writeln!(text, "decided on the fast path: {}, on the slow one: {}", self.of_path(0), self.of_path(1));
        }
        if let Some(sample) = &self.sample {
            let (verified, bytes) = (sample.verified(), sample.most_bytes());
            let _ = writeln!(text, "transactions proven by one message: {verified}, of at most {bytes} bytes each");
        }
        for (fault, us) in &self.hangovers {
            let _ = match us {
                Some(us) => writeln!(text, "hangover of {fault}: {:.0} ms", ms(*us)),
                None => writeln!(text, "hangover of {fault}: to the end of the run"),
            };
        }
        for fault in &self.faults {
            let _ = writeln!(text, "fault: {fault}");
        }
        let root = &self.state_root;
        let _ = match self.has_one_root() && self.equals_serial() {
            true => writeln!(text, "one root per height at all replicas, equal to serial execution: {root}"),
            false => writeln!(
                text,
                "{} of {} heights equal to serial execution, up to {root}; compared at each replica: {:?}",
                self.executed, self.blocks, self.compared
            ),
        };
        if !self.settled {
            let (unanswered, skipped) = (load.unanswered(), load.skipped);
            let _ = writeln!(text, "NOT settled: {unanswered} transactions without an answer, {skipped} skipped");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use phalanx_lab::written::value;
    use phalanx_workloads::{Native, TransferLoad};

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        args: NetArgs,
    }

    /// The verdicts on heights and the text of a run of four replicas.
    fn verdicts(blocks: u64, executed: u64, compared: [usize; 4]) -> (Value, Value, String) {
        let args = Flags::try_parse_from(["net"]).expect("flags").args;
        let load = TransferLoad { accounts: 2, txs: 2, signatures: true, ..Default::default() };
        let load = Load::new(Native::new(load).expect("a load"), 1, 1, 1);
        let report = Report {
            blocks,
            executed,
            paths: BTreeMap::from([(0, [2, 1])]),
            hangovers: vec![("0@1+1".into(), Some(5_000))],
            sample: None,
            txs: 1,
            took_us: 1,
            floor_us: None,
            compared: compared.into(),
            state_root: "root".into(),
            faults: Vec::new(),
            replicas: Vec::new(),
            settled: true,
            interrupted: false,
        };
        let json = value(&report.written(&args, &load));
        (json["one_root_per_height"].clone(), json["equals_serial"].clone(), report.text(&args, &load))
    }

    #[test]
    fn verdicts_come_from_the_heights_that_were_compared() {
        let claims = |text: &str| text.contains("one root per height at all replicas, equal to serial execution");
        let (one, serial, text) = verdicts(9, 9, [9; 4]);
        assert!(one == true && serial == true && claims(&text), "{text}");
        let (one, serial, text) = verdicts(9, 9, [9, 9, 8, 9]);
        assert!(one == false && serial == true && !claims(&text), "a replica lacks a height: {text}");
        let (one, serial, text) = verdicts(9, 8, [9; 4]);
        assert!(one == true && serial == false && !claims(&text), "a height was not executed: {text}");
        let (one, serial, text) = verdicts(0, 0, [0; 4]);
        assert!(one == false && serial == false && !claims(&text), "nothing was compared: {text}");
    }
}
