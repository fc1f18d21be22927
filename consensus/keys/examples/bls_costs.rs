//! Times of one core for the threshold signatures of SBFT: the entries of the simulator's cost table.
//!
//! `cargo run --release -p phalanx-keys --example bls_costs`

use alloy_primitives::Bytes;
use phalanx_bft::{Claim, Group, Index};
use phalanx_keys::{Bls, KeyError, Scheme as _, deal_bls};
use std::{hint::black_box, time::Instant};

/// Statement of all signatures.
const STATEMENT: &[u8] = b"a vote";

/// Median time of some runs, in µs.
fn time(runs: usize, mut act: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            act();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), KeyError> {
    println!(
        "| replicas | shares | a share | a verification | combined and verified | for each share beyond the verification |"
    );
    println!("|---|---|---|---|---|---|");
    for (n, f) in [(4, 1), (6, 1), (193, 64), (209, 64)] {
        let files = deal_bls(n, f, &[7; 32])?;
        let schemes: Vec<Bls> = files.iter().map(Bls::new).collect::<Result<_, _>>()?;
        let c = (n - 1 - 3 * f) / 2;
        for (group, needed) in [(Group::All, n), (Group::Fast, 3 * f + c + 1), (Group::Slow, 2 * f + c + 1)] {
            let share = |at: usize| (Index(at as u16), schemes[at].share(group, STATEMENT));
            let shares: Vec<(Index, Bytes)> = (0..needed).map(share).collect();
            let signature = schemes[0].combine(group, STATEMENT, &shares).unwrap_or_default();
            let claim = Claim { signer: group.signer(), bytes: STATEMENT.to_vec(), signature };
            let made = time(21, || drop(black_box(schemes[0].share(group, STATEMENT))));
            let verified =
                time(21, || assert!(schemes[0].verify(core::slice::from_ref(&claim)).is_ok(), "a signature of all"));
            let combined = time(11, || assert!(schemes[0].combine(group, STATEMENT, &shares).is_ok(), "enough shares"));
            let each = (combined - verified) / needed as f64;
            println!(
                "| {n} | {needed} ({group:?}) | {made:.0} µs | {verified:.0} µs | {combined:.0} µs | {each:.1} µs |"
            );
        }
    }
    Ok(())
}
