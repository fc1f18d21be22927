//! `bench recovery`: signers of batches side by side, beside libsecp256k1 on the same signatures.

use crate::{
    config::heading,
    doctor,
    error::Usage,
    machine::host,
    report::Output,
    result::{Host, SCHEMA, Tool},
    ui::Ui,
    written::{self, Named},
};
use alloy_consensus::crypto::secp256k1::sign_message;
use alloy_primitives::B256;
use clap::{Args, ValueEnum};
use phalanx_recovery::{Instructions, Signature, recover_batch_by};
use rand::{RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Time of a batch in a round: many batches, so that the clock does not count.
const SPELL: Duration = Duration::from_millis(20);

/// Largest batch.
const MOST: usize = 1 << 16;

/// Instructions that recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// Eight lanes
    Avx512Ifma,
    /// Four lanes
    Avx2,
    /// Two lanes, on 64-bit Arm; never chosen by itself
    Neon,
    /// libsecp256k1, one signature after the other
    None,
}

impl Set {
    const fn instructions(self) -> Instructions {
        match self {
            Self::Avx512Ifma => Instructions::Avx512Ifma,
            Self::Avx2 => Instructions::Avx2,
            Self::Neon => Instructions::Neon,
            Self::None => Instructions::None,
        }
    }

    /// The set that a pool and a validator use on this machine.
    fn detected() -> Self {
        let detected = Instructions::detected();
        Self::value_variants().iter().copied().find(|set| set.instructions() == detected).unwrap_or(Self::None)
    }
}

/// Settings of a measurement of recovery.
#[derive(Clone, Debug, Args)]
pub struct RecoveryConfig {
    /// Instructions [default: those that this machine's pool uses]
    #[arg(long, value_name = "SET")]
    pub instructions: Option<Set>,
    /// Signatures of a batch; repeatable, or separated by commas
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2,4,8,16,64,1000")]
    pub batch: Vec<usize>,
    /// Rounds, in each of which all batches take turns; the median is shown
    #[arg(long, default_value_t = 9, help_heading = heading::MEASURE)]
    pub runs: usize,
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Recovered {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Program that measured.
    tool: Tool,
    /// Machine that it ran on.
    host: Host,
    /// Instructions that were measured.
    instructions: Set,
    /// Batches in the order of the flag.
    batches: Vec<Batch>,
}

/// Times of one batch, of one core, from digest and 65 bytes to the address.
#[derive(Serialize, JsonSchema)]
struct Batch {
    /// Signatures.
    signatures: usize,
    /// µs per signature.
    us: f64,
    /// µs per signature of libsecp256k1, in the same rounds.
    libsecp256k1_us: f64,
    /// The second divided by the first.
    gain: f64,
}

/// Schema of what is written.
pub(super) fn schema() -> Named {
    written::schema::<Recovered>("bench-recovery", "bench recovery --json")
}

/// Measures recovery on one core; `None` if the user stopped it.
///
/// # Errors
/// The settings describe no run, the processor lacks the instructions, or two ways give different signers.
pub fn run(config: &RecoveryConfig, ui: &Ui) -> anyhow::Result<Option<Output>> {
    let set = config.instructions.unwrap_or_else(Set::detected);
    if !set.instructions().is_available() {
        let why = "this processor lacks these instructions: `phalanx bench recovery` takes those that it has";
        return Err(Usage(why.into()).into());
    }
    if config.batch.iter().any(|len| !(1..=MOST).contains(len)) || !(1..=1_000).contains(&config.runs) {
        return Err(Usage(format!("--batch must be between 1 and {MOST}, and --runs between 1 and 1000")).into());
    }
    let most = config.batch.iter().copied().max().unwrap_or(1);
    let signatures = signatures(most)?;
    let ways = [set.instructions(), Instructions::None];
    let [ours, theirs] = ways.map(|way| recover_batch_by(way, &signatures));
    anyhow::ensure!(ours == theirs, "lanes and libsecp256k1 give different signers");

    let mut times = vec![[Vec::new(), Vec::new()]; config.batch.len()];
    let bar = ui.bar("recovering", config.runs as u64);
    for round in 0..config.runs {
        for (times, len) in times.iter_mut().zip(&config.batch) {
            // Who is first in a round is last in the next one.
            for way in [round % 2, 1 - round % 2] {
                if ui.stopped() {
                    return Ok(None);
                }
                times[way].push(spell(ways[way], &signatures[..*len]));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();

    let batches: Vec<Batch> = times.into_iter().zip(&config.batch).map(|(times, len)| batch(*len, times)).collect();
    let mut text = format!("{:>10} {:>10} {:>14} {:>7}\n", "signatures", "µs each", "libsecp256k1", "gain");
    for Batch { signatures, us, libsecp256k1_us, gain } in &batches {
        text.push_str(&format!("{signatures:>10} {us:>10.2} {libsecp256k1_us:>14.2} {gain:>7.2}\n"));
    }
    let name = set.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    text.push_str(&format!("\nOne core, {name}; digest and 65 bytes to address; both ways gave the same signers.\n"));
    let (tool, host) = (host::tool(), doctor::host(None));
    let value = written::value(&Recovered { schema: SCHEMA, tool, host, instructions: set, batches });
    Ok(Some(Output { value, claim: None, text, csv: None, picture: None }))
}

/// Signatures of keys and digests that follow from a seed.
fn signatures(count: usize) -> anyhow::Result<Vec<(B256, Signature)>> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut word = || {
        let mut word = B256::ZERO;
        random.fill_bytes(&mut word.0);
        word
    };
    let mut sign = || {
        let (key, digest) = (word(), word());
        let signature = sign_message(key, digest)?;
        let mut bytes = signature.as_bytes();
        // The number of the key, without the offset of messages.
        bytes[64] = signature.v().into();
        Ok((digest, bytes))
    };
    (0..count).map(|_| sign()).collect()
}

/// Seconds per signature, of as many batches as a spell has.
fn spell(way: Instructions, signatures: &[(B256, Signature)]) -> f64 {
    let (start, mut rounds) = (Instant::now(), 0usize);
    while rounds == 0 || start.elapsed() < SPELL {
        black_box(recover_batch_by(way, black_box(signatures)));
        rounds += 1;
    }
    start.elapsed().as_secs_f64() / (rounds * signatures.len()) as f64
}

fn batch(signatures: usize, times: [Vec<f64>; 2]) -> Batch {
    let [us, libsecp256k1_us] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        1e6 * times.get(times.len() / 2).copied().unwrap_or_default()
    });
    Batch { signatures, us, libsecp256k1_us, gain: libsecp256k1_us / us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_shows_medians_and_their_ratio() {
        let Batch { signatures, us, libsecp256k1_us, gain } =
            batch(3, [vec![4e-6, 1e-6, 2e-6], vec![9e-6, 5e-6, 6e-6]]);
        assert_eq!((signatures, us, libsecp256k1_us, gain), (3, 2.0, 6.0, 3.0));
    }

    #[test]
    fn signatures_have_signers_and_settings_have_bounds() {
        let made = signatures(9).expect("keys below the order");
        assert!(recover_batch_by(Instructions::None, &made).iter().all(Result::is_ok));
        for (batch, runs) in [(vec![0], 1), (vec![MOST + 1], 1), (vec![1], 0)] {
            let config = RecoveryConfig { instructions: Some(Set::None), batch, runs };
            assert!(run(&config, &Ui::silent()).is_err());
        }
    }
}
