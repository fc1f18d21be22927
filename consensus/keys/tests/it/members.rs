//! Keys that operators make alone: they fit together, no other half passes, and a wrong dealing names its dealer.

use alloy_primitives::{B256, Bytes, U256};
use phalanx_bft::{Claim, Group, Index};
use phalanx_keys::{
    Bls, BlsFile, Channel, Dealing, Ed25519, KeyError, KeyFile, OwnKeys, PublicKeys, Roster, Scheme as _,
};
use serde_json::Value;

const NAME: B256 = B256::repeat_byte(7);

fn fresh(n: usize) -> Vec<OwnKeys> {
    (0..n).map(|_| OwnKeys::fresh().unwrap()).collect()
}

fn roster(own: &[OwnKeys]) -> Roster {
    Roster::new(NAME, own.iter().map(OwnKeys::public).collect()).unwrap()
}

/// The same value with a field changed, as an attacker's file has it.
fn changed<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T, at: &str, to: Value) -> T {
    let mut json = serde_json::to_value(value).unwrap();
    *json.pointer_mut(at).unwrap() = to;
    serde_json::from_value(json).unwrap()
}

#[test]
fn keys_made_apart_sign_for_each_other_and_share_their_channels() {
    let own = fresh(4);
    let roster = roster(&own);
    let files: Vec<KeyFile> = own.iter().map(|own| roster.key_file(own).unwrap()).collect();
    for (at, file) in files.iter().enumerate() {
        assert_eq!(KeyFile::parse(file.to_json().as_bytes()).as_ref(), Ok(file), "it is read as it was written");
        assert_eq!(file.index(), Index(at as u16));
    }
    let schemes: Vec<Ed25519> = files.iter().map(|file| Ed25519::new(file).unwrap()).collect();
    let claim = |of: usize| {
        let bytes = vec![of as u8; 9];
        Claim { signer: Index(of as u16), signature: schemes[of].sign(&bytes), bytes }
    };
    assert!(schemes[3].accepts(&(0..4).map(claim).collect::<Vec<_>>()));
    for (a, b) in [(0, 1), (2, 3), (0, 3)] {
        let session = [5; 32];
        let mut out = Channel::new(&files[a], Index(b as u16), &session).unwrap();
        let mut into = Channel::new(&files[b], Index(a as u16), &session).unwrap();
        let tag = out.seal(b"frame");
        assert!(into.open(b"frame", &tag), "{a} to {b}");
    }
    // Another network has other channels, with equal keys.
    let other = Roster::new(B256::repeat_byte(8), roster.members().to_vec()).unwrap().key_file(&own[1]).unwrap();
    let tag = Channel::new(&files[0], Index(1), &[0; 32]).unwrap().seal(b"frame");
    assert!(!Channel::new(&other, Index(0), &[0; 32]).unwrap().open(b"frame", &tag));
    let json = own[0].to_json();
    assert_eq!(OwnKeys::parse(json.as_bytes()).as_ref(), Ok(&own[0]));
    crate::survives_flips(&json, |bytes| OwnKeys::parse(bytes).ok());
    let seed = crate::content(&json)["seed"].as_str().unwrap()[2..20].to_owned();
    assert!(!format!("{:?}", own[0]).contains(&seed), "nothing secret is printed");
    assert_ne!(own[0].public(), own[1].public(), "no two operators make the same keys");
}

#[test]
fn public_halves_of_others_are_refused() {
    let own = fresh(4);
    let publics: Vec<PublicKeys> = own.iter().map(OwnKeys::public).collect();
    let json = |of: usize| serde_json::to_value(&publics[of]).unwrap();
    let with = |member: PublicKeys| {
        let mut members = publics.clone();
        members[2] = member;
        Roster::new(NAME, members)
    };
    let unproven = |taken: &Result<Roster, KeyError>| matches!(taken, Err(KeyError::Unproven { index: 2, .. }));
    // A member that claims another's channel key, another's signing key, and one that no key has signed.
    assert!(unproven(&with(changed(&publics[2], "/channel", json(1)["channel"].clone()))));
    assert!(unproven(&with(changed(&publics[2], "/signing", json(1)["signing"].clone()))));
    assert!(unproven(&with(changed(&publics[2], "/proof", json(1)["proof"].clone()))));
    assert!(unproven(&with(changed(&publics[2], "/signing", serde_json::json!(B256::repeat_byte(0xff))))));
    assert_eq!(with(publics[1].clone()), Err(KeyError::Duplicate { first: 1, second: 2 }));
    assert_eq!(with(changed(&publics[2], "/version", 2.into())), Err(KeyError::Version { version: 2 }));
    assert_eq!(Roster::new(NAME, Vec::new()), Err(KeyError::Members { members: 0 }));
    let roster = Roster::new(NAME, publics).unwrap();
    assert_eq!(roster.key_file(&OwnKeys::fresh().unwrap()).unwrap_err(), KeyError::Stranger);
}

/// A public half as the owner of a signing key makes it, with any channel key.
fn half(signing: u8, channel: B256) -> PublicKeys {
    let seed = ed25519_zebra::SigningKey::from([signing; 32]);
    let signing = B256::from(<[u8; 32]>::from(ed25519_zebra::VerificationKey::from(&seed)));
    let proof = seed.sign(&[b"phalanx-keys 1 public half", signing.as_slice(), channel.as_slice()].concat());
    let proof = Bytes::copy_from_slice(&<[u8; 64]>::from(proof));
    let of = fresh(1)[0].public();
    let of = changed(&changed(&of, "/signing", serde_json::json!(signing)), "/channel", serde_json::json!(channel));
    changed(&of, "/proof", serde_json::json!(proof))
}

#[test]
fn members_share_no_key_and_are_as_many_as_replicas_can_be() {
    let other = B256::repeat_byte(5);
    let with = |second: PublicKeys| Roster::new(NAME, vec![half(1, NAME), second]).map(|roster| roster.members().len());
    assert_eq!(with(half(2, other)), Ok(2));
    for second in [half(1, other), half(2, NAME)] {
        assert_eq!(with(second), Err(KeyError::Duplicate { first: 0, second: 1 }));
    }
    let many: Vec<PublicKeys> = fresh(257).iter().map(OwnKeys::public).collect();
    assert!(Roster::new(NAME, many[..256].to_vec()).is_ok());
    assert_eq!(Roster::new(NAME, many), Err(KeyError::Members { members: 257 }));
    let mut own = crate::content(&fresh(1)[0].to_json());
    own["version"] = 2.into();
    assert_eq!(OwnKeys::parse(own.to_string().as_bytes()).unwrap_err(), KeyError::Version { version: 2 });
}

/// With a point of small order everyone agrees on zero: the channel would be open to all.
#[test]
fn a_channel_key_of_small_order_is_refused() {
    let own = fresh(1);
    for low in [B256::ZERO, U256::from(1).to_le_bytes().into()] {
        let bad = half(9, low);
        let roster = Roster::new(NAME, vec![own[0].public(), bad]).expect("it is signed by its owner");
        assert!(matches!(roster.key_file(&own[0]), Err(KeyError::Unproven { index: 1, .. })));
    }
}

#[test]
fn shares_that_all_members_deal_make_signatures_of_every_group() {
    for (n, f) in [(4, 1), (6, 1)] {
        let own = fresh(n);
        let roster = roster(&own);
        let dealings: Vec<Dealing> = own.iter().map(|own| Dealing::new(own, &roster, f).unwrap()).collect();
        let read = |dealing: &Dealing| Dealing::parse(dealing.to_json().as_bytes()).unwrap();
        let dealings: Vec<Dealing> = dealings.iter().map(read).collect();
        let files: Vec<BlsFile> = own.iter().map(|own| BlsFile::join(own, &roster, f, &dealings).unwrap()).collect();
        let schemes: Vec<Bls> = files.iter().map(|file| Bls::new(file).unwrap()).collect();
        for group in Group::ALL {
            let shares: Vec<(Index, Bytes)> =
                (0..n).map(|at| (Index(at as u16), schemes[at].share(group, b"all"))).collect();
            let signature = schemes[0].combine(group, b"all", &shares).unwrap();
            let claim = Claim { signer: group.signer(), bytes: b"all".to_vec(), signature };
            assert!(schemes.iter().all(|scheme| scheme.accepts(core::slice::from_ref(&claim))), "{n} {group:?}");
        }
        assert!(files.iter().all(|file| file.public_key(Group::State) == files[0].public_key(Group::State)));
        assert_eq!(Dealing::new(&own[0], &roster, f).unwrap(), dealings[0], "dealt again, it is the same");
    }
}

#[test]
fn a_wrong_dealing_names_its_dealer() {
    let own = fresh(4);
    let roster = roster(&own);
    let good: Vec<Dealing> = own.iter().map(|own| Dealing::new(own, &roster, 1).unwrap()).collect();
    let join = |dealings: &[Dealing]| BlsFile::join(&own[0], &roster, 1, dealings).map(drop);
    let with = |bad: Dealing| {
        let mut all = good.clone();
        all[2] = bad;
        join(&all)
    };
    let json = |of: usize| serde_json::to_value(&good[of]).unwrap();
    let says = |taken: Result<(), KeyError>, why: &str| match taken {
        Err(KeyError::Dealing { dealer: 2, what }) => assert!(what.contains(why), "{what}"),
        other => panic!("{why}: {other:?}"),
    };
    assert_eq!(join(&good), Ok(()));
    assert_eq!(join(&good[..3]), Err(KeyError::Undealt { dealer: 3 }));
    says(with(changed(&good[2], "/groups/0/values/0", json(2)["groups"][0]["values"][1].clone())), "not signed");
    says(with(changed(&good[2], "/signature", json(1)["signature"].clone())), "not signed");
    says(with(changed(&good[2], "/faulty", 0.into())), "another network");
    let elsewhere = Roster::new(B256::ZERO, roster.members().to_vec()).unwrap();
    says(with(Dealing::new(&own[2], &elsewhere, 1).unwrap()), "another network");
    let mut twice = good.clone();
    twice.push(changed(&good[2], "/signature", json(1)["signature"].clone()));
    says(join(&twice), "twice");
}
