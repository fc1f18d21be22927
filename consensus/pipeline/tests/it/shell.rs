//! The thread around the pipeline, with the engine on another thread.

use crate::common::chain;
use phalanx_engine_api::{ExecutionEngine as _, Limits};
use phalanx_pipeline::{Committee, Config, ConsensusEvent, Effect, Shell, ShellError};
use phalanx_sim::model::{Costs, Disk, ModelEngine};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

#[test]
fn blocks_pass_through_the_shell_in_order() {
    let engine = Arc::new(ModelEngine::open(1, Limits::default(), Costs::default(), Disk::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let worker = {
        let (engine, stop) = (engine.clone(), stop.clone());
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                engine.run();
                thread::sleep(Duration::from_micros(50));
            }
        })
    };
    let (acks, acked) = channel();
    // Committee of one: its own vote is the certificate.
    let sink = move |effect: Effect, answers: &mut Vec<ConsensusEvent>| match effect {
        Effect::StateVote { meta, digest, .. } => {
            answers.push(ConsensusEvent::StateVote { from: 0, id: meta.id, digest, signature: Default::default() });
        }
        Effect::Ack { meta, .. } => acks.send(meta.height).expect("the test listens"),
        _ => {}
    };
    let ticks = AtomicU64::new(0);
    let clock = move || ticks.fetch_add(1000, Relaxed);
    let shell = Shell::start(Config::validator(Committee::equal(1)), engine.clone(), sink, clock).expect("a thread");
    for block in chain(200) {
        shell.send(block.proposed()).expect("running");
        shell.send(block.ordered()).expect("running");
        // Consensus heeds back-pressure: at most a window of blocks is open.
        if block.meta.height.is_multiple_of(16) {
            while acked.recv().expect("a height") < block.meta.height {}
        }
    }
    while acked.recv().expect("a height") < 200 {}
    drop(shell);
    stop.store(true, Relaxed);
    worker.join().expect("the engine's thread ends");
    assert_eq!(engine.status().committed.height, 200);
}

#[test]
fn a_full_inbox_refuses_without_waiting() {
    let engine = Arc::new(ModelEngine::open(1, Limits::default(), Costs::default(), Disk::default()));
    let (go, gate) = channel::<()>();
    let sink = move |effect: Effect, _: &mut Vec<ConsensusEvent>| {
        if matches!(effect, Effect::Forward(_)) {
            let _ = gate.recv();
        }
    };
    let shell = Shell::start(Config::validator(Committee::equal(4)), engine, sink, || 0).expect("a thread");
    shell.send(chain(1)[0].proposed()).expect("running");
    let full = (0..10_000).find_map(|height| shell.try_send(ConsensusEvent::Finalised(height)).err());
    assert!(matches!(full, Some(ShellError::Full)), "{full:?}");
    drop(go);
}
