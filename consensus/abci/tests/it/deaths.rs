//! Death of CometBFT, of the application, or of both, at every step: the chain goes on, and every height has one app hash.

use crate::kit::{CHAIN, Disk, JUNK, NAME, START_MS, TestHost, open, outcome, tx};
use alloy_primitives::{B256, Bytes};
use phalanx_abci::{
    App, Header,
    conformance::{Broken, Comet, Proposal, validator},
};
use phalanx_engine_api::{Candidate, ExecId, Payload, TxPolicy};
use rand::{Rng as _, SeedableRng as _};

/// Sides that die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Comet,
    Both,
}

/// Heights of the script: own blocks, foreign ones, four rounds, blocks that are decided unseen, empty ones.
fn script() -> Vec<Vec<Proposal>> {
    let txs = |numbers: &[u64]| numbers.iter().map(|number| tx(*number)).collect::<Vec<Bytes>>();
    vec![
        vec![Proposal::Own],
        vec![Proposal::Other(txs(&[1, 2]))],
        vec![Proposal::Own, Proposal::Other(txs(&[3])), Proposal::Other(txs(&[4])), Proposal::Own],
        vec![Proposal::Unseen(vec![tx(5), Bytes::from_static(JUNK), tx(6)])],
        vec![Proposal::Other(txs(&[7])), Proposal::Unseen(txs(&[7]))],
        vec![Proposal::Other(Vec::new())],
    ]
}

/// Runs the script to its end, with a handshake after every death. Returns the chain and the number of handshakes.
fn run(script: &[Vec<Proposal>], death: Option<(u64, Side)>, wipe: bool) -> (Comet, Disk, u32) {
    let (mut comet, mut disk) = (Comet::new(NAME, START_MS), Disk::new());
    let (mut app, mut host) = open(&disk);
    host.put(&tx(99)).expect("room");
    comet.die_at(death.map(|(step, _)| step));
    let mut handshakes = 0;
    loop {
        let ran = go_on(&mut comet, &mut app, script);
        assert_eq!(host.halts(), [], "{death:?}");
        handshakes += 1;
        match ran {
            Ok(()) => return (comet, disk, handshakes),
            Err(Broken::Died) => comet.die_at(None),
            Err(other) => panic!("{death:?}: {other}"),
        }
        if death.is_some_and(|(_, side)| side == Side::Both) {
            if wipe {
                disk = Disk::new();
            }
            (app, host) = open(&disk);
            host.put(&tx(99)).expect("room");
        }
    }
}

fn go_on(comet: &mut Comet, app: &mut App<TestHost>, script: &[Vec<Proposal>]) -> Result<(), Broken> {
    comet.handshake(app)?;
    while let Some(proposals) = script.get(comet.blocks().len()) {
        comet.height(app, proposals)?;
    }
    Ok(())
}

/// The app hashes that an engine must find that executes the blocks one after the other, and no others.
fn expected(comet: &Comet) -> Vec<B256> {
    let reference = Disk::new();
    let (mut roots, mut parent) = (reference.roots(), ExecId::GENESIS);
    for block in comet.blocks() {
        // The randomness is the application's own function: this test does not check it.
        let header = Header::of(block.height, block.timestamp_ms, block.proposer, parent);
        let env = phalanx_engine_api::BlockEnv {
            height: block.height,
            timestamp_ms: block.timestamp_ms,
            prevrandao: header.prevrandao,
            beneficiary: block.proposer,
            gas_limit: 30_000_000,
            base_fee: 7,
        };
        let payload = Payload::new(block.txs.clone()).into();
        let candidate = Candidate::new(CHAIN, parent, env, TxPolicy::SkipInvalid, payload);
        let root = outcome(roots.last().expect("a genesis"), &candidate).state_root;
        roots.push(root);
        parent = candidate.id();
    }
    roots
}

fn check(comet: &Comet, disk: &Disk, what: &str) {
    let expected = expected(comet);
    assert_eq!(disk.roots(), expected, "{what}: the committed states");
    assert_eq!(comet.app_hashes(), expected[1..], "{what}: the answers");
}

#[test]
fn a_chain_without_deaths_executes_no_block_twice() {
    let (mut comet, disk) = (Comet::new(NAME, START_MS), Disk::new());
    let (mut app, host) = open(&disk);
    host.put(&tx(99)).expect("room");
    go_on(&mut comet, &mut app, &script()).expect("no death");
    check(&comet, &disk, "no death");
    assert_eq!(host.model().most_executions(), 1);
    assert_eq!(host.shown(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(comet.blocks()[0].txs, [tx(99)], "an own block holds what waits");
    assert_eq!(comet.blocks()[0].proposer, validator(0));
}

#[test]
fn either_side_may_die_at_every_step() {
    let (whole, _, _) = run(&script(), None, false);
    let steps = whole.steps();
    assert!(steps > 50, "{steps}");
    for step in 1..=steps {
        for side in [Side::Comet, Side::Both] {
            let (comet, disk, handshakes) = run(&script(), Some((step, side)), false);
            check(&comet, &disk, &format!("{side:?} at step {step}"));
            assert_eq!(handshakes, 2, "{side:?} at step {step}");
        }
    }
}

#[test]
fn an_application_without_its_disk_replays_the_chain() {
    let (whole, _, _) = run(&script(), None, false);
    for step in 1..=whole.steps() {
        let (comet, disk, _) = run(&script(), Some((step, Side::Both)), true);
        check(&comet, &disk, &format!("wiped at step {step}"));
    }
}

#[test]
fn random_scripts_with_random_deaths_agree_with_a_sequential_engine() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (runs, seed) = (number("PHALANX_SCRIPTS", 200), number("PHALANX_SEED", 44));
    println!("{runs} scripts, PHALANX_SEED={seed}");
    for run in 0..runs {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed.wrapping_add(run));
        let (mut comet, disk) = (Comet::new(NAME, START_MS), Disk::new());
        let (mut app, mut host) = open(&disk);
        let heights = rng.random_range(1..8);
        let what = format!("PHALANX_SEED={}", seed.wrapping_add(run));
        comet.die_at(Some(rng.random_range(1..30)));
        let mut is_ready = false;
        while comet.app_hashes().len() < heights || !is_ready {
            let txs = (0..rng.random_range(0..4)).map(|_| tx(rng.random_range(0..50))).collect::<Vec<_>>();
            let proposals: Vec<_> = (0..rng.random_range(1..6))
                .map(|_| match rng.random_range(0..3) {
                    0 => Proposal::Own,
                    1 => Proposal::Other(txs.clone()),
                    _ => Proposal::Unseen(txs.clone()),
                })
                .collect();
            let ran = match is_ready {
                true => comet.height(&mut app, &proposals),
                false => comet.handshake(&mut app).map(|()| is_ready = true),
            };
            match ran {
                Ok(()) => {}
                Err(Broken::Died) => {
                    is_ready = false;
                    if rng.random_bool(0.5) {
                        (app, host) = open(&disk);
                    }
                    comet.die_at(rng.random_bool(0.8).then(|| comet.steps() + rng.random_range(1..40)));
                }
                Err(other) => panic!("{what}: {other}"),
            }
            assert_eq!(host.halts(), [], "{what}");
        }
        comet.die_at(None);
        comet.handshake(&mut app).unwrap_or_else(|broken| panic!("{what}: {broken}"));
        check(&comet, &disk, &what);
    }
}
