//! Branches: payloads beside the chain, heads that move sideways and back, and blocks that are final.

use super::beacon::{Driven, attributes, driven, quantity};
use crate::kit::{Call, address, genesis, signed};
use alloy_primitives::{B256, U256};
use serde_json::{Value, json};

fn valid(hash: B256) -> (String, Option<B256>) {
    ("VALID".into(), Some(hash))
}

fn accepted() -> (String, Option<B256>) {
    ("ACCEPTED".into(), None)
}

fn syncing() -> (String, Option<B256>) {
    ("SYNCING".into(), None)
}

#[test]
fn heads_move_sideways_and_back_and_transactions_wait_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let driven = Driven::start(&driven(folder.path(), genesis()));
    let genesis = driven.genesis();
    let empty = driven.build(5, genesis, &attributes(5, 12, 1));
    let tx = driven.client.send(&signed(2, &Call::to(0, 0, address(1), 5), vec![]));
    let full = driven.build_with(5, genesis, 12, 1);
    assert_eq!(empty.txs().len(), 0);
    assert_eq!([driven.offer(&full), driven.offer(&empty)], [valid(full.hash()), valid(empty.hash())]);
    let before = driven.balance(address(1));
    let receipt = || driven.client.get("eth_getTransactionReceipt", json!([tx]));
    let waits = || driven.client.get("eth_getTransactionByHash", json!([tx]))["blockHash"].is_null();
    driven.head(full.hash());
    assert_eq!(receipt()["blockHash"], json!(full.hash()));
    assert_eq!(driven.balance(address(1)), before + U256::from(5));
    let child = driven.build(5, full.hash(), &attributes(5, 24, 3));
    assert_eq!(driven.offer(&child), valid(child.hash()));
    for _ in 0..2 {
        driven.head(child.hash());
        assert_eq!(quantity(&driven.client.get("eth_blockNumber", json!([]))), 2);
        // Sideways: the other branch has no transaction.
        driven.head(empty.hash());
        assert_eq!((driven.tagged("latest"), driven.tagged("0x2")), (Some(empty.hash()), None));
        assert!(receipt().is_null() && waits());
        assert_eq!(driven.balance(address(1)), before);
        // Back to an ancestor, and up again.
        driven.head(genesis);
        assert_eq!(driven.tagged("latest"), Some(genesis));
        driven.head(full.hash());
        driven.head(child.hash());
        driven.head(full.hash());
        assert_eq!(driven.tagged("latest"), Some(full.hash()));
        assert_eq!(receipt()["blockHash"], json!(full.hash()));
    }
    // A block of the other branch takes what came back.
    driven.head(empty.hash());
    let next = driven.build_with(5, empty.hash(), 24, 1);
    assert_eq!(next.txs(), full.txs());
    driven.stop();
}

#[test]
fn payloads_beside_the_chain_are_executed_once_they_are_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let maker = Driven::start(&driven(&one, genesis()));
    let genesis = maker.genesis();
    let mut branch = Vec::new();
    for height in 1..=4 {
        let parent = branch.last().map_or(genesis, super::beacon::Payload::hash);
        maker.client.send(&signed(2, &Call::to(0, height - 1, address(1), 5), vec![]));
        let payload = maker.build_with(5, parent, 12 * height, 1);
        maker.offer(&payload);
        branch.push(payload);
    }
    let sibling = maker.build(5, genesis, &attributes(5, 12, 9));
    let node = Driven::start(&driven(&other, crate::kit::genesis()));
    let start = node.balance(address(1));
    // Without their ancestors they wait, and nothing is chosen.
    for payload in branch[1..].iter().rev() {
        assert_eq!(node.offer(payload), syncing());
    }
    let last = branch[3].hash();
    assert_eq!(node.choose(last, B256::ZERO, B256::ZERO), syncing());
    assert_eq!(node.choose(B256::repeat_byte(1), B256::ZERO, B256::ZERO), syncing());
    assert_eq!(node.offer(&sibling), valid(sibling.hash()));
    node.head(sibling.hash());
    // Now they are beside the chain, and known up to it.
    assert_eq!(node.offer(&branch[0]), accepted());
    assert_eq!(node.offer(&branch[3]), accepted());
    // A wrong one at their end: the chain is as it was.
    let wrong = branch[3].with("gasUsed", json!("0x5209"));
    assert_eq!(node.offer(&wrong), accepted());
    let invalid = ("INVALID".to_owned(), Some(branch[2].hash()));
    let balance = node.balance(address(1));
    assert_eq!(balance, start + U256::from(5 * sibling.txs().len()), "what came back to the maker's pool");
    for _ in 0..2 {
        assert_eq!(node.choose(wrong.hash(), B256::ZERO, B256::ZERO), invalid);
        assert_eq!(node.tagged("latest"), Some(sibling.hash()));
        assert_eq!(node.balance(address(1)), balance);
    }
    assert_eq!(node.offer(&wrong), invalid);
    // A wrong mark counts on a valid head alone, and then nothing moves either.
    let unknown = B256::repeat_byte(7);
    let other = branch[3].with("gasUsed", json!("0x5210"));
    assert_eq!(node.offer(&other), accepted());
    assert_eq!(node.choose(other.hash(), unknown, B256::ZERO), invalid);
    let late = branch[3].with("timestamp", json!("0x99"));
    assert_eq!(node.offer(&late), accepted());
    assert_eq!(node.choose(late.hash(), unknown, B256::ZERO), invalid, "its state binds its time");
    for _ in 0..2 {
        let state = super::beacon::state(last, unknown, B256::ZERO);
        assert_eq!(node.error("engine_forkchoiceUpdatedV3", &json!([state, null])), -38002);
        assert_eq!(node.tagged("latest"), Some(sibling.hash()));
        assert_eq!(node.balance(address(1)), balance);
    }
    node.head(last);
    assert_eq!(node.tagged("latest"), Some(last));
    assert_eq!(node.balance(address(1)), start + U256::from(20));
    // All at once, from the genesis.
    node.head(genesis);
    node.head(last);
    assert_eq!(node.tagged("0x2"), Some(branch[1].hash()));
    [maker, node].into_iter().for_each(|driven| driven.stop());
}

#[test]
fn final_blocks_are_never_left_and_survive_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = driven(folder.path(), genesis());
    let mut node = Driven::start(&settings);
    let genesis = node.genesis();
    assert_eq!((node.tagged("safe"), node.tagged("finalized")), (None, None), "none is named yet");
    for tag in ["safe", "finalized"] {
        let unknown = (-39001, "Unknown block".to_owned());
        assert_eq!(node.client.error("eth_getBlockByNumber", json!([tag, false])), unknown);
        assert_eq!(node.client.error("eth_getBalance", json!([address(0), tag])), unknown);
    }
    let sibling = node.build(5, genesis, &attributes(5, 12, 9));
    let mut chain = Vec::new();
    for height in 1..=4u64 {
        let parent = chain.last().copied().unwrap_or(genesis);
        let payload = node.build(5, parent, &attributes(5, 12 * height, height));
        node.offer(&payload);
        chain.push(payload.hash());
    }
    node.offer(&sibling);
    let code = |node: &Driven, head: B256, safe: B256, finalised: B256| {
        let state = super::beacon::state(head, safe, finalised);
        node.error("engine_forkchoiceUpdatedV3", &json!([state, null]))
    };
    let (unknown, none) = (B256::repeat_byte(1), B256::ZERO);
    for (safe, finalised) in
        [(unknown, none), (none, unknown), (sibling.hash(), none), (none, sibling.hash()), (chain[3], none)]
    {
        assert_eq!(code(&node, chain[2], safe, finalised), -38002, "{safe} {finalised}");
    }
    assert_eq!(code(&node, none, none, none), -38002);
    assert_eq!(node.choose(chain[3], chain[2], chain[1]), valid(chain[3]));
    for _ in 0..2 {
        let tags = ["latest", "safe", "finalized"].map(|tag| node.tagged(tag));
        assert_eq!(tags, [chain[3], chain[2], chain[1]].map(Some));
        let logs = node.client.get("eth_getLogs", json!([{ "fromBlock": "finalized", "toBlock": "safe" }]));
        assert_eq!(logs, json!([]));
        // An ancestor of the final block is valid, and not chosen.
        for head in [genesis, chain[0]] {
            node.head(head);
            assert_eq!(node.tagged("latest"), Some(chain[3]));
        }
        // Zero and an older block leave what is final as it is.
        assert_eq!(node.choose(chain[3], chain[2], chain[0]), valid(chain[3]));
        assert_eq!(node.tagged("finalized"), Some(chain[1]));
        assert_eq!(node.offer(&sibling), accepted());
        assert_eq!(code(&node, sibling.hash(), none, none), -38006);
        node.stop();
        node = Driven::start(&settings);
    }
    // Down to the final block, and no further.
    assert_eq!(node.choose(chain[1], chain[1], none), valid(chain[1]));
    assert_eq!(["latest", "safe", "finalized"].map(|tag| node.tagged(tag)), [chain[1]; 3].map(Some));
    let next = node.build(5, chain[1], &attributes(5, 100, 20));
    assert_eq!(node.offer(&next), valid(next.hash()));
    node.head(next.hash());
    node.stop();
}

#[test]
fn states_that_are_not_kept_are_too_deep() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = driven(folder.path(), genesis());
    settings.history = 3;
    let node = Driven::start(&settings);
    let genesis = node.genesis();
    let mut chain = vec![genesis];
    for height in 1..=6u64 {
        let payload = node.build(5, chain[chain.len() - 1], &attributes(5, 12 * height, height));
        node.offer(&payload);
        node.head(payload.hash());
        chain.push(payload.hash());
    }
    let code = |head: B256| {
        let state = super::beacon::state(head, B256::ZERO, B256::ZERO);
        let answer: Value = node.error("engine_forkchoiceUpdatedV3", &json!([state, null])).into();
        answer
    };
    assert_eq!(code(chain[2]), json!(-38006));
    node.head(chain[3]);
    node.head(chain[3]);
    assert_eq!(node.tagged("latest"), Some(chain[3]));
    node.stop();
}

/// Chooses a head that is far away: a node that is not there in time says so, and the client repeats its choice.
fn until_there(node: &Driven, head: B256) {
    while node.choose(head, B256::ZERO, B256::ZERO) == syncing() {}
    assert_eq!(node.choose(head, B256::ZERO, B256::ZERO), valid(head));
    assert_eq!(node.tagged("latest"), Some(head));
}

#[test]
fn blocks_from_the_final_one_on_stay_whatever_is_to_be_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = driven(&folder.path().join("one"), genesis());
    (settings.keep_blocks, settings.segment_bytes, settings.history) = (Some(1), 4_000, 250);
    let node = Driven::start(&settings);
    let (mut chain, mut all) = (vec![node.genesis()], Vec::new());
    // Old blocks are deleted at height 256.
    for height in 1..=256u64 {
        let payload = node.build(5, chain[chain.len() - 1], &attributes(5, 12 * height, height));
        node.offer(&payload);
        chain.push(payload.hash());
        all.push(payload);
        if height == 100 {
            node.choose(chain[100], chain[20], chain[20]);
        }
    }
    node.head(chain[256]);
    let is_there = |height: usize| node.tagged(&format!("{height:#x}")) == Some(chain[height]);
    assert!((20..=256).all(is_there), "the head may go back to the final block");
    let pruned = node.client.error("eth_getBlockByNumber", json!(["0x1", false])).0;
    assert_eq!(pruned, 4444);
    for head in [chain[30], chain[256]] {
        until_there(&node, head);
    }
    node.stop();
    // A client that catches up sends many before it chooses.
    let late = Driven::start(&driven(&folder.path().join("late"), genesis()));
    for (place, payload) in all.iter().enumerate() {
        let expected = if place < 48 { valid(payload.hash()) } else { syncing() };
        assert_eq!(late.offer(payload), expected, "payload {place}");
    }
    until_there(&late, chain[256]);
    late.stop();
}
