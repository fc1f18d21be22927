//! Settings of each protocol, and what happens in their histories.

use super::{history::History, trace::Trace};
use phalanx_bft::{Domain, Quorums, autobahn, pbft, sbft};
use phalanx_world::{Facts, Pace};

const SEEDS: u64 = 6;
const STEPS: usize = 3_000;

/// Runs the histories of a setting, and returns what happened in all of them.
fn histories<P: Facts + Clone>(
    (n, f): (usize, usize),
    binds: fn(&P::Record) -> bool,
    change: impl Fn(&mut P::Config),
) -> Trace {
    let pace = Pace { interval: 4, timeout: 20_000, resend: 5_000 };
    let quorums = Quorums::new(n, f).expect("a legal size");
    let mut all = Trace::default();
    for seed in 0..SEEDS {
        let mut config = P::config(quorums, Domain::unnamed(7, 3), pace);
        change(&mut config);
        let Trace { records, messages, decisions, taken, refused, .. } = all;
        let trace = History::<P>::begin(config, 8, binds, seed).run(STEPS);
        all.note(format!("{trace:?}").as_bytes());
        all.records = records + trace.records;
        all.messages = messages + trace.messages;
        all.decisions = decisions + trace.decisions;
        (all.taken, all.refused) = (taken + trace.taken, refused + trace.refused);
    }
    all
}

/// Asserts that a replica answers these kinds of messages until their sender's budget is spent.
fn answers_end<P: Facts + Clone>(kinds: &[u8]) {
    let pace = Pace { interval: 4, timeout: 20_000, resend: 5_000 };
    let config = P::config(Quorums::new(4, 1).expect("a legal size"), Domain::unnamed(7, 3), pace);
    let answered = History::<P>::begin(config, 8, |_| false, 3).questions(kinds, STEPS, pace.resend);
    assert_eq!(answered, kinds);
}

#[test]
fn answers_end_with_a_budget() {
    // Fetch and status; the same; questions for cars and cuts, status.
    answers_end::<pbft::Pbft>(&[7, 9]);
    answers_end::<sbft::Sbft>(&[13, 15]);
    answers_end::<autobahn::Autobahn>(&[11, 13, 15]);
}

/// Compares the traces of all settings with their pins, and prints them as they are.
fn compare(found: &[(&str, Trace)], pinned: &[(&str, [u64; 6])]) {
    let text: String = found.iter().map(|(name, trace)| format!("    (\"{name}\", {trace:?}),\n")).collect();
    let same = found.len() == pinned.len()
        && found.iter().zip(pinned).all(|((name, trace), pin)| *name == pin.0 && *trace == Trace::of(pin.1));
    assert!(same, "records, messages, decisions, taken, refused, hash:\n{text}");
}

#[test]
fn pbft_does_what_it_did() {
    use pbft::{Pbft, Record};
    // What is learned is not logged, so that a restart fetches its batch anew.
    let binds = |record: &Record| !matches!(record, Record::Batch(_));
    let found = [
        ("n = 4", histories::<Pbft>((4, 1), binds, |_| ())),
        ("n = 5", histories::<Pbft>((5, 1), binds, |config| config.interval = 2)),
        ("n = 7", histories::<Pbft>((7, 2), binds, |config| config.undecided_bytes = config.batch_bytes)),
    ];
    compare(&found, PBFT);
}

#[test]
fn sbft_does_what_it_did() {
    use sbft::{Paths, Record, Replies, Sbft};
    let binds = |record: &Record| !matches!(record, Record::Batch(_));
    let found = [
        ("n = 4", histories::<Sbft>((4, 1), binds, |_| ())),
        ("n = 6, c = 1", histories::<Sbft>((6, 1), binds, |config| config.all_wait = Some(3_000))),
        ("n = 4, linear", histories::<Sbft>((4, 1), binds, |config| config.paths = Paths::Linear)),
        ("n = 7", histories::<Sbft>((7, 2), binds, |config| config.replies = Replies::Each)),
    ];
    compare(&found, SBFT);
}

#[test]
fn autobahn_does_what_it_did() {
    use autobahn::{Autobahn, Record, Spread, Tips};
    // In no log: cuts without an own vote, votes on cars that a logged one implies, and a leader's ticket in the place of the own.
    let binds = |record: &Record| !matches!(record, Record::Cut(..) | Record::LaneVote(_) | Record::Ticket(_));
    let found = [
        ("n = 4", histories::<Autobahn>((4, 1), binds, |_| ())),
        ("n = 5, all to all", histories::<Autobahn>((5, 1), binds, |config| config.spread = Spread::AllToAll)),
        ("n = 4, certified", histories::<Autobahn>((4, 1), binds, |config| config.tips = Tips::Certified)),
        ("n = 7, slow", histories::<Autobahn>((7, 2), binds, |config| (config.fast, config.tips) = (None, Tips::Own))),
    ];
    compare(&found, AUTOBAHN);
}

const PBFT: &[(&str, [u64; 6])] = &[
    ("n = 4", [1369, 13438, 841, 13281, 2633, 0x81f67a7c674dd04d]),
    ("n = 5", [1126, 10439, 400, 12527, 2943, 0x0f5c0b81087fd4e1]),
    ("n = 7", [1143, 11623, 361, 13492, 1944, 0x2ce8bb149380ca0f]),
];
const SBFT: &[(&str, [u64; 6])] = &[
    ("n = 4", [1829, 9980, 520, 13174, 5249, 0x7bb712e1b048d194]),
    ("n = 6, c = 1", [1229, 9882, 300, 14234, 4889, 0xc415b938b35e48e7]),
    ("n = 4, linear", [2224, 9864, 600, 13014, 5692, 0x32a010d94156480e]),
    ("n = 7", [1219, 13512, 431, 10456, 4608, 0xf542aaddc9f06cf1]),
];
const AUTOBAHN: &[(&str, [u64; 6])] = &[
    ("n = 4", [3534, 6908, 501, 7510, 8873, 0xbfee4556662deacc]),
    ("n = 5, all to all", [2458, 5664, 393, 6938, 8019, 0x048d2478ea4308b4]),
    ("n = 4, certified", [4001, 6976, 695, 7796, 8872, 0xe098a738d39e5209]),
    ("n = 7, slow", [2740, 5155, 127, 7454, 7822, 0x58a63617904c71a4]),
];
