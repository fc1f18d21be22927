//! Test vectors for other implementations: one proof a line, `kind hash root key proof`. The store's tests pin that it
//! gives exactly these proofs.

use phalanx_merkle_proof::{
    Change, HashFn, Params, ProofError, verify_exclusion, verify_inclusion, verify_keys, verify_range,
    verify_transition, verify_version,
};

const VECTORS: &str = include_str!("vectors.txt");

fn hex(word: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).expect("a hex digit") as u8;
    word.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

struct Vector {
    kind: String,
    params: Params,
    root: [u8; 32],
    key: Vec<u8>,
    proof: Vec<u8>,
}

fn vectors() -> impl Iterator<Item = Vector> {
    VECTORS.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, hash, root, key, proof] = words[..] else { panic!("{line}") };
        let hash = [HashFn::Sha256, HashFn::Keccak256, HashFn::Blake3].into_iter().find(|f| f.to_string() == hash);
        Vector {
            kind: kind.to_owned(),
            params: Params::with_hash(hash.expect("a hash function")),
            root: hex(root).try_into().expect("32 bytes"),
            key: hex(key),
            proof: hex(proof),
        }
    })
}

fn holds(vector: &Vector, root: &[u8; 32], proof: &[u8]) -> Result<(), ProofError> {
    let Vector { kind, params, key, .. } = vector;
    match &**kind {
        "inclusion" => {
            let entry = verify_inclusion(params, root, proof)?;
            if entry.key == key { Ok(()) } else { Err(ProofError::Other) }
        }
        "exclusion" => verify_exclusion(params, root, key, proof),
        "keys" => verify_keys(params, root, &key.chunks(4).collect::<Vec<_>>(), proof, |_, _| ()),
        "range" => verify_range(params, root, &[0x40; 32], &[0x41; 32], proof).map(|_| ()),
        "transition" => {
            let (after, keys) = key.split_at(32);
            let changes: Vec<Change<'_>> = keys.chunks(4).map(|key| (key, (key[3] % 2 == 0).then_some(key))).collect();
            let found = verify_transition(params, root, 6, &changes, proof)?;
            if found == after { Ok(()) } else { Err(ProofError::Other) }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_vector_verifies_and_no_changed_vector_does() {
    let mut kinds = std::collections::BTreeSet::new();
    for vector in vectors() {
        let (kind, hash) = (&vector.kind, vector.params.hash);
        kinds.insert((kind.clone(), hash.to_string()));
        assert_eq!(holds(&vector, &vector.root, &vector.proof), Ok(()), "{kind} {hash}");
        let mut root = vector.root;
        root[31] ^= 1;
        assert_eq!(holds(&vector, &root, &vector.proof), Err(ProofError::Root), "{kind} {hash}");
        // Every byte of one proof, and a sample of the others.
        let step = if hash == HashFn::Blake3 && kind == "inclusion" { 1 } else { 101 };
        for at in (0..vector.proof.len()).step_by(step) {
            for flip in [1u8, 0x80] {
                let mut changed = vector.proof.clone();
                changed[at] ^= flip;
                assert!(holds(&vector, &vector.root, &changed).is_err(), "{kind} {hash} byte {at} ^ {flip:#x}");
            }
            assert!(holds(&vector, &vector.root, &vector.proof[..at]).is_err(), "{kind} {hash} cut at {at}");
        }
        for extra in [1usize, 31, 32, 64] {
            let longer = [vector.proof.clone(), vec![0; extra]].concat();
            assert!(holds(&vector, &vector.root, &longer).is_err(), "{kind} {hash} and {extra} bytes");
        }
    }
    assert_eq!(kinds.len(), 5 * 3);
}

#[test]
fn a_proof_of_one_kind_proves_no_other_kind() {
    for vector in vectors().filter(|vector| vector.kind == "inclusion") {
        let Vector { params, root, key, proof, .. } = &vector;
        assert_eq!(verify_exclusion(params, root, key, proof), Err(ProofError::Other));
        assert!(verify_version(params, root, proof).is_ok_and(|proven| proven.active));
        let other = Params::with_hash(match params.hash {
            HashFn::Sha256 => HashFn::Blake3,
            HashFn::Keccak256 | HashFn::Blake3 => HashFn::Sha256,
        });
        assert_eq!(verify_inclusion(&other, root, proof), Err(ProofError::Root));
    }
}

/// Small numbers and short lengths let random bytes get past the first checks.
#[test]
fn random_bytes_never_panic() {
    let mut state = 11u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..20_000 {
        let mut bytes: Vec<u8> = (0..usize::from(next()) * 4).map(|_| next()).collect();
        bytes.iter_mut().take(29).enumerate().for_each(|(at, byte)| match at {
            0 => *byte = 2,
            7 | 8 | 15 | 16 | 23 | 24 => {}
            28 => *byte %= 4,
            _ => *byte = 0,
        });
        let params = Params::default();
        assert!(verify_inclusion(&params, &[7; 32], &bytes).is_err(), "round {round}");
        assert!(verify_range(&params, &[7; 32], &[0; 32], &[0xff; 32], &bytes).is_err(), "round {round}");
        if let Some(first) = bytes.first_mut() {
            *first = 0x82;
        }
        assert!(verify_transition(&params, &[7; 32], 1, &[], &bytes).is_err(), "round {round}");
    }
}
