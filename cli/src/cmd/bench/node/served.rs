//! A node in a process of its own, as an operator starts it.

use super::{client::Client, load::Load};
use crate::cmd::process::Process;
use anyhow::{Context as _, bail, ensure};
use phalanx_lab::machine::temporary::Temporary;
use phalanx_node::{IngressAddress, Production};
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Time until the node answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// Interval at which the node's first words are looked for.
const PAUSE: Duration = Duration::from_millis(5);

/// A running node. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) rpc: SocketAddr,
    pub(super) ingress: IngressAddress,
    metrics: SocketAddr,
    process: Process,
    _folder: Temporary,
}

/// Processor time, memory and work of a node so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    /// Processor time of the process, in seconds.
    pub(super) cpu: f64,
    /// Resident memory of the process, in bytes.
    pub(super) resident: f64,
    /// Seconds of work by name, as the node counts them.
    pub(super) stages: Vec<(String, f64)>,
    /// Seconds of processor time by name of the threads, as the kernel counts them; empty where it does not.
    pub(super) threads: Vec<(String, f64)>,
}

impl Served {
    /// Starts a node on a new chain.
    pub(super) fn start(load: &Load, production: Production, threads: Option<usize>) -> anyhow::Result<Self> {
        let folder = Temporary::new()?;
        let (genesis, log) = (folder.path().join("genesis.json"), folder.path().join("log"));
        fs::write(&genesis, serde_json::to_vec(&load.genesis)?)?;
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        let blocks = match production {
            Production::Every(period) => format!("{}ms", period.as_millis()),
            _ => "instant".into(),
        };
        let free = "127.0.0.1:0";
        command.args([
            "node",
            "--blocks",
            &blocks,
            "--rpc",
            free,
            "--metrics",
            free,
            "--ingress",
            free,
            "--log",
            "warn",
        ]);
        command.arg("--genesis").arg(&genesis).arg("--datadir").arg(folder.path().join("data"));
        command.args(["--gas-limit", &load.genesis.gas_limit.to_string()]);
        command.args(threads.map(|threads| format!("--threads={threads}")));
        let mut process = Process::start(&mut command, log.clone())?;
        let end = Instant::now() + PATIENCE;
        let words = loop {
            let words = fs::read_to_string(&log)?;
            if words.contains("JSON-RPC at http://") && words.ends_with('\n') {
                break words;
            }
            if !process.runs() {
                bail!("the node has ended: {}", process.last_words());
            }
            ensure!(Instant::now() < end, "the node does not start within {} s", PATIENCE.as_secs());
            thread::sleep(PAUSE);
        };
        let address = |before: &str| {
            let rest = words.split_once(before).map(|(_, rest)| rest);
            let end = |rest: &str| rest.find(|end: char| end.is_whitespace() || end == '/').unwrap_or(rest.len());
            let text = rest.map(|rest| &rest[..end(rest)]);
            text.with_context(|| format!("the node does not say where {before} is: {words}"))
        };
        Ok(Self {
            rpc: address("JSON-RPC at http://")?.parse()?,
            ingress: IngressAddress::Tcp(address("transactions in frames at ")?.parse()?),
            metrics: address("metrics at http://")?.parse()?,
            process,
            _folder: folder,
        })
    }

    /// Processor time, memory and work so far.
    pub(super) fn used(&self) -> anyhow::Result<Used> {
        let page = Client::connect(self.metrics)?.page("/metrics")?;
        let value = |what| value(&page, what).with_context(|| format!("the node does not say its {what}"));
        Ok(Used {
            cpu: value("process_cpu_seconds")?,
            resident: value("process_resident_memory_bytes")?,
            stages: stages(&page),
            threads: threads(self.process.id()),
        })
    }

    /// Ends the node in order.
    pub(super) fn stop(self) {
        self.process.ask_to_end();
        self.process.end();
    }
}

impl Used {
    /// The part of it since then.
    pub(super) fn since(&self, before: &Self) -> Self {
        let (stages, threads) = (spent(&self.stages, &before.stages), spent(&self.threads, &before.threads));
        let resident = self.resident - before.resident;
        Self { cpu: self.cpu - before.cpu, resident, stages, threads }
    }
}

/// Differences of seconds by name, longest first.
fn spent(after: &[(String, f64)], before: &[(String, f64)]) -> Vec<(String, f64)> {
    let earlier = |name: &str| before.iter().find(|(other, _)| other == name).map_or(0.0, |(_, seconds)| *seconds);
    let mut spent: Vec<_> = after.iter().map(|(name, seconds)| (name.clone(), seconds - earlier(name))).collect();
    spent.sort_by(|(name, a), (other, b)| b.total_cmp(a).then_with(|| name.cmp(other)));
    spent
}

/// Processor time of the threads of a process, in seconds, summed up by their names without numbers. Threads that have ended are not
/// there.
fn threads(process: u32) -> Vec<(String, f64)> {
    let mut all = BTreeMap::<String, f64>::new();
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).ok();
        let (Some(name), Some(times)) = (read("comm"), read("schedstat")) else { continue };
        let Some(nanos) = times.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()) else { continue };
        let name = name.trim_end().trim_end_matches(|end: char| end.is_ascii_digit() || end == '-');
        *all.entry(name.to_owned()).or_default() += nanos as f64 / 1e9;
    }
    all.into_iter().collect()
}

/// Values of a page of metrics.
fn values(page: &str) -> impl Iterator<Item = (&str, f64)> {
    page.lines().filter_map(|line| line.rsplit_once(' ')).filter_map(|(name, value)| Some((name, value.parse().ok()?)))
}

/// The first value with such a name.
fn value(page: &str, what: &str) -> Option<f64> {
    values(page).find(|(name, _)| name.contains(what)).map(|(_, value)| value)
}

/// Seconds by stage.
fn stages(page: &str) -> Vec<(String, f64)> {
    let stage = |(name, seconds): (&str, f64)| {
        let label = name.split('"').nth(1).unwrap_or_default();
        let is_send = matches!(label, "eth_sendRawTransaction" | "ingress");
        if name.starts_with("phalanx_rpc_request_seconds_sum") && is_send {
            Some(("admission".to_owned(), seconds))
        } else if name.starts_with("phalanx_producer_block_seconds_sum") {
            Some(("blocks".to_owned(), seconds))
        } else if name.starts_with("phalanx_engine_stage_seconds_total") {
            Some((format!("engine: {label}"), seconds))
        } else {
            None
        }
    };
    values(page).filter_map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP x\n\
        process_cpu_seconds_total 3.25\n\
        phalanx_rpc_request_seconds_sum{method=\"eth_getBalance\"} 9\n\
        phalanx_rpc_request_seconds_sum{method=\"eth_sendRawTransaction\"} 1.5\n\
        phalanx_rpc_request_seconds_count{method=\"eth_sendRawTransaction\"} 7\n\
        phalanx_producer_block_seconds_sum 0.5\n\
        phalanx_engine_stage_seconds_total{stage=\"execute\"} 2.25\n";

    #[test]
    fn processor_time_and_stages_are_read_from_the_metrics() {
        let expected = [("admission", 1.5), ("blocks", 0.5), ("engine: execute", 2.25)];
        assert_eq!(stages(PAGE), expected.map(|(name, seconds)| (name.to_owned(), seconds)));
        let cpu = |page| value(page, "process_cpu_seconds");
        assert_eq!((cpu(PAGE), cpu("process_threads 3\n")), (Some(3.25), None));
        let threads = |seconds| vec![("phalanx-rpc".to_owned(), seconds)];
        let before = Used { cpu: 3.0, resident: 5.0, stages: vec![("blocks".into(), 0.25)], threads: threads(0.5) };
        let after = Used { cpu: 3.25, resident: 7.0, stages: stages(PAGE), threads: threads(0.75) }.since(&before);
        let names: Vec<_> = after.stages.iter().map(|(name, seconds)| (&name[..], *seconds)).collect();
        assert_eq!((after.cpu, names), (0.25, vec![("engine: execute", 2.25), ("admission", 1.5), ("blocks", 0.25)]));
        assert_eq!((after.threads, after.resident), (threads(0.25), 2.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn threads_of_a_process_have_their_time() {
        let busy = std::thread::Builder::new().name("busy-7".into());
        let (done, end) = std::sync::mpsc::channel::<()>();
        let counted = busy.spawn(move || {
            let mut hash = alloy_primitives::B256::ZERO;
            while matches!(end.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                hash = alloy_primitives::keccak256(hash);
            }
            hash
        });
        let begun = Instant::now();
        let is_there = || threads(std::process::id()).iter().any(|(name, seconds)| name == "busy" && *seconds > 0.0);
        while !is_there() {
            assert!(begun.elapsed() < PATIENCE, "no time of the thread");
        }
        drop(done);
        counted.expect("a thread").join().expect("no panic");
    }
}
