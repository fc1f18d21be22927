//! `kill -9` of the node in every kind of call, under a client that repeats what was not answered.

use super::{
    beacon::{Driven, Payload, attributes, driven, state},
    model::{Choice, Model, fork_at, passing, tree},
    scripts::{choice, choose, finish},
};
use alloy_primitives::B256;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::{io::Read as _, path::Path, time::Duration};

/// Folder of the node, in the environment of a process that is to be killed.
const FOLDER: &str = "PHALANX_KILLED_CLIENT";

/// Name of the test, for its processes.
const NAME: &str = "engine_api::deaths::kills_lose_no_final_block_and_no_receipt";

/// Number of steps of a script.
const STEPS: usize = 60;

/// Time after the begin of a call within which its node dies, in microseconds: most calls are over before.
const MOMENTS: u64 = 12_000;

/// A node until its parent ends.
fn run(folder: &Path) {
    let node = Driven::start(&driven(folder, passing()));
    node.publish(folder);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// A step of a client.
enum Step<'a> {
    Offer(&'a Payload),
    Choose(Choice),
    /// Begins a payload of a fork on the head.
    Begin(u8, Value),
    /// Fetches the payload of a job.
    Fetch(u8, Value),
}

impl Step<'_> {
    /// Method and parameters.
    fn call(&self) -> (String, Value) {
        match self {
            Self::Offer(payload) => {
                let (version, args) = payload.args();
                (format!("engine_newPayloadV{version}"), args)
            }
            Self::Choose(Choice { head, safe, finalised }) => {
                ("engine_forkchoiceUpdatedV3".into(), json!([state(*head, *safe, *finalised), null]))
            }
            Self::Begin(fork, params) => (begins(*fork).into(), params.clone()),
            Self::Fetch(fork, id) => (format!("engine_getPayloadV{fork}"), json!([id])),
        }
    }
}

/// The method by which a payload of a fork begins.
const fn begins(fork: u8) -> &'static str {
    if fork < 6 { "engine_forkchoiceUpdatedV3" } else { "engine_forkchoiceUpdatedV4" }
}

/// A client with its node, which dies now and then.
struct Client<'a> {
    folder: &'a Path,
    node: Driven,
    model: Model,
    kills: usize,
}

impl Client<'_> {
    /// Does a call during which the node dies, and starts the node again.
    fn die_in(&mut self, step: &Step<'_>, moment: Duration) {
        let (method, params) = step.call();
        self.node.kill_in(&method, &params, moment);
        self.kills += 1;
        self.restart();
    }

    fn restart(&mut self) {
        self.node = Driven::spawn(self.folder, NAME, FOLDER);
        self.model.restart();
        // What was final before is final, and is where it was; every block has its receipts.
        let finalised = self.model.finalised.map(|height| (height, self.model.chain[height]));
        if let Some((height, hash)) = finalised {
            assert_eq!(self.node.tagged(&format!("{height:#x}")), Some(hash));
            assert!(self.node.number("finalized").is_some_and(|found| found >= height as u64));
        }
        for height in 1..=self.node.number("latest").expect("a head") {
            let at = format!("{height:#x}");
            let receipts = self.node.client.get("eth_getBlockReceipts", json!([at]));
            let count = self.node.client.quantity("eth_getBlockTransactionCountByNumber", json!([at]));
            assert_eq!(receipts.as_array().map(|list| list.len() as u128), Some(count), "block {at}");
        }
    }

    /// Makes a call, once more if it was not answered, and compares its answer.
    fn make(&mut self, step: &Step<'_>) {
        match step {
            Step::Offer(payload) => {
                let expected = self.model.offer(payload.hash());
                assert_eq!(self.node.offer(payload), expected);
            }
            Step::Choose(choice) => {
                let expected = self.model.choose(*choice);
                choose(&self.node, *choice, expected);
            }
            Step::Begin(..) | Step::Fetch(..) => {}
        }
    }

    /// Chooses what was chosen last: a move that was refused may have been cut off half-way.
    fn choose_again(&mut self) {
        let again = self.model.again();
        let expected = self.model.choose(again);
        choose(&self.node, again, expected);
    }
}

fn script(seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = tree(&folder.path().join("maker"), &mut rng);
    let home = folder.path().join("node");
    let node = Driven::spawn(&home, NAME, FOLDER);
    let model = Model::new(node.genesis(), &all);
    let mut client = Client { folder: &home, node, model, kills: 0 };
    for number in 0..STEPS {
        let payload = &all[rng.random_range(0..all.len())];
        let moment = rng.random_bool(0.25).then(|| Duration::from_micros(rng.random_range(0..MOMENTS)));
        let kind = rng.random_range(0..10);
        let step = match kind {
            0..4 => Step::Offer(payload),
            4..9 => Step::Choose(choice(&client.model, payload.hash(), &mut rng)),
            _ => {
                let head = client.model.newest();
                let time = client.model.blocks.get(&head).map_or(0, Payload::timestamp) + rng.random_range(1..30);
                let fork = fork_at(time);
                Step::Begin(fork, json!([state(head, B256::ZERO, B256::ZERO), attributes(fork, time, rng.random())]))
            }
        };
        match (&step, moment) {
            (_, Some(moment)) => {
                client.die_in(&step, moment);
                // A node that had left its head before it died has executed none of what it left since it is back.
                let has_left = client.node.tagged("latest") != Some(client.model.newest());
                client.make(&step);
                if matches!(&step, Step::Choose(choice) if has_left && client.model.newest() == choice.head) {
                    client.model.forget_executed();
                }
                client.choose_again();
            }
            (Step::Begin(fork, params), None) => {
                let choice = Choice::of(client.model.newest());
                assert_eq!(client.model.choose(choice), Ok("VALID"));
                let id = client.node.get(begins(*fork), params)["payloadId"].clone();
                if rng.random_bool(0.5) {
                    let moment = Duration::from_micros(rng.random_range(0..MOMENTS));
                    let fetch = Step::Fetch(*fork, id);
                    client.die_in(&fetch, moment);
                    client.choose_again();
                } else {
                    let built = client.node.fetch(*fork, &id);
                    client.model.blocks.insert(built.hash(), built.clone());
                    all.push(built);
                }
            }
            (step, None) => client.make(step),
        }
        client.model.compare(&client.node);
        eprintln!("step {number}: {} kills, height {}", client.kills, client.model.chain.len() - 1);
    }
    finish(&client.node, &mut client.model, &all);
    client.node.stop();
    client.kills
}

#[test]
fn kills_lose_no_final_block_and_no_receipt() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return run(Path::new(&folder));
    }
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, scripts) = (number("PHALANX_SEED", 1), number("PHALANX_SCRIPTS", 1));
    for seed in first..first + scripts {
        eprintln!("PHALANX_SEED={seed} PHALANX_SCRIPTS=1");
        println!("PHALANX_SEED={seed}: {} kills", script(seed));
    }
}
