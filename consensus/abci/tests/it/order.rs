//! Calls that are skipped, repeated or out of order: each has a typed error, and nothing changes.

use crate::kit::{Disk, NAME, START_MS, TestHost, commit, open, tx};
use alloy_primitives::{B256, Bytes};
use phalanx_abci::{
    App, CallError, Host as _,
    conformance::{Block, Comet, Proposal, asked, verify},
    proto::{self, Request, request::Value as Asked, response::Value as Answer},
};
use phalanx_engine_api::{ExecutionEngine as _, desk::JobKind};
use rand::{Rng as _, SeedableRng as _};

fn init(chain_id: &str, initial_height: i64, seconds: i64) -> Request {
    let time = Some(tendermint_proto::google::protobuf::Timestamp { seconds, nanos: 0 });
    let chain_id = chain_id.into();
    asked(Asked::InitChain(proto::RequestInitChain { time, chain_id, initial_height, ..Default::default() }))
}

fn begin() -> Request {
    init(NAME, 1, i64::try_from(START_MS / 1000).expect("small"))
}

fn prepare(height: i64) -> Request {
    let block = Block::new(1, 0, START_MS, Vec::new());
    let Some(Asked::ProcessProposal(process)) = block.process().value else { unreachable!() };
    asked(Asked::PrepareProposal(proto::RequestPrepareProposal {
        height,
        time: process.time,
        proposer_address: process.proposer_address,
        max_tx_bytes: 1000,
        ..Default::default()
    }))
}

fn begun() -> (App<TestHost>, TestHost, Disk) {
    let disk = Disk::new();
    let (app, host) = open(&disk);
    app.call(begin()).expect("a beginning");
    (app, host, disk)
}

fn error(app: &App<TestHost>, request: Request) -> CallError {
    app.call(request).expect_err("refused")
}

#[test]
fn calls_about_blocks_come_after_init_chain() {
    let disk = Disk::new();
    let (app, _) = open(&disk);
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    assert_eq!(error(&app, prepare(1)), CallError::NotBegun { call: "PrepareProposal" });
    assert_eq!(error(&app, block.process()), CallError::NotBegun { call: "ProcessProposal" });
    assert_eq!(error(&app, block.finalize()), CallError::NotBegun { call: "FinalizeBlock" });
    assert_eq!(error(&app, commit()), CallError::NothingFinalized);
    assert_eq!(error(&app, Request { value: None }), CallError::Unknown);
}

#[test]
fn init_chain_names_this_chain_its_first_height_and_a_time_that_it_can_have() {
    let disk = Disk::new();
    let (app, _) = open(&disk);
    for name in ["", "test", "test-4243", "4242-test"] {
        assert!(matches!(error(&app, init(name, 1, 1_700_000_000)), CallError::Chain { ours: 4242, .. }), "{name}");
    }
    for height in [-1, 2, i64::MAX] {
        assert_eq!(error(&app, init(NAME, height, 1_700_000_000)), CallError::FirstHeight { says: height });
    }
    assert!(matches!(error(&app, init(NAME, 1, -1)), CallError::Malformed { field: "time", .. }));
    let Some(Answer::InitChain(first)) = app.call(begin()).expect("a beginning").value else { panic!("another") };
    let Some(Answer::InitChain(again)) = app.call(begin()).expect("CometBFT asks again").value else {
        panic!("another")
    };
    assert_eq!(first.app_hash, again.app_hash);
    let mut comet = Comet::new(NAME, START_MS);
    comet.handshake(&mut app.clone()).expect("sound");
    comet.height(&mut app.clone(), &[Proposal::Own]).expect("sound");
    assert_eq!(error(&app, begin()), CallError::Begun { height: 1 });
}

#[test]
fn heights_and_fields_are_checked() {
    let (app, host, _) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    type Change = fn(&mut proto::RequestFinalizeBlock);
    let changes: [(Change, CallError); 5] = [
        (|block| block.height = 2, CallError::Height { call: "FinalizeBlock", says: 2, expected: 1 }),
        (|block| block.height = i64::MIN, CallError::Height { call: "FinalizeBlock", says: i64::MIN, expected: 1 }),
        (|block| block.hash = vec![1; 31].into(), CallError::Malformed { call: "FinalizeBlock", field: "hash" }),
        (|block| block.time = None, CallError::Malformed { call: "FinalizeBlock", field: "time" }),
        (
            |block| block.proposer_address = vec![1; 21].into(),
            CallError::Malformed { call: "FinalizeBlock", field: "proposer_address" },
        ),
    ];
    for (change, expected) in changes {
        let Some(Asked::FinalizeBlock(mut asks)) = block.finalize().value else { unreachable!() };
        change(&mut asks);
        assert_eq!(error(&app, asked(Asked::FinalizeBlock(asks))), expected);
    }
    let mut late = Block::new(1, 0, START_MS, Vec::new());
    late.height = 0;
    assert_eq!(error(&app, late.process()), CallError::Height { call: "ProcessProposal", says: 0, expected: 1 });
    assert_eq!(host.model().executions(), 0);
    app.call(block.finalize()).expect("sound");
}

#[test]
fn finalize_stages_and_commit_alone_flips() {
    let (app, host, disk) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    app.call(block.process()).expect("sound");
    let first = app.call(block.finalize()).expect("sound");
    assert_eq!(host.model().log(), [(JobKind::Stage, 1)], "nothing is committed by FinalizeBlock");
    assert_eq!((host.model().status().committed.height, disk.roots().len()), (0, 1));
    assert_eq!(app.call(block.finalize()).expect("a repeat"), first);
    assert_eq!(host.model().log(), [(JobKind::Stage, 1)]);
    let Some(Answer::Commit(answer)) = app.call(commit()).expect("sound").value else { panic!("another") };
    assert_eq!((answer.retain_height, host.shown()), (0, vec![1]));
    assert_eq!(host.model().log(), [(JobKind::Stage, 1), (JobKind::Commit, 1)]);
    assert_eq!(error(&app, commit()), CallError::NothingFinalized);
    assert_eq!(error(&app, block.finalize()), CallError::Height { call: "FinalizeBlock", says: 1, expected: 2 });
    assert_eq!(host.model().executions(), 1);
}

#[test]
fn one_block_is_decided_at_a_height_with_one_content() {
    let (app, host, _) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    let other = Block::new(1, 1, START_MS, vec![tx(2)]);
    let altered = Block { txs: vec![tx(3)], ..block };
    app.call(block.process()).expect("sound");
    assert_eq!(error(&app, altered.process()), CallError::Altered { hash: block.hash });
    assert_eq!(error(&app, altered.finalize()), CallError::Altered { hash: block.hash });
    app.call(block.finalize()).expect("sound");
    let twice = CallError::DecidedTwice { height: 1, first: block.hash, second: other.hash };
    assert_eq!(error(&app, other.finalize()), twice);
    assert_eq!(error(&app, altered.finalize()), CallError::Altered { hash: block.hash });
    app.call(other.process()).expect("a late proposal is accepted");
    app.call(commit()).expect("the first one");
    assert_eq!(host.model().executions(), 1, "the late proposal is not executed");
}

#[test]
fn many_proposals_of_one_height_leave_room_for_the_decided_one() {
    let (app, host, disk) = begun();
    let blocks: Vec<_> = (0..100).map(|round| Block::new(1, round, START_MS, vec![tx(round.into())])).collect();
    for block in &blocks {
        app.call(block.process()).expect("accepted");
    }
    for block in &blocks {
        app.call(verify(block, 1, vec![7; 32].into())).expect("accepted");
    }
    app.call(blocks[99].finalize()).expect("sound");
    app.call(commit()).expect("sound");
    assert_eq!((disk.roots().len(), host.model().most_executions()), (2, 1));
}

#[test]
fn a_block_before_its_parent_is_rejected() {
    let disk = Disk::new();
    let (app, _) = open(&disk);
    Comet::new(NAME, START_MS).handshake(&mut app.clone()).expect("sound");
    let block = Block::new(1, 0, START_MS, Vec::new());
    app.call(block.finalize()).expect("sound");
    app.call(commit()).expect("sound");
    let early = Block { timestamp_ms: START_MS, ..Block::new(2, 0, START_MS, Vec::new()) };
    let Some(Answer::ProcessProposal(answer)) = app.call(early.process()).expect("an answer").value else {
        panic!("another")
    };
    assert_eq!(answer.status, proto::response_process_proposal::ProposalStatus::Reject as i32);
    assert!(matches!(error(&app, early.finalize()), CallError::Environment(_)));
}

/// State of the application as the calls so far imply it.
#[derive(Debug, Default)]
struct Expected {
    is_begun: bool,
    height: u64,
    decided: Option<B256>,
}

#[test]
fn any_order_of_calls_has_the_result_that_the_calls_before_it_imply() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(44);
    println!("PHALANX_SEED={seed}");
    for run in 0..40 {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed + run);
        let disk = Disk::new();
        let (app, host) = open(&disk);
        let mut expected = Expected::default();
        for _ in 0..100 {
            let height = (expected.height + 2).saturating_sub(rng.random_range(0..3)).max(1);
            let block = Block::new(height, rng.random_range(0..3), START_MS, vec![tx(rng.random_range(0..2))]);
            let block =
                Block { hash: alloy_primitives::keccak256(format!("{:?}{:?}", block.hash, block.txs)), ..block };
            let is_next = expected.is_begun && height == expected.height + 1;
            let call = rng.random_range(0..6);
            let (result, is_sound) = match call {
                0 => {
                    let result = app.call(begin());
                    expected.is_begun |= result.is_ok();
                    (result, expected.height == 0)
                }
                1 => (app.call(block.process()), is_next),
                2 => {
                    let is_sound = is_next && expected.decided.is_none_or(|hash| hash == block.hash);
                    let result = app.call(block.finalize());
                    if result.is_ok() {
                        expected.decided = Some(block.hash);
                    }
                    (result, is_sound)
                }
                3 => {
                    let is_sound = expected.decided.take().is_some();
                    expected.height += u64::from(is_sound);
                    (app.call(commit()), is_sound)
                }
                4 => (app.call(verify(&block, 2, Default::default())), true),
                _ => {
                    let extend = proto::RequestExtendVote {
                        hash: Bytes::copy_from_slice(block.hash.as_slice()).0,
                        ..Default::default()
                    };
                    (app.call(asked(Asked::ExtendVote(extend))), true)
                }
            };
            assert_eq!(result.is_ok(), is_sound, "PHALANX_SEED={}: call {call}: {result:?}, {expected:?}", seed + run);
            assert_eq!(host.engine().status().committed.height, expected.height, "PHALANX_SEED={}", seed + run);
            assert_eq!(host.halts(), [], "PHALANX_SEED={}", seed + run);
        }
    }
}

#[test]
fn proposals_of_impossible_transactions_are_rejected() {
    use proto::response_process_proposal::ProposalStatus;
    let (app, host, disk) = begun();
    let status = |txs: Vec<Bytes>| match app.call(Block::new(1, 0, START_MS, txs).process()).expect("sound").value {
        Some(Answer::ProcessProposal(answer)) => answer.status(),
        other => panic!("{other:?}"),
    };
    // The gas limit of the test host is 30,000,000.
    let most = 30_000_000 / 21_000;
    for txs in [(0..=most).map(tx).collect(), vec![tx(1), Bytes::new()], vec![Bytes::new()]] {
        assert_eq!(status(txs), ProposalStatus::Reject);
    }
    assert_eq!(host.model().executions(), 0);
    assert_eq!(status((0..most).map(tx).collect()), ProposalStatus::Accept);
    // An own proposal is one that others accept.
    (0..most + 9).for_each(|number| host.put(&tx(number)).expect("admitted"));
    let Some(Asked::PrepareProposal(mut request)) = prepare(1).value else { unreachable!() };
    request.max_tx_bytes = 1 << 20;
    let answer = app.call(asked(Asked::PrepareProposal(request))).expect("sound").value;
    let Some(Answer::PrepareProposal(own)) = answer else { panic!("{answer:?}") };
    assert_eq!(own.txs.len() as u64, most);
    // What two thirds have decided is executed, all the same.
    app.call(Block::new(1, 1, START_MS, vec![tx(1), Bytes::new()]).finalize()).expect("decided");
    app.call(commit()).expect("sound");
    assert_eq!((host.halts(), disk.roots().len()), (vec![], 2));
}
