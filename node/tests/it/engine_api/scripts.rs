//! Random scripts of payloads, forks, heads, duplicates and restarts against a model, and stock revm on the head's chain.

use super::{
    beacon::{Driven, Payload, driven, state},
    model::{Choice, Model, passing, tree},
};
use alloy_primitives::B256;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::path::Path;

/// Number of steps of a script.
const STEPS: usize = 120;

/// Number of scripts with the same tree of payloads: to make one takes as long as some scripts.
const OF_A_TREE: u64 = 8;

/// A random choice of a payload of the tree, mostly without marks.
pub(super) fn choice(model: &Model, head: B256, rng: &mut ChaCha8Rng) -> Choice {
    let line = model.line(head);
    let mut mark = |odds: f64| match rng.random_bool(odds) {
        true => line[rng.random_range(0..line.len())],
        false => B256::ZERO,
    };
    Choice { head, safe: mark(0.5), finalised: mark(0.05) }
}

/// Has the node choose as the model does.
pub(super) fn choose(node: &Driven, choice: Choice, expected: Result<&'static str, i64>) {
    let Choice { head, safe, finalised } = choice;
    match expected {
        Err(code) => {
            let params = json!([state(head, safe, finalised), null]);
            assert_eq!(node.error("engine_forkchoiceUpdatedV3", &params), code, "{choice:?}");
        }
        Ok(said) => {
            let head = (said == "VALID").then_some(head);
            assert_eq!(node.choose(choice.head, safe, finalised), (said.into(), head), "{choice:?}");
        }
    }
}

fn script(all: &[Payload], folder: &Path, rng: &mut ChaCha8Rng) {
    let settings = driven(folder, passing());
    let mut node = Driven::start(&settings);
    let mut model = Model::new(node.genesis(), all);
    for step in 0..STEPS {
        let payload = &all[rng.random_range(0..all.len())];
        match rng.random_range(0..60) {
            0 => {
                node.stop();
                node = Driven::start(&settings);
                model.restart();
            }
            1..4 => {
                // Invalid wherever it is, also where its ancestors are executed for it.
                let wrong = payload.with("stateRoot", json!(B256::repeat_byte(1)));
                assert_ne!(node.offer(&wrong).0, "VALID", "step {step}");
                model.reach(payload.parent());
            }
            4..30 => {
                let expected = model.offer(payload.hash());
                for _ in 0..rng.random_range(1..3) {
                    assert_eq!(node.offer(payload), expected, "step {step}");
                }
            }
            _ => {
                let choice = choice(&model, payload.hash(), rng);
                choose(&node, choice, model.choose(choice));
            }
        }
        model.compare(&node);
    }
    finish(&node, &mut model, all);
    node.stop();
}

/// Offers the whole tree in order, chooses its highest block, and compares the state: nothing that came before stands in the way.
pub(super) fn finish(node: &Driven, model: &mut Model, all: &[Payload]) {
    let floor = model.finalised.unwrap_or(0);
    all.iter().for_each(|payload| _ = (node.offer(payload), model.offer(payload.hash())));
    let on_final = |payload: &&Payload| matches!(model.path(payload.hash()), (_, Some(fork)) if fork >= floor);
    if let Some(highest) = all.iter().filter(on_final).max_by_key(|payload| payload.number()).map(Payload::hash)
        && model.choose(Choice::of(highest)) == Ok("VALID")
    {
        node.head(highest);
    }
    model.compare(node);
    model.compare_state(node);
}

#[test]
fn random_scripts_end_in_the_state_of_the_heads_chain() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, scripts) = (number("PHALANX_SEED", 1), number("PHALANX_SCRIPTS", 12));
    let (mut of, mut all) = (None, Vec::new());
    for seed in first..first + scripts {
        eprintln!("PHALANX_SEED={seed} PHALANX_SCRIPTS=1");
        let folder = tempfile::tempdir().expect("a folder");
        let seed_of_tree = seed - seed % OF_A_TREE;
        if of != Some(seed_of_tree) {
            all = tree(&folder.path().join("maker"), &mut ChaCha8Rng::seed_from_u64(seed_of_tree));
            of = Some(seed_of_tree);
        }
        script(&all, &folder.path().join("node"), &mut ChaCha8Rng::seed_from_u64(seed));
    }
}
