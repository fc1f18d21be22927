//! Signatures, channels and key files: the right ones pass, everything else is refused by name.

use alloy_primitives::Bytes;
use phalanx_bft::{Claim, Index};
use phalanx_keys::{BadSignature, Channel, Ed25519, KeyError, KeyFile, Scheme, Simulated, deal};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SEED: [u8; 32] = [3; 32];

fn claims(n: u16, sign: impl Fn(u16, &[u8]) -> Bytes) -> Vec<Claim> {
    let claim = |index: u16| {
        let bytes = vec![index as u8; 40 + usize::from(index)];
        Claim { signer: Index(index), signature: sign(index, &bytes), bytes }
    };
    (0..n).map(claim).collect()
}

#[test]
fn a_batch_names_the_first_wrong_signature() {
    let files = deal(8, &SEED).unwrap();
    let schemes: Vec<Ed25519> = files.iter().map(|file| Ed25519::new(file).unwrap()).collect();
    let good = claims(8, |index, bytes| schemes[usize::from(index)].sign(bytes));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for count in 0..=8 {
        assert!(schemes[7].verify(&good[..count]) == Ok(()) && schemes[7].accepts(&good[..count]));
        for at in 0..count {
            let mut bad = good[..count].to_vec();
            let expected = match rng.random_range(0..4) {
                0 => {
                    bad[at].bytes[3] ^= 1;
                    at
                }
                1 => {
                    let mut signature = bad[at].signature.to_vec();
                    signature[rng.random_range(0..64)] ^= 1 << rng.random_range(0..8);
                    bad[at].signature = signature.into();
                    at
                }
                2 => {
                    bad[at].signature = Bytes::from(vec![0; rng.random_range(0..63)]);
                    at
                }
                _ => {
                    bad[at].signer = Index(bad[at].signer.0 + 8);
                    at
                }
            };
            assert_eq!(schemes[0].verify(&bad), Err(BadSignature { at: expected, signer: bad[at].signer }));
            assert!(!schemes[0].accepts(&bad), "{count} claims");
        }
    }
}

/// The second half of an Ed25519 signature is a number. Two whose errors cancel pass where every signature has the same weight.
#[test]
fn wrong_signatures_whose_errors_cancel_are_refused() {
    let files = deal(4, &SEED).unwrap();
    let schemes: Vec<Ed25519> = files.iter().map(|file| Ed25519::new(file).unwrap()).collect();
    let good = claims(4, |index, bytes| schemes[usize::from(index)].sign(bytes));
    let mut bad = good.clone();
    for (at, add) in [(0, true), (1, false)] {
        let mut signature = bad[at].signature.to_vec();
        // By one, in little-endian bytes: a random number overflows nothing.
        signature[32] = if add { signature[32].checked_add(1) } else { signature[32].checked_sub(1) }.unwrap();
        bad[at].signature = signature.into();
    }
    assert!(schemes[3].accepts(&good));
    assert!(!schemes[3].accepts(&bad) && !schemes[3].accepts(&bad[..3]));
    assert_eq!(schemes[3].verify(&bad), Err(BadSignature { at: 0, signer: Index(0) }));
}

#[test]
fn simulated_signatures_have_the_length_asked_for_and_belong_to_their_signer() {
    for length in [16, 48, 64, 96] {
        let good = claims(4, |index, bytes| Simulated::new(Index(index), length).sign(bytes));
        let verifier = Simulated::new(Index(9), length);
        assert!(good.iter().all(|claim| claim.signature.len() == length));
        assert_eq!(verifier.verify(&good), Ok(()));
        let mut bad = good;
        bad[2].signer = Index(1);
        assert_eq!(verifier.verify(&bad), Err(BadSignature { at: 2, signer: Index(1) }));
    }
}

#[test]
fn a_channel_refuses_changed_repeated_reordered_and_reflected_frames() {
    let files = deal(3, &SEED).unwrap();
    let pair = || {
        let a = Channel::new(&files[0], Index(1), &[1; 32]).unwrap();
        (a, Channel::new(&files[1], Index(0), &[1; 32]).unwrap())
    };
    let (mut a, mut b) = pair();
    for frame in [&b"one"[..], b"", b"three"] {
        let tag = a.seal(frame);
        assert!(b.open(frame, &tag));
    }
    let (mut a, b) = pair();
    let (first, second) = (a.seal(b"one"), a.seal(b"two"));
    assert!(!b.clone().open(b"onf", &first), "changed");
    assert!(!b.clone().open(b"two", &second), "reordered");
    assert!(!a.open(b"one", &first), "reflected");
    let mut repeated = b;
    assert!(repeated.open(b"one", &first) && !repeated.open(b"one", &first), "repeated");
    let mut other_session = Channel::new(&files[1], Index(0), &[2; 32]).unwrap();
    assert!(!other_session.open(b"one", &first), "another connection");
    let mut stranger = Channel::new(&files[2], Index(0), &[1; 32]).unwrap();
    assert!(!stranger.open(b"one", &first), "another replica");
}

#[test]
fn key_files_survive_encoding_and_every_damage_is_refused() {
    let files = deal(4, &SEED).unwrap();
    assert_eq!(files, deal(4, &SEED).unwrap());
    assert_ne!(files, deal(4, &[4; 32]).unwrap());
    for file in &files {
        assert_eq!(KeyFile::parse(file.to_json().as_bytes()).as_ref(), Ok(file));
        assert!(!format!("{file:?}").contains("seed"), "secrets are not printed");
    }
    let parse = |json: serde_json::Value| KeyFile::parse(json.to_string().as_bytes()).unwrap_err();
    let json = crate::content(&files[1].to_json());
    let with = |field: &str, value: serde_json::Value| {
        let mut json = json.clone();
        json[field] = value;
        parse(json)
    };
    assert_eq!(with("version", 2.into()), KeyError::Version { version: 2 });
    assert_eq!(with("index", 4.into()), KeyError::Count { index: 4, public: 4, channel: 4 });
    assert_eq!(with("index", 2.into()), KeyError::Foreign { index: 2 });
    assert_eq!(with("signing_seed", json["channel_keys"][0].clone()), KeyError::Foreign { index: 1 });
    assert!(matches!(with("signing_seed", "0x00".into()), KeyError::Malformed { .. }));
    assert!(matches!(with("more", 1.into()), KeyError::Malformed { .. }));
    let mut keys = json["public_keys"].clone();
    keys[3] = keys[0].clone();
    assert_eq!(with("public_keys", keys.clone()), KeyError::Duplicate { first: 0, second: 3 });
    keys[3] = format!("0x{}", "02".repeat(32)).into();
    assert!(matches!(with("public_keys", keys), KeyError::PublicKey { index: 3 }));
    // Files of versions without a checksum are read.
    assert_eq!(KeyFile::parse(json.to_string().as_bytes()).as_ref(), Ok(&files[1]));
    crate::survives_flips(&files[1].to_json(), |bytes| KeyFile::parse(bytes).ok());
    let few: Vec<serde_json::Value> = json["channel_keys"].as_array().unwrap()[..3].to_vec();
    assert_eq!(with("channel_keys", few.into()), KeyError::Count { index: 1, public: 4, channel: 3 });
    for peer in [1, 4] {
        assert!(Channel::new(&files[1], Index(peer), &[1; 32]).is_err(), "a channel to itself, or to no replica");
    }
    for cut in 0..files[0].to_json().len() - 1 {
        assert!(KeyFile::parse(&files[0].to_json().as_bytes()[..cut]).is_err());
    }
    assert!(deal(0, &SEED).is_err() && deal(257, &SEED).is_err() && deal(256, &SEED).is_ok());
}

/// A channel key that is zero or shared lets a stranger speak for a peer.
#[test]
fn channel_keys_that_authenticate_nobody_are_refused() {
    let files = deal(4, &SEED).unwrap();
    let changed = |at: usize, from: usize| {
        let mut json = crate::content(&files[1].to_json());
        json["channel_keys"][at] = json["channel_keys"][from].clone();
        KeyFile::parse(json.to_string().as_bytes())
    };
    assert_eq!(changed(0, 0).as_ref(), Ok(&files[1]));
    for peer in [0, 2, 3] {
        assert_eq!(changed(peer, 1), Err(KeyError::ChannelKey { index: 1, peer }));
        assert_eq!(changed(1, peer), Err(KeyError::ChannelKey { index: 1, peer: 1 }));
    }
    assert_eq!(changed(0, 2), Err(KeyError::SharedChannel { index: 1, first: 0, second: 2 }));
    assert_eq!(changed(3, 2), Err(KeyError::SharedChannel { index: 1, first: 2, second: 3 }));
}
