//! The store gives exactly the proofs of the verifier's test vectors. With `PHALANX_WRITE_VECTORS` set it writes them
//! anew, which is a change of the format.

use crate::model::FUNCTIONS;
use phalanx_merkle::{Backend, Delta, Params, Store, StoreConfig};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_store_gives_the_test_vectors() {
    let mut lines = String::new();
    for function in FUNCTIONS {
        let config = StoreConfig::new(Backend::Mem).with_params(Params::with_hash(function));
        let mut store = Store::open(config).expect("a store");
        for height in 0..6u32 {
            let mut delta = Delta::new();
            for i in 0..1500u32 {
                let key = (i * 7 + height * 140).to_be_bytes();
                if (i + height) % 11 == 0 {
                    delta.delete(&key);
                } else {
                    delta.put(&key, &[i.to_be_bytes(), height.to_be_bytes()].concat());
                }
            }
            let prepared = store.prepare(delta, u64::from(height)).expect("a block");
            store.commit(prepared).expect("a block");
        }
        assert!(store.shape().floor > 2048 && store.shape().twigs() > 4, "{:?}", store.shape());
        let (reader, root) = (store.read(), hex(&store.root()));
        let mut push = |kind: &str, key: &[u8], proof: Vec<u8>| {
            lines += &format!("{kind} {function} {root} {} {}\n", hex(key), hex(&proof));
        };
        let (here, gone) = (2107u32.to_be_bytes(), 1u32.to_be_bytes());
        push("inclusion", &here, reader.prove(&here).expect("a proof").expect("the key exists"));
        push("exclusion", &gone, reader.prove_absence(&gone).expect("a proof").expect("no such key"));
        let keys = [here, gone, 9000u32.to_be_bytes(), 2u32.to_be_bytes()];
        push("keys", keys.as_flattened(), reader.prove_keys(&keys).expect("a proof"));
        let (proof, end) = reader.prove_range(&[0x40; 32], &[0x41; 32], 100).expect("a proof");
        assert_eq!(end, [0x41; 32]);
        push("range", &[], proof);
        // An even key gets its bytes as value, an odd key is deleted; the root that results stands before the keys.
        let keys: [[u8; 4]; 4] = [2107u32, 2, 1, 2100].map(u32::to_be_bytes);
        let mut delta = Delta::new();
        for key in &keys {
            if key[3] % 2 == 0 { delta.put(key, key) } else { delta.delete(key) }
        }
        let witness = reader.witness(&delta).expect("a witness");
        let after = store.prepare(delta, 6).expect("a block").root();
        push("transition", &[&after[..], keys.as_flattened()].concat(), witness);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/proof/tests/vectors.txt");
    if std::env::var_os("PHALANX_WRITE_VECTORS").is_some() {
        std::fs::write(path, &lines).expect("the vectors");
    }
    assert!(std::fs::read_to_string(path).expect("the vectors") == lines, "the proofs changed");
}
