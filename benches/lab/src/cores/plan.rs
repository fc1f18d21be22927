//! Commands of each part, sized by the time that it has.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Transactions per second of native transfers on one core, on the machine that the shares of time are of.
const USUAL_RATE: f64 = 1_250_000.0;

/// Transactions of a block per core: fewer would not keep many cores busy.
const TXS_PER_CORE: usize = 25_000;

/// A part of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Native transfers, beside the model of more cores
    Native,
    /// ERC20 transfers, beside the model
    Erc20,
    /// A mix of loads, beside the model
    Mixed,
    /// Native transfers whose senders are recovered inside the timer
    Recovery,
    /// Native transfers with Ethereum's root
    Root,
    /// Recorded blocks of a chain
    Blocks,
    /// A node from signed bytes to durable blocks, with its clients, on all cores
    Node,
}

impl Part {
    /// Name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Erc20 => "erc20",
            Self::Mixed => "mixed",
            Self::Recovery => "recovery",
            Self::Root => "root",
            Self::Blocks => "blocks",
            Self::Node => "node",
        }
    }

    /// Share of the time, beside those of the other parts.
    pub const fn weight(self) -> u32 {
        match self {
            Self::Native | Self::Erc20 | Self::Recovery | Self::Root => 2,
            Self::Mixed | Self::Blocks | Self::Node => 3,
        }
    }
}

/// Arguments of a short run on one core, whose rate sizes all others.
pub fn pilot() -> Vec<String> {
    words(
        "bench run --workload native --accounts 65536 --txs 100000 --block-txs 25000 --executor dag --threads 1 --oracle off --json -",
    )
}

/// Arguments of a command, and the cores that it has; the model has none.
pub type Command = (Option<usize>, Vec<String>);

/// Flags of a load, and its transactions.
struct Load {
    flags: String,
    txs: usize,
}

/// A machine to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of cores: powers of two, and all.
    pub counts: Vec<usize>,
    /// Seconds that this machine takes for a second of the usual one.
    slowness: f64,
    blocks: Option<PathBuf>,
}

impl Plan {
    /// A plan for `cores` cores, each of which executes `rate` native transfers per second; `blocks` has recorded ones.
    pub fn new(cores: usize, rate: f64, blocks: Option<PathBuf>) -> Self {
        let powers = core::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < cores);
        let slowness = (USUAL_RATE / rate.max(1.0)).clamp(0.1, 1e3);
        Self { counts: powers.chain([cores.max(1)]).collect(), slowness, blocks }
    }

    /// Arguments of the commands that measure `part` in about `seconds`, and the cores that each has; the model's has none. Empty if
    /// there is nothing to measure.
    pub fn commands(&self, part: Part, seconds: f64) -> Vec<Command> {
        match part {
            Part::Native => self.modelled("native", 1.0, seconds),
            Part::Erc20 => self.modelled("erc20", 2.2, seconds),
            Part::Mixed => self.modelled("mixed", 5.0, seconds),
            Part::Recovery => self.recovery(seconds),
            Part::Root => self.runs(&self.load("native --root ethereum", self.txs(0.15 * seconds, 2.2), usize::MAX)),
            Part::Blocks => self.replays(seconds),
            Part::Node => self.nodes(seconds),
        }
    }

    /// Transactions that one core executes in `seconds`, each at `cost` of a native transfer.
    fn txs(&self, seconds: f64, cost: f64) -> usize {
        let txs = seconds * USUAL_RATE / (cost * self.slowness);
        (txs as usize).clamp(20_000, 4_000_000)
    }

    fn all(&self) -> usize {
        self.counts.last().copied().unwrap_or(1)
    }

    /// A run on every count, and the model from a fraction of the same load, which it goes through a hundred times.
    fn modelled(&self, workload: &str, cost: f64, seconds: f64) -> Vec<Command> {
        let few = self.txs(0.02 * seconds, cost);
        let load = self.load(workload, self.txs(0.15 * seconds, cost), few / 4);
        let threads = self.all().min(2);
        // The machine's own bandwidths are in what is measured.
        let few = format!(
            "bench scale {} --txs {few} --threads {threads} --tx-memory-bytes 0 --tx-disk-bytes 0 --json -",
            load.flags
        );
        let mut commands = self.runs(&load);
        commands.push((None, words(&few)));
        commands
    }

    /// Flags of a load with blocks of at most `most` transactions.
    fn load(&self, workload: &str, txs: usize, most: usize) -> Load {
        let block = (TXS_PER_CORE * self.all()).clamp(50_000, 500_000).min(txs / 4).min(most);
        let (accounts, pin) = (if txs < 1_000_000 { 1 << 17 } else { 1 << 20 }, pin());
        let flags = format!(
            "--workload {workload} --accounts {accounts} --block-txs {block} --block-gas 500000000000 --executor dag \
             --oracle off{pin}"
        );
        Load { flags, txs }
    }

    fn runs(&self, load: &Load) -> Vec<Command> {
        let Load { flags, txs } = load;
        let run =
            |count: &usize| (Some(*count), words(&format!("bench run {flags} --txs {txs} --threads {count} --json -")));
        self.counts.iter().map(run).collect()
    }

    /// Signing, which all cores do before the timer starts, takes ten times as long as recovery.
    fn recovery(&self, seconds: f64) -> Vec<Command> {
        let each = self.slowness * (60e-6 / self.all() as f64 + 2.0 * 7e-6);
        let txs = ((0.5 * seconds / each) as usize).clamp(10_000, 1_000_000);
        self.runs(&self.load("native --signatures on", txs, usize::MAX))
    }

    fn replays(&self, seconds: f64) -> Vec<Command> {
        let Some(blocks) = &self.blocks else { return Vec::new() };
        let (pin, repeat) = (pin(), if seconds > 60.0 { 3 } else { 1 });
        let replay = |count: &usize| {
            let mut command = vec!["replay".to_owned(), blocks.to_string_lossy().into_owned()];
            command.extend(words(&format!("--threads {count} --repeat {repeat}{pin} --json -")));
            (Some(*count), command)
        };
        self.counts.iter().map(replay).collect()
    }

    fn nodes(&self, seconds: f64) -> Vec<Command> {
        // Its sockets and clients run on all cores, whatever threads the engine has.
        let Some(count) = self.counts.last() else { return Vec::new() };
        let txs = ((seconds * 8_000.0 / self.slowness) as usize).clamp(5_000, 200_000);
        let (writers, window) = (4.max(*count), 20_000 * count.div_ceil(2));
        // A period has one block: its gas is no limit.
        let gas = 21_000 * window;
        let flags = format!("--threads {count} --txs {txs} --writers {writers} --window {window} --gas-limit {gas}");
        vec![(Some(*count), words(&format!("bench node --runs frames {flags} --json -")))]
    }
}

/// The flag that gives worker *i* core *i*, where the system can.
const fn pin() -> &'static str {
    if cfg!(target_os = "linux") { " --pin on" } else { "" }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(command: &[String], name: &str) -> usize {
        let at = command.iter().position(|word| word == name).expect("the flag");
        command[at + 1].parse().expect("a number")
    }

    #[test]
    fn counts_are_powers_of_two_and_all() {
        let counts = |cores| Plan::new(cores, 1e6, None).counts;
        assert_eq!((counts(1), counts(2), counts(12)), (vec![1], vec![1, 2], vec![1, 2, 4, 8, 12]));
    }

    #[test]
    fn sizes_follow_the_time_and_the_machine() {
        let txs = |rate, seconds| flag(&Plan::new(2, rate, None).commands(Part::Native, seconds)[0].1, "--txs");
        assert_eq!(txs(1_250_000.0, 8.0), 1_500_000);
        assert_eq!(txs(125_000.0, 8.0), 150_000, "a tenth on a machine of a tenth");
        assert_eq!((txs(1.0, 1.0), txs(1e9, 1e9)), (20_000, 4_000_000), "within bounds");
    }

    #[test]
    fn the_model_has_the_blocks_of_the_run_and_blocks_are_those_of_many_cores() {
        for (cores, seconds) in [(2, 4.0), (2, 64.0), (96, 64.0)] {
            let plan = Plan::new(cores, USUAL_RATE, None);
            let commands = plan.commands(Part::Erc20, seconds);
            let [runs @ .., (None, model)] = &commands[..] else { panic!("runs and a model") };
            assert_eq!(
                runs.iter().map(|(count, _)| *count).collect::<Vec<_>>(),
                plan.counts.iter().map(|count| Some(*count)).collect::<Vec<_>>()
            );
            for (count, run) in runs {
                for same in ["--block-txs", "--accounts"] {
                    assert_eq!(flag(run, same), flag(model, same));
                }
                assert!(flag(model, "--txs") >= 4 * flag(run, "--block-txs"), "{model:?}");
                assert_eq!(Some(flag(run, "--threads")), *count);
            }
        }
    }

    #[test]
    fn without_recorded_blocks_none_is_replayed() {
        assert!(Plan::new(4, 1e6, None).commands(Part::Blocks, 9.0).is_empty());
        let plan = Plan::new(4, 1e6, Some("a folder".into()));
        let replays = plan.commands(Part::Blocks, 9.0);
        assert_eq!(replays.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [Some(1), Some(2), Some(4)]);
        assert!(replays.iter().all(|(_, command)| command[1] == "a folder"));
    }
}
