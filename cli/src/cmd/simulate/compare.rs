//! `simulate compare`: ordering protocols on one load, one topology and one fault. Two runs print the same bytes.

use super::{
    evaluation::print,
    written::{OfProtocol, SideBySide, trace},
};
use crate::{exit, flags::word, ui};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    config::{Words, name_of, one_of},
    error::Usage,
    result::SCHEMA,
    written::value,
};
use phalanx_sim::autobahn::{Blip, Order, Outcome, Setting, run};
use serde_json::Value;
use std::{fmt::Write as _, path::PathBuf};

/// Ordering protocols.
const PROTOCOLS: Words<Order> = &[
    (Order::Pbft, "pbft", "Three phases, one primary"),
    (Order::Sbft, "sbft", "Collectors and threshold signatures, one primary"),
    (Order::Autobahn, "autobahn", "Lanes, cuts, rotating leaders"),
    (Order::VanillaHotStuff, "vanilla-hotstuff", "Two-chain HotStuff, batches in its blocks"),
    (Order::BatchedHotStuff, "batched-hotstuff", "Two-chain HotStuff, batches spread beforehand"),
];

/// Fault script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultName {
    /// None
    None,
    /// Replica 0 leads no longer from second 5 on, until its view is given up
    Leader,
    /// The two halves of the replicas are apart from second 5 to 10
    Halves,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// Protocols, separated by commas
    #[arg(long, value_parser = one_of(PROTOCOLS), value_delimiter = ',',
          default_values = ["pbft", "sbft", "autobahn", "batched-hotstuff", "vanilla-hotstuff"])]
    protocols: Vec<Order>,
    /// Number of replicas, in the four regions of Autobahn's evaluation by turns
    #[arg(long, default_value_t = 4)]
    replicas: usize,
    /// Transactions per second
    #[arg(long, default_value_t = 10_000)]
    tps: u64,
    /// Patience with a leader, in ms
    #[arg(long, default_value_t = 1_000)]
    timeout_ms: u64,
    /// Fault
    #[arg(long, value_enum, default_value_t = FaultName::None)]
    fault: FaultName,
    /// Virtual time, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

/// Second in which a fault begins.
const BEGIN: u64 = 5;

impl CompareArgs {
    const fn setting(&self, order: Order) -> Setting {
        let blip = match self.fault {
            FaultName::None => None,
            FaultName::Leader => Some(Blip::Leader { at_ms: BEGIN * 1_000, views: 1, late: false }),
            FaultName::Halves => Some(Blip::Halves { from_ms: BEGIN * 1_000, until_ms: 2 * BEGIN * 1_000 }),
        };
        Setting {
            order,
            n: self.replicas,
            tps: self.tps,
            timeout_ms: self.timeout_ms,
            fast_ms: Some(200),
            block_batches: 64,
            blip,
            total_ms: self.seconds.saturating_mul(1_000),
            ..Setting::BASE
        }
    }

    /// Time from the beginning of the fault until latency is at most a quarter above normal for good, in s.
    fn recovery(&self, outcome: &Outcome) -> Option<f64> {
        if self.fault == FaultName::None {
            return None;
        }
        let seconds = outcome.series.seconds();
        let latency = |at: usize| seconds.get(at).and_then(|second| second.latency_s());
        // Requests of the last second before it suffer too.
        let normal = latency(BEGIN as usize - 2)?;
        let shown = seconds.len().saturating_sub(2);
        let suffers = |at: &usize| latency(*at).is_none_or(|latency| latency > 1.25 * normal);
        let last = (0..shown).rev().find(suffers).map_or(BEGIN as usize, |last| last + 1);
        Some((last as f64 - BEGIN as f64).max(0.0))
    }

    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::open();
        let mut rows = Vec::new();
        for protocol in &self.protocols {
            if ui.stopped() {
                return Ok(exit::INTERRUPTED);
            }
            ui.say(&format!("simulating {}", protocol.name()));
            let outcome = run(&self.setting(*protocol)).map_err(|what| Usage(what.to_owned()))?;
            rows.push((*protocol, outcome));
        }
        print(&self.table(&rows), || self.to_json(&rows), self.json.as_deref())?;
        Ok(exit::OK)
    }

    fn table(&self, rows: &[(Order, Outcome)]) -> String {
        let mut text = format!(
            "{} replicas, {} tx/s, fault: {}\n{:<12} {:>9} {:>10} {:>7} {:>11} {:>10} {:>9} {:>11} {:>6} {:>9}\n",
            self.replicas,
            self.tps,
            word(self.fault),
            "",
            "tx/s",
            "latency ms",
            "ready",
            "messages/s",
            "MB/s",
            "signed/s",
            "verified/s",
            "busy",
            "recovery"
        );
        for (protocol, outcome) in rows {
            let Outcome { tps, latency_ms, answered, messages, bytes, signatures, busy, .. } = outcome;
            let recovery = self.recovery(outcome).map_or("-".into(), |s| format!("{s:.0} s"));
            let _ = writeln!(
                text,
                "{:<12} {tps:>9.0} {latency_ms:>10.1} {:>6.1}% {messages:>11.0} {:>10.1} {:>9.0} {:>11.0} {:>5.0}% {recovery:>9}",
                protocol.name(),
                answered * 100.0,
                bytes / 1e6,
                signatures.0,
                signatures.1,
                busy.0.max(busy.1) * 100.0,
            );
        }
        text
    }

    fn to_json(&self, rows: &[(Order, Outcome)]) -> Value {
        let row = |(protocol, outcome): &(Order, Outcome)| OfProtocol {
            protocol: name_of(PROTOCOLS, protocol),
            tps: outcome.tps,
            latency_ms: outcome.latency_ms,
            ready: outcome.answered,
            messages_per_second: outcome.messages,
            bytes_per_second: outcome.bytes,
            signed_per_second: outcome.signatures.0,
            verified_per_second: outcome.signatures.1,
            recovery_s: self.recovery(outcome),
            trace_hash: trace(outcome.trace),
        };
        value(&SideBySide {
            schema: SCHEMA,
            replicas: self.replicas,
            load_tps: self.tps,
            fault: word(self.fault),
            rows: rows.iter().map(row).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_stand_in_one_table() {
        let (protocols, fault) =
            (vec![Order::Autobahn, Order::VanillaHotStuff, Order::BatchedHotStuff], FaultName::Leader);
        let args =
            CompareArgs { protocols, replicas: 4, tps: 2_000, timeout_ms: 1_000, fault, seconds: 15, json: None };
        let rows: Vec<(Order, Outcome)> = (args.protocols.iter())
            .map(|protocol| (*protocol, run(&args.setting(*protocol)).expect("possible")))
            .collect();
        let text = args.table(&rows);
        assert_eq!(text.lines().count(), 5, "{text}");
        let value = args.to_json(&rows);
        assert_eq!(value["rows"].as_array().map(Vec::len), Some(3));
        assert!(value["rows"][0]["recovery_s"].as_f64().is_some_and(|seconds| seconds <= 3.0), "{text}");
    }
}
