//! Vote extensions: digests of outcomes, the halt on two thirds of checked votes, and votes that halt nothing.

use crate::kit::{CHAIN, START_MS, TestHost, begun, commit, tx};
use alloy_primitives::Bytes;
use phalanx_abci::{
    App, CallError, Divergence, Halt,
    conformance::{Block, asked, validator, verify},
    proto::{self, Request, request::Value as Asked, response::Value as Answer},
};

fn extension(app: &App<TestHost>, block: &Block) -> Bytes {
    let extend = proto::RequestExtendVote { hash: block.hash.to_vec().into(), ..Default::default() };
    match app.call(asked(Asked::ExtendVote(extend))).expect("an answer").value {
        Some(Answer::ExtendVote(extended)) => Bytes(extended.vote_extension),
        other => panic!("{other:?}"),
    }
}

fn vote(app: &App<TestHost>, block: &Block, place: u8, digest: &[u8]) -> bool {
    let verified = app.call(verify(block, place, digest.to_vec().into())).expect("an answer").value;
    let Some(Answer::VerifyVoteExtension(verified)) = verified else { panic!("{verified:?}") };
    verified.status == proto::response_verify_vote_extension::VerifyStatus::Accept as i32
}

/// PrepareProposal of the next height, with a vote of every validator.
fn prepare(block: &Block, votes: [(&[u8], i32); 4]) -> Request {
    let votes = (0..).zip(votes).map(|(place, (extension, flag))| proto::ExtendedVoteInfo {
        validator: Some(proto::Validator { address: validator(place).to_vec().into(), power: 10 }),
        vote_extension: extension.to_vec().into(),
        block_id_flag: flag,
        ..Default::default()
    });
    let Some(Asked::ProcessProposal(process)) = block.process().value else { unreachable!() };
    asked(Asked::PrepareProposal(proto::RequestPrepareProposal {
        local_last_commit: Some(proto::ExtendedCommitInfo { round: 0, votes: votes.collect() }),
        height: process.height,
        time: process.time,
        proposer_address: process.proposer_address,
        ..Default::default()
    }))
}

#[test]
fn an_extension_is_the_digest_of_the_outcome_or_empty() {
    let (app, host, _) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    assert!(extension(&app, &block).is_empty(), "an unknown block");
    host.model().hold(true);
    app.call(block.process()).expect("sound");
    assert!(extension(&app, &block).is_empty(), "the block is not executed yet, and the vote does not wait");
    host.model().hold(false);
    let digest = extension(&app, &block);
    assert_eq!(digest.len(), 32);
    let Some(Answer::FinalizeBlock(answer)) = app.call(block.finalize()).expect("sound").value else {
        panic!("another")
    };
    assert_eq!(answer.tx_results[0].data, digest.0, "the results hash of the next header covers the digest");
}

#[test]
fn extensions_of_other_lengths_are_rejected() {
    let (app, ..) = begun();
    let block = Block::new(1, 0, START_MS, vec![]);
    let accepted: Vec<usize> = (0..70).filter(|len| vote(&app, &block, 1, &vec![1; *len])).collect();
    assert_eq!(accepted, [0, 32]);
    let Some(Asked::VerifyVoteExtension(mut call)) = verify(&block, 1, Default::default()).value else {
        unreachable!()
    };
    call.validator_address = vec![1; 19].into();
    let error = app.call(asked(Asked::VerifyVoteExtension(call))).expect_err("refused");
    assert_eq!(error, CallError::Malformed { call: "VerifyVoteExtension", field: "validator_address" });
}

#[test]
fn unchecked_votes_in_the_names_of_all_halt_nothing() {
    let (app, host, disk) = begun();
    let block = Block::new(1, 0, START_MS, vec![tx(1)]);
    app.call(block.process()).expect("sound");
    // CometBFT checks an extension by the index in its vote, and passes on the address that the vote claims.
    for place in 0..4 {
        assert!(vote(&app, &block, place, &[7; 32]));
    }
    app.call(block.finalize()).expect("no halt");
    app.call(commit()).expect("no halt");
    assert_eq!((host.halts(), app.is_halted(), disk.roots().len()), (vec![], false, 2));
}

#[test]
fn votes_of_other_rounds_heights_and_minorities_do_not_halt() {
    let (app, host, _) = begun();
    let (block, other) = (Block::new(1, 1, START_MS, vec![tx(1)]), Block::new(1, 0, START_MS, vec![tx(2)]));
    let later = Block { height: 2, ..block.clone() };
    app.call(block.process()).expect("sound");
    // Two of four for this block, one for that of another round, and one for this block at another height.
    assert!(vote(&app, &block, 1, &[7; 32]) && vote(&app, &block, 2, &[7; 32]));
    assert!(vote(&app, &other, 3, &[7; 32]) && vote(&app, &later, 3, &[7; 32]));
    app.call(block.finalize()).expect("no two thirds");
    app.call(commit()).expect("sound");
    assert_eq!(host.halts(), []);
}

#[test]
fn the_signed_votes_of_the_last_commit_are_compared_as_well() {
    let (app, host, _) = begun();
    let (block, next) = (Block::new(1, 0, START_MS, vec![tx(1)]), Block::new(2, 0, START_MS, vec![]));
    app.call(block.process()).expect("sound");
    let ours = extension(&app, &block);
    app.call(block.finalize()).expect("sound");
    app.call(commit()).expect("sound");
    let (commit_flag, nil_flag) = (2, 3);
    let theirs = &[7; 32][..];
    let (own, none): (&[u8], &[u8]) = (&ours, &[]);
    let no_halt = [
        [(own, commit_flag), (theirs, commit_flag), (theirs, commit_flag), (none, commit_flag)],
        // A vote for no block says nothing about this one.
        [(own, commit_flag), (theirs, commit_flag), (theirs, commit_flag), (theirs, nil_flag)],
        [(own, commit_flag), (own, commit_flag), (own, commit_flag), (theirs, commit_flag)],
    ];
    for votes in no_halt {
        app.call(prepare(&next, votes)).expect("no two thirds");
    }
    let votes = [(own, commit_flag), (theirs, commit_flag), (theirs, commit_flag), (theirs, commit_flag)];
    assert!(matches!(app.call(prepare(&next, votes)), Err(CallError::Halted(_))));
    let halts = host.halts();
    let [Halt::Divergence(found)] = &halts[..] else { panic!("{halts:?}") };
    let Divergence { height, hash, ours: kept, theirs: most, power, total, block: (candidate, outcome), votes } =
        &**found;
    assert_eq!((*height, *hash, &kept[..], &most[..]), (1, block.hash, own, theirs));
    assert_eq!((*power, *total, votes.len(), votes[0].0), (30, 40, 4, validator(0)));
    assert_eq!((candidate.payload().txs(), &outcome.digest()[..]), (&[tx(1)][..], own), "the whole block is kept");
    assert!(found.to_string().contains("block 1 has digest"), "{found} of chain {CHAIN}");
    assert!(app.is_halted());
    for request in [commit(), next.finalize(), asked(Asked::Info(proto::RequestInfo::default()))] {
        assert!(matches!(app.call(request), Err(CallError::Halted(_))));
    }
}
