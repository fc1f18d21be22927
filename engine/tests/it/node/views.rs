//! States at old and new heights, read and proved from other threads while blocks run.

use super::{
    service::{candidate, commit, engine, forking, submit},
    wallet::{Call, address, signed},
};
use phalanx::{
    Error, Service, ServiceConfig, SnapshotAt, SnapshotError,
    api::{ExecId, ExecutionEngine as _, Failure, ProofQuery, Prove as _, ViewAt},
    merkle::Params,
    revm::{
        DatabaseRef as _,
        primitives::{Bytes, U256},
    },
    verify_account, verify_code, verify_inclusion, verify_slot, verify_transaction,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of blocks: `PHALANX_VIEW_BLOCKS`, few by default.
fn blocks() -> u64 {
    std::env::var("PHALANX_VIEW_BLOCKS").ok().and_then(|value| value.parse().ok()).unwrap_or(120)
}

#[test]
fn states_are_consistent_on_other_threads_while_blocks_run() {
    let file = forking();
    let folder = crate::kit::folder();
    let built = engine(&file, &folder.path().join("store"), 32).expect("an engine");
    let service = Service::open(built, ServiceConfig::default()).expect("a service");
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let (service, done, reads) = (&service, &done, &reads);
    let funds = |height: u64| {
        let state = service.snapshot(ViewAt::Height(height))?;
        assert_eq!(state.height(), height);
        // Account 1 gets one wei in every block from account 0, whose nonce counts the blocks.
        let account = |number| state.account(&address(number)).map(|info| info.expect("funded"));
        Ok::<_, Failure>(account(0).and_then(|payer| Ok((payer.nonce, account(1)?.balance))))
    };
    let start = U256::from_str_radix("d3c21bcecceda1000000", 16).expect("a number");
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            scope.spawn(move || {
                let mut at = reader;
                while !done.load(Ordering::Relaxed) {
                    let tip = service.status().committed.height;
                    at = at.wrapping_mul(25_214_903_917).wrapping_add(11);
                    let height = tip.saturating_sub((at >> 16) % 40);
                    match funds(height) {
                        Ok(Ok((nonce, balance))) => assert_eq!((nonce, balance), (height, start + U256::from(height))),
                        // The history has gone on since, or was shorter in the first place.
                        Ok(Err(SnapshotError::Pruned { .. })) | Err(Failure::Pruned { .. } | Failure::Superseded) => {}
                        other => panic!("height {height} of {tip}: {other:?}"),
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut parent = ExecId::GENESIS;
        for height in 1..=blocks() {
            let tx = signed(2, &Call::to(0, height - 1, address(1), 1), vec![]);
            let block = candidate(parent, height, vec![tx], Bytes::new());
            submit(service, &block);
            commit(service, &block);
            parent = block.id();
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("{} snapshots read beside {} blocks", reads.load(Ordering::Relaxed), blocks());
    assert!(reads.load(Ordering::Relaxed) > 0);
    let pruned = service.snapshot(ViewAt::Height(1)).expect_err("out of the history");
    assert_eq!(pruned, Failure::Pruned { oldest: blocks() - 32 });
    let proof = service.prove(ProofQuery::Transaction { height: 1, index: 0 });
    assert_eq!(proof, Err(pruned), "not to be asked again");
    assert!(matches!(service.snapshot(ViewAt::Height(blocks() + 1)), Err(Failure::Retry(_))));
}

#[test]
fn a_view_that_is_held_says_that_it_was_pruned() {
    let file = forking();
    let folder = crate::kit::folder();
    let service =
        Service::open(engine(&file, &folder.path().join("store"), 4).expect("an engine"), ServiceConfig::default())
            .expect("a service");
    let held = service.snapshot(ViewAt::Height(0)).expect("the genesis");
    let mut parent = ExecId::GENESIS;
    for height in 1..=6u64 {
        let block =
            candidate(parent, height, vec![signed(2, &Call::to(0, height - 1, address(1), 1), vec![])], Bytes::new());
        let loser = candidate(parent, height, vec![], Bytes::new());
        submit(&service, &loser);
        let lost = service.snapshot(ViewAt::Exec(loser.id())).expect("executed");
        submit(&service, &block);
        commit(&service, &block);
        assert_eq!(lost.account(&address(0)), Err(SnapshotError::Lost { height }));
        parent = block.id();
    }
    assert_eq!(held.account(&address(0)), Err(SnapshotError::Pruned { height: 0, oldest: 2 }));
    assert!(held.basic_ref(address(0)).expect_err("pruned").to_string().contains("pruned"));
}

#[test]
fn state_code_receipts_and_transactions_are_proved_at_older_heights() {
    let file = forking();
    let folder = crate::kit::folder();
    let service =
        Service::open(engine(&file, &folder.path().join("store"), 8).expect("an engine"), ServiceConfig::default())
            .expect("a service");
    let (mut parent, mut roots, mut txs) = (ExecId::GENESIS, Vec::new(), Vec::new());
    for height in 1..=5u64 {
        let list: Vec<Bytes> =
            (0..3).map(|from| signed(2, &Call::to(from, height - 1, address(9), 1), vec![])).collect();
        let block = candidate(parent, height, list.clone(), Bytes::new());
        let outcome = submit(&service, &block);
        commit(&service, &block);
        parent = block.id();
        roots.push(outcome);
        txs.push(list);
    }
    let params = Params::default();
    let history = alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS;
    for height in 1..=5u64 {
        let (root, at) = (roots[height as usize - 1].state_root, ViewAt::Height(height));
        let proof = service.prove_at(at, ProofQuery::Account(address(0))).expect("a proof");
        assert_eq!(proof.root, root);
        let proven = verify_account(&params, root, address(0), &proof.bytes).expect("proven").expect("funded");
        assert_eq!(proven.nonce, height);
        let proof = service.prove_at(at, ProofQuery::Account(history)).expect("a proof");
        let code = &alloy_eips::eip2935::HISTORY_STORAGE_CODE;
        verify_code(&params, root, history, code, &proof.bytes).expect("proven");
        assert!(verify_code(&params, root, history, &code[1..], &proof.bytes).is_err());
        let slot = alloy_primitives::B256::from(U256::from(height - 1));
        let proof = service.prove_at(at, ProofQuery::Slot(history, slot)).expect("a proof");
        let word = verify_slot(&params, root, history, slot, &proof.bytes).expect("proven");
        let state = service.snapshot(at).expect("there");
        assert_eq!(U256::from_be_bytes(word.0), state.storage(&history, &slot.into()).expect("readable"));
        for index in 0..3u32 {
            let proof = service.prove(ProofQuery::Inclusion { height, index }).expect("a proof");
            let tx = verify_inclusion(proof.root, index as usize, &proof.bytes).expect("proven");
            assert_eq!(tx, txs[height as usize - 1][index as usize]);
            assert!(verify_inclusion(proof.root, index as usize + 1, &proof.bytes).is_err());
            let proof = service.prove(ProofQuery::Transaction { height, index }).expect("a proof");
            assert!(verify_transaction(proof.root, index as usize, &proof.bytes).is_ok());
        }
    }
}

#[test]
fn an_engine_gives_views_of_the_same_kind() {
    fn shared<T: Send + Sync + Clone + 'static>(value: T) -> T {
        value
    }
    let file = forking();
    let folder = crate::kit::folder();
    let mut engine = engine(&file, &folder.path().join("store"), 2).expect("an engine");
    let mut parent = engine.begin(&file).expect("the genesis");
    let genesis = shared(engine.snapshot(SnapshotAt::Height(0)).expect("the genesis"));
    for number in 1..=4 {
        let mut header = engine.chain().child_header(&parent, &super::after(&parent)).expect("a child");
        let payload = phalanx::RecoveredBlock { header: &header, txs: &[], ommers: &[], withdrawals: Some(&[]) };
        let executed = engine.execute_block(&payload, phalanx::Hints::None).expect("valid");
        let merkleized = engine.merkleize(executed).expect("a root");
        merkleized.outcome().write_to(&mut header);
        engine.commit(merkleized).expect("a commit").write.wait().expect("durable");
        let state = engine.snapshot(SnapshotAt::Height(number)).expect("there");
        assert_eq!((state.height(), state.root()), (number, header.state_root));
        let info = state.basic_ref(alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS).expect("readable").expect("there");
        assert!(info.code.is_some_and(|code| !code.is_empty()));
        parent = header;
    }
    assert!(matches!(engine.snapshot(SnapshotAt::Height(1)), Err(Error::Pruned { height: 1, oldest: 2 })));
    assert!(matches!(engine.snapshot(SnapshotAt::Height(9)), Err(Error::NoSuchHeight { height: 9 })));
    assert_eq!(genesis.account(&address(0)), Err(SnapshotError::Pruned { height: 0, oldest: 2 }));
    assert!(genesis.identity().is_err());
}
