//! Proofs of what became of a transaction, under the digest that state votes sign: also skipped, and after a restart.

use super::{
    service::{commit, forking, open, submit},
    wallet::{Call, address, signed},
};
use alloy_primitives::keccak256;
use phalanx::{
    ProofMismatch, ServiceConfig,
    api::{Candidate, ExecId, ExecOutcome, Payload, ProofQuery, Prove as _, TxPolicy, TxStatus},
    revm::primitives::{B256, Bytes, TxKind},
    verify_fate,
};

/// Blocks with every status, of one, two, five and no transactions.
fn blocks() -> Vec<Candidate> {
    let pay = |from, nonce| signed(2, &Call::to(from, nonce, address(9), 1), vec![]);
    // Creates with code that reverts.
    let reverts = |from, nonce| {
        let call = Call {
            to: TxKind::Create,
            data: Bytes::from_static(&[0x5f, 0x5f, 0xfd]),
            ..Call::to(from, nonce, address(9), 0)
        };
        signed(2, &call, vec![])
    };
    let lists = [
        vec![pay(0, 0)],
        vec![pay(1, 7), pay(0, 1)],
        vec![pay(0, 2), Bytes::from_static(b"no transaction"), reverts(1, 0), Bytes::new(), pay(2, 0)],
        vec![],
    ];
    let mut parent = ExecId::GENESIS;
    let mut blocks = Vec::new();
    for (height, list) in (1..).zip(lists) {
        let env = super::service::env(height);
        let block = Candidate::new(super::CHAIN, parent, env, TxPolicy::SkipInvalid, Payload::new(list).into());
        parent = block.id();
        blocks.push(block);
    }
    blocks
}

/// Checks every transaction of a committed block, and that nothing else is shown.
fn check(service: &phalanx::Service, block: &Candidate, outcome: &ExecOutcome) {
    let (height, digest) = (block.env().height, outcome.digest());
    for (index, (tx, status)) in (0..).zip(block.payload().txs().iter().zip(outcome.txs.iter())) {
        let proof = service.prove(ProofQuery::Fate { height, index }).expect("a proof");
        assert_eq!(proof.root, digest);
        let proven = verify_fate(digest, keccak256(tx), &proof.bytes).expect("proven");
        assert_eq!((proven.status, proven.place, proven.count), (*status, index, outcome.txs.len() as u32));
        let roots = (proven.execution, proven.state_root, proven.receipts_root, proven.gas_used);
        assert_eq!(roots, (outcome.id, outcome.state_root, outcome.receipts_root, outcome.gas_used));
        for at in 0..proof.bytes.len() {
            let mut bad = proof.bytes.to_vec();
            bad[at] ^= 1 << (at % 8);
            assert_eq!(verify_fate(digest, keccak256(tx), &bad), Err(ProofMismatch), "byte {at}");
        }
        for other in block.payload().txs().iter().filter(|other| *other != tx) {
            assert_eq!(verify_fate(digest, keccak256(other), &proof.bytes), Err(ProofMismatch), "another transaction");
        }
        assert_eq!(verify_fate(B256::ZERO, keccak256(tx), &proof.bytes), Err(ProofMismatch));
    }
    let beyond = outcome.txs.len() as u32;
    assert!(service.prove(ProofQuery::Fate { height, index: beyond }).is_err());
}

#[test]
fn every_status_is_proved_under_the_digest_of_the_votes_also_after_a_restart() {
    let file = forking();
    let folder = crate::kit::folder();
    let (path, blocks) = (folder.path().join("store"), blocks());
    let service = open(&file, &path, ServiceConfig::default());
    let mut outcomes = Vec::new();
    for block in &blocks {
        let outcome = submit(&service, block);
        commit(&service, block);
        check(&service, block, &outcome);
        outcomes.push(outcome);
    }
    use TxStatus::{Reverted, Skipped, Succeeded};
    assert_eq!(*outcomes[1].txs, [Skipped, Succeeded]);
    assert_eq!(*outcomes[2].txs, [Succeeded, Skipped, Reverted, Skipped, Succeeded]);
    drop(service);
    // Receipts are gone after a restart; the fates of all blocks of the history are not.
    let service = open(&file, &path, ServiceConfig::default());
    assert!(service.prove(ProofQuery::Transaction { height: 3, index: 0 }).is_err());
    for (block, outcome) in blocks.iter().zip(&outcomes) {
        check(&service, block, outcome);
    }
}

#[test]
fn digests_differ_in_every_part_of_an_outcome() {
    let file = forking();
    let folder = crate::kit::folder();
    let service = open(&file, &folder.path().join("store"), ServiceConfig::default());
    let outcome = submit(&service, &blocks()[0]);
    let hash = B256::repeat_byte(7);
    let others = [
        ExecOutcome { id: ExecId(hash), ..outcome.clone() },
        ExecOutcome { state_root: hash, ..outcome.clone() },
        ExecOutcome { receipts_root: hash, ..outcome.clone() },
        ExecOutcome { transactions_root: hash, ..outcome.clone() },
        ExecOutcome { gas_used: 7, ..outcome.clone() },
    ];
    assert!(others.iter().all(|other| other.digest() != outcome.digest()));
}
