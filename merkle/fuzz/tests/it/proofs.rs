//! Untrusted proofs and witnesses.

use crate::common::{behaviour, chain, fuzz, params};
use phalanx_merkle::{
    Backend, Change, Delta, Hash, ProofError, Store, verify_exclusion, verify_inclusion, verify_keys, verify_range,
    verify_transition, verify_version,
};

/// Number of kinds of claims.
const KINDS: u8 = 6;

const ABSENT: [&[u8]; 3] = [b"absent", b"", &[0, 0, 0]];

fn keys() -> Vec<Vec<u8>> {
    (0..23u64).map(|i| i.to_be_bytes()[6..].to_vec()).collect()
}

const fn bounds(claim: u8) -> (Hash, Hash) {
    ([claim / 2; 32], [(claim / 2) | 0x7f; 32])
}

fn changes(claim: u8) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let change = |i: u8| (vec![0, i.wrapping_mul(claim) % 29], (!i.is_multiple_of(3)).then(|| vec![i]));
    (0..claim % 12).map(change).collect()
}

/// The only bytes that a verifier may accept for a claim.
fn honest(store: &Store, kind: u8, claim: u8) -> Option<Vec<u8>> {
    let (reader, keys) = (store.read(), keys());
    match kind % KINDS {
        0 | 4 => reader.prove(&keys[usize::from(claim) % keys.len()]).expect("a proof"),
        1 => reader.prove_absence(ABSENT[usize::from(claim) % ABSENT.len()]).expect("a proof"),
        2 => Some(reader.prove_keys(&keys[..usize::from(claim) % keys.len()]).expect("a proof")),
        3 => {
            let (from, to) = bounds(claim);
            Some(reader.prove_range(&from, &to, 1000).expect("a proof").0)
        }
        _ => {
            let mut delta = Delta::new();
            changes(claim).iter().for_each(|(key, value)| match value {
                Some(value) => delta.put(key, value),
                None => delta.delete(key),
            });
            Some(reader.witness(&delta).expect("a witness"))
        }
    }
}

fn verify(kind: u8, claim: u8, root: &Hash, bytes: &[u8]) -> Result<(), ProofError> {
    let (params, keys) = (params(), keys());
    match kind % KINDS {
        0 => {
            let entry = verify_inclusion(&params, root, bytes)?;
            if entry.key == keys[usize::from(claim) % keys.len()] { Ok(()) } else { Err(ProofError::Other) }
        }
        1 => verify_exclusion(&params, root, ABSENT[usize::from(claim) % ABSENT.len()], bytes),
        2 => verify_keys(&params, root, &keys[..usize::from(claim) % keys.len()], bytes, |_, _| ()),
        3 => {
            let (from, to) = bounds(claim);
            verify_range(&params, root, &from, &to, bytes).map(|_| ())
        }
        4 => verify_version(&params, root, bytes).and_then(|proven| {
            let key = &keys[usize::from(claim) % keys.len()];
            if proven.active && proven.entry.key == key { Ok(()) } else { Err(ProofError::Inactive) }
        }),
        _ => {
            let changes = changes(claim);
            let changes: Vec<Change<'_>> = changes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
            verify_transition(&params, root, 12, &changes, bytes).map(|_| ())
        }
    }
}

#[test]
fn only_the_stores_own_proofs_are_accepted() {
    let (store, state, _) = chain(Backend::Mem, 12);
    assert!(!state.is_empty());
    let root = store.root();
    let corpus = || {
        let claims = (0..KINDS).flat_map(|kind| [1u8, 6, 11].map(|claim| (kind, claim)));
        claims.filter_map(|(kind, claim)| Some([vec![kind, claim], honest(&store, kind, claim)?].concat())).collect()
    };
    let mut accepted = 0;
    fuzz("proofs", 60_000, corpus, |input| {
        let [kind, claim, bytes @ ..] = input else { return 0 };
        let result = verify(*kind, *claim, &root, bytes);
        if result.is_ok() {
            accepted += 1;
            assert_eq!(honest(&store, *kind, *claim).as_deref(), Some(bytes), "kind {kind} claim {claim}");
        }
        behaviour((kind % KINDS, format!("{result:?}"), bytes.len() / 256))
    });
    assert!(accepted > 0, "the corpus itself is not accepted");
}
