//! Prints the number of transactions per frame and the causes of leaving, by contention.
//!
//! `cargo run --release -p phalanx-paraframer --example tlp` prints a Markdown table. All figures are counts of a
//! seeded load, so they are the same on every machine.

use load::{Hot, Load};
use phalanx_access::Access::{Credit, Write};
use phalanx_paraframer::{Cause, Frame, Framer};

#[path = "../benches/load.rs"]
mod load;

const TXS: usize = 1 << 18;

fn main() {
    println!("| α | γ | hot side | receiver | txs / frame | full | aged or before | crowded |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut loads = vec![Load::UNIFORM];
    for (alpha, gamma) in [(0.5, 100), (0.5, 1000), (0.99, 100), (0.99, 1000)] {
        for hot in [Hot::Sender, Hot::Receiver, Hot::Both] {
            loads.push(Load { alpha, gamma, hot, receive: Credit });
        }
    }
    for receive in [Credit, Write] {
        for load in &loads {
            let load = Load { receive, ..*load };
            let (mut frames, mut full, mut aged, mut crowded) = (0u32, 0u32, 0u32, 0u32);
            let mut framer = Framer::default();
            let mut emit = |frame: Frame<'_, usize>| {
                frames += 1;
                match frame.cause {
                    Cause::Full => full += 1,
                    Cause::Aged | Cause::Precedes => aged += 1,
                    Cause::Crowded => crowded += 1,
                    Cause::Flushed => {}
                }
            };
            for (index, tx) in load.transfers(TXS, 1).iter().enumerate() {
                framer.push(index, tx.keys[0].0, 21_000, &tx.keys, &mut emit);
            }
            framer.flush(&mut emit);
            let Load { alpha, gamma, hot, receive } = load;
            let mean = TXS as f64 / f64::from(frames);
            println!("| {alpha} | {gamma} | {hot:?} | {receive:?} | {mean:.1} | {full} | {aged} | {crowded} |");
        }
    }
}
