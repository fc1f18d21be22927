//! Blobs: proofs that the pool demands, the hard fork that changes them, and their way back after a reorganisation.

use super::beacon::{Driven, attributes, driven};
use crate::{
    kit::{Blobs, Call, address, genesis, with_blobs},
    replicas::wait,
};
use alloy_eips::eip4844::kzg_to_versioned_hash;
use alloy_primitives::hex;
use phalanx::alloy::genesis::Genesis;
use serde_json::{Value, json};

/// Time at which Osaka begins.
const OSAKA: u64 = 1_000;

fn prague_then_osaka() -> Genesis {
    let mut genesis = genesis();
    genesis.config.osaka_time = Some(OSAKA);
    genesis
}

fn waits(node: &Driven, hash: &Value) -> bool {
    !node.client.get("eth_getTransactionByHash", json!([hash])).is_null()
}

#[test]
fn blobs_with_wrong_proofs_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let call = Call::to(0, 0, address(1), 0);
    let error = |tx: alloy_primitives::Bytes| node.client.error("eth_sendRawTransaction", json!([tx])).1;
    let wrong = |change: fn(&mut Blobs)| {
        let mut blobs = Blobs::cells(2);
        change(&mut blobs);
        error(with_blobs(&call, &blobs))
    };
    assert!(wrong(|blobs| blobs.proofs[130] = blobs.commitments[1]).contains("a proof"));
    assert!(wrong(|blobs| blobs.proofs[0] = [0x11; 48]).contains("a proof"), "no point");
    assert!(wrong(|blobs| blobs.blobs.swap(0, 1)).contains("a proof"), "of another blob");
    assert!(wrong(|blobs| blobs.blobs[0] = [0xff; 131_072].into()).contains("a proof"), "no element of the field");
    assert!(wrong(|blobs| _ = blobs.proofs.pop()).contains("the proofs that the hard fork demands"));
    assert!(error(with_blobs(&call, &Blobs::whole(2))).contains("the proofs that the hard fork demands"));
    node.client.send(&with_blobs(&call, &Blobs::cells(2)));
    node.stop();
}

#[test]
fn osaka_takes_proofs_of_cells_alone_and_drops_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), prague_then_osaka()));
    let (old, new) = (Blobs::whole(1), Blobs::cells(1));
    let hash = kzg_to_versioned_hash(&old.commitments[0]);
    let first = Call::to(0, 0, address(1), 0);
    let refused = node.client.error("eth_sendRawTransaction", json!([with_blobs(&first, &new)])).1;
    assert!(refused.contains("the proofs that the hard fork demands"), "{refused}");
    let [kept, lost, follows] = [
        with_blobs(&first, &old),
        with_blobs(&Call::to(1, 0, address(1), 0), &old),
        crate::kit::signed(2, &Call::to(1, 1, address(1), 0), vec![]),
    ]
    .map(|tx| json!(node.client.send(&tx)));
    let found = node.get("engine_getBlobsV1", &json!([[hash]]));
    assert_eq!(found[0]["proof"], json!(hex::encode_prefixed(old.proofs[0])));
    assert!(node.get("engine_getBlobsV2", &json!([[hash]])).is_null(), "none has cells");
    // A payload of before takes the first blob.
    let payload = node.build_with(4, node.genesis(), 12, 3);
    assert_eq!(payload.bundle["proofs"].as_array().map(Vec::len), Some(2));
    // Osaka's first payload takes none, and can be fetched.
    let empty = node.build(5, node.genesis(), &attributes(5, OSAKA, 1));
    assert_eq!((empty.txs().len(), waits(&node, &kept)), (0, true));
    assert_eq!(node.offer(&empty), ("VALID".into(), Some(empty.hash())));
    node.head(empty.hash());
    // A payload in the making may hold them until its pass ends.
    for gone in [&kept, &lost, &follows] {
        wait("it has other proofs, or follows one that has", || (!waits(&node, gone)).then_some(()));
    }
    assert_eq!(node.error("engine_getBlobsV1", &json!([[hash]])), -38005);
    node.client.send(&with_blobs(&first, &new));
    let refused =
        node.client.error("eth_sendRawTransaction", json!([with_blobs(&Call::to(2, 0, address(1), 0), &old)])).1;
    assert!(refused.contains("the proofs that the hard fork demands"), "{refused}");
    let next = node.build_with(5, empty.hash(), OSAKA + 12, 1);
    assert_eq!(next.bundle["proofs"].as_array().map(Vec::len), Some(128));
    node.stop();
}

#[test]
fn blobs_come_back_with_the_transactions_of_a_block_that_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let genesis = node.genesis();
    let sibling = node.build(5, genesis, &attributes(5, 12, 1));
    let tx = json!(node.client.send(&with_blobs(&Call::to(0, 0, address(1), 0), &Blobs::cells(2))));
    let full = node.build_with(5, genesis, 12, 1);
    for payload in [&full, &sibling] {
        assert_eq!(node.offer(payload), ("VALID".into(), Some(payload.hash())));
    }
    for _ in 0..2 {
        node.head(full.hash());
        // A payload in the making may hold them until its pass ends.
        let found = || node.get("engine_getBlobsV2", &json!([full.blobs()]));
        wait("they are on the chain", || found().is_null().then_some(()));
        node.head(sibling.hash());
        wait("the transaction is in the pool again", || waits(&node, &tx).then_some(()));
        assert_eq!(found().as_array().map(Vec::len), Some(2));
    }
    let next = node.build_with(5, sibling.hash(), 24, 1);
    assert_eq!((next.txs(), &next.bundle), (full.txs(), &full.bundle));
    node.stop();
}
