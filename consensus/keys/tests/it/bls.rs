//! Signatures of groups: enough shares make them, liars are found, files that do not belong together are refused, and a client
//! verifies one message.

use alloy_primitives::{B256, Bytes, hex};
use blst::{
    MultiPoint as _, blst_p1_affine,
    min_sig::{AggregateSignature, Signature},
};
use phalanx_bft::{Claim, Domain, Group, Index, ReplicaSet, Statement as _, sbft::Executed};
use phalanx_keys::{BadSignature, Bls, BlsFile, KeyError, Scheme as _, deal_bls};
use phalanx_merkle_proof::{
    BlockResult, ProofError, Trust, acknowledge, prove_fate, transactions_root, verify_acknowledgement,
};
use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

const SEED: [u8; 32] = [9; 32];
const MESSAGE: &[u8] = b"a statement";

fn schemes(n: usize, f: usize) -> Vec<Bls> {
    deal_bls(n, f, &SEED).unwrap().iter().map(|file| Bls::new(file).unwrap()).collect()
}

fn shares(schemes: &[Bls], group: Group) -> Vec<(Index, Bytes)> {
    let of = |(at, scheme): (usize, &Bls)| (Index(at as u16), scheme.share(group, MESSAGE));
    schemes.iter().enumerate().map(of).collect()
}

fn claim(group: Group, signature: Bytes) -> Claim {
    Claim { signer: group.signer(), bytes: MESSAGE.to_vec(), signature }
}

#[test]
fn any_enough_shares_make_the_same_signature_and_fewer_none() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (n, f, needed) in [(4, 1, [4, 4, 3, 2]), (6, 1, [6, 5, 4, 2]), (9, 2, [9, 8, 6, 3])] {
        let schemes = schemes(n, f);
        for group in Group::ALL {
            let needed = needed[group as usize];
            let mut all = shares(&schemes, group);
            let first = schemes[0].combine(group, MESSAGE, &all[..needed]).unwrap();
            for _ in 0..3 {
                all.shuffle(&mut rng);
                assert_eq!(schemes[1].combine(group, MESSAGE, &all[..needed]), Ok(first.clone()), "unique");
                let none = ReplicaSet::default();
                assert_eq!(schemes[1].combine(group, MESSAGE, &all[..needed - 1]), Err(none));
            }
            assert_eq!(schemes[2].verify(&[claim(group, first.clone())]), Ok(()));
            // Not under another group's key, nor over other bytes.
            for other in Group::ALL.into_iter().filter(|other| *other != group) {
                let wrong = claim(other, first.clone());
                assert_eq!(schemes[2].verify(&[wrong]), Err(BadSignature { at: 0, signer: other.signer() }));
            }
            let wrong = Claim { bytes: b"other".to_vec(), ..claim(group, first) };
            assert!(schemes[2].verify(&[wrong]).is_err());
        }
    }
}

#[test]
fn claims_of_groups_and_replicas_are_verified_together_and_the_first_wrong_one_is_named() {
    let schemes = schemes(4, 1);
    let mut claims = Vec::new();
    for group in Group::ALL {
        claims.push(claim(group, schemes[0].combine(group, MESSAGE, &shares(&schemes, group)).unwrap()));
        let signer = Index(group as u16);
        let signature = schemes[usize::from(signer.0)].sign(MESSAGE);
        claims.push(Claim { signer, bytes: MESSAGE.to_vec(), signature });
    }
    assert_eq!(schemes[3].verify(&claims), Ok(()));
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for at in 0..claims.len() {
        let mut wrong = claims.clone();
        let mut signature = wrong[at].signature.to_vec();
        let byte = rng.random_range(0..signature.len());
        signature[byte] ^= 1 << rng.random_range(0..8);
        wrong[at].signature = signature.into();
        let signer = wrong[at].signer;
        assert_eq!(schemes[3].verify(&wrong), Err(BadSignature { at, signer }));
    }
}

#[test]
fn every_liar_among_the_shares_is_found_and_no_other_replica() {
    let schemes = schemes(9, 2);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for group in Group::ALL {
        for round in 0..6 {
            let mut all = shares(&schemes, group);
            let mut liars = ReplicaSet::default();
            for _ in 0..=round % 3 {
                let liar = rng.random_range(0..3);
                liars.insert(Index(liar));
                all[usize::from(liar)].1 = match rng.random_range(0..3) {
                    0 => schemes[usize::from(liar)].share(group, b"something else"),
                    1 => schemes[8].share(group, MESSAGE),
                    _ => Bytes::from_static(b"junk"),
                };
            }
            let found = schemes[0].combine(
                group,
                MESSAGE,
                &all[..match group {
                    Group::State => 3,
                    Group::Slow => 6,
                    Group::Fast => 8,
                    Group::All => 9,
                }],
            );
            assert_eq!(found.map_err(|found| found.iter().collect::<Vec<_>>()), Err(liars.iter().collect()));
        }
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let files = deal_bls(4, 1, &SEED).unwrap();
    for file in &files {
        assert_eq!(BlsFile::parse(file.to_json().as_bytes()).as_ref(), Ok(file));
    }
    assert!(!format!("{:?}", files[0]).contains("secret"));
    crate::survives_flips(&files[0].to_json(), |bytes| BlsFile::parse(bytes).ok());
    let value = |file: &BlsFile| crate::content(&file.to_json());
    let (good, other) = (value(&files[0]), value(&files[1]));
    let foreign = value(&deal_bls(4, 1, &[1; 32]).unwrap()[0]);
    let parse = |value: &serde_json::Value| BlsFile::parse(value.to_string().as_bytes());
    assert!(parse(&good).is_ok());
    let mut bad = good.clone();
    bad["groups"][1]["secret"] = other["groups"][1]["secret"].clone();
    assert!(matches!(parse(&bad), Err(KeyError::Groups { what, .. }) if what.contains("another replica")));
    for part in ["public", "shares"] {
        let mut bad = good.clone();
        bad["groups"][2][part] = foreign["groups"][2][part].clone();
        assert!(matches!(parse(&bad), Err(KeyError::Groups { .. })), "{part}");
    }
    let mut bad = good.clone();
    bad["groups"][0]["shares"][3] = good["groups"][0]["shares"][2].clone();
    assert!(matches!(parse(&bad), Err(KeyError::Groups { what, .. }) if what.contains("not that of its shares")));
    let mut bad = good.clone();
    bad["groups"][0]["public"] = "0x00".into();
    assert!(matches!(parse(&bad), Err(KeyError::Groups { what, .. }) if what.contains("no point")));
    let mut bad = good.clone();
    bad["faulty"] = 2.into();
    assert!(matches!(parse(&bad), Err(KeyError::Groups { .. })));
    let mut bad = good;
    bad["version"] = 2.into();
    assert_eq!(parse(&bad), Err(KeyError::Version { version: 2 }));
    assert!(matches!(BlsFile::parse(b"{}"), Err(KeyError::Malformed { .. })));
    for (n, f) in [(3, 1), (5, 1), (257, 85), (0, 0)] {
        assert!(matches!(deal_bls(n, f, &SEED), Err(KeyError::Groups { .. })), "n = {n}, f = {f}");
    }
}

/// The client's verifier, without the standard library, accepts what the replicas sign, and nothing else.
#[test]
fn a_client_verifies_one_message() {
    let files = deal_bls(4, 1, &SEED).unwrap();
    let schemes: Vec<Bls> = files.iter().map(|file| Bls::new(file).unwrap()).collect();
    let fates: Vec<([u8; 32], u8)> = (0..5).map(|at| ([at; 32], at % 3)).collect();
    let block = BlockResult {
        execution: [1; 32],
        state_root: [2; 32],
        receipts_root: [3; 32],
        transactions_root: transactions_root(&fates),
        gas_used: 21_000,
    };
    let public_key: [u8; 96] = files[0].public_key(Group::State).unwrap().as_ref().try_into().unwrap();
    let trust = Trust { chain: 7, epoch: 1, instance: [0; 32], public_key: &public_key };
    let named = Trust { instance: [9; 32], ..trust };
    for (slot, trust) in
        [0, 1, 0x7f, 0x80, 0xff, 0x100, u64::MAX].into_iter().flat_map(|slot| [(slot, trust), (slot, named)])
    {
        let executed = Executed { slot, digest: B256::new(block.digest()) };
        let bytes = executed.signed_bytes(Domain { instance: B256::new(trust.instance), ..Domain::unnamed(7, 1) });
        let shares: Vec<_> = [1, 3].map(|at| (Index(at), schemes[usize::from(at)].share(Group::State, &bytes))).into();
        let signature = schemes[2].combine(Group::State, &bytes, &shares).unwrap();
        let signature: [u8; 48] = signature.as_ref().try_into().unwrap();
        let message = acknowledge(slot, &block.digest(), &signature, &prove_fate(&block, &fates, 3).unwrap());
        let known = verify_acknowledgement(&trust, &[3; 32], &message).unwrap();
        assert_eq!((known.slot, known.fate.status, known.fate.place, known.fate.block), (slot, 0, 3, block));
        assert!(message.len() < 350, "{} bytes", message.len());
        // Another transaction, network or key.
        assert_eq!(verify_acknowledgement(&trust, &[4; 32], &message), Err(ProofError::Root));
        let others = [
            Trust { chain: 8, ..trust },
            Trust { epoch: 2, ..trust },
            Trust { instance: [7; 32], ..trust },
            Trust { public_key: &[0; 96], ..trust },
        ];
        for wrong in others {
            assert_eq!(verify_acknowledgement(&wrong, &[3; 32], &message), Err(ProofError::Signature));
        }
        if slot == 0x80 {
            for at in 0..message.len() {
                let mut wrong = message.clone();
                wrong[at] ^= 1 << (at % 8);
                assert!(verify_acknowledgement(&trust, &[3; 32], &wrong).is_err(), "byte {at}");
                assert!(verify_acknowledgement(&trust, &[3; 32], &message[..at]).is_err(), "cut at {at}");
            }
        }
    }
}

/// Costs of the operations for the simulator's table: `PHALANX_COSTS=1 cargo test --release -p phalanx-keys --test it bls::costs -- --nocapture`.
#[test]
fn costs_of_the_paper_s_sizes() {
    let measured = std::env::var("PHALANX_COSTS").is_ok();
    let sizes: &[(usize, usize)] = if measured { &[(4, 1), (193, 64), (209, 64)] } else { &[(4, 1)] };
    for (n, f) in sizes.iter().copied() {
        let files = deal_bls(n, f, &SEED).unwrap();
        let scheme = Bls::new(&files[0]).unwrap();
        let us = |what: &str, times: u32, act: &mut dyn FnMut()| {
            let began = std::time::Instant::now();
            (0..times).for_each(|_| act());
            println!("n = {n}: {what}: {:.0} µs", began.elapsed().as_secs_f64() * 1e6 / f64::from(times));
        };
        us("share", 20, &mut || drop(scheme.share(Group::Slow, MESSAGE)));
        for group in Group::ALL {
            let shares: Vec<(Index, Bytes)> = if measured {
                let share = |file: &BlsFile| (file.keys().index(), file.share(group, MESSAGE).unwrap());
                files.iter().map(share).collect()
            } else {
                schemes(n, f)
                    .iter()
                    .map(|s| s.share(group, MESSAGE))
                    .enumerate()
                    .map(|(at, s)| (Index(at as u16), s))
                    .collect()
            };
            let mut signature = Bytes::new();
            us(&format!("combine {group:?}"), 3, &mut || signature = scheme.combine(group, MESSAGE, &shares).unwrap());
            us("verify", 5, &mut || assert!(scheme.verify(&[claim(group, signature.clone())]).is_ok()));
        }
    }
}

/// A point of the curve outside of the group that signatures are from, times the group's order: adding it changes a signature and
/// no pairing.
fn outside() -> blst_p1_affine {
    // Little-endian.
    const ORDER: [u8; 32] = hex!("01000000fffffffffe5bfeff02a4bd5305d8a10908d83933487d9d2953a7ed73");
    let candidates = (0..=u8::MAX).map(|byte| [&[0x80][..], &[0; 46], &[byte]].concat());
    let point =
        candidates.filter_map(|bytes| Signature::from_bytes(&bytes).ok()).find(|point| point.validate(true).is_err());
    let points: [blst_p1_affine; 1] = [point.expect("half of all numbers are of a point").into()];
    let outside = AggregateSignature::from(points.as_slice().mult(&ORDER, 255)).to_signature();
    assert!(outside.validate(false).is_err(), "it is neither zero nor in the group");
    outside.into()
}

/// The sum of a signature and a point.
fn plus(signature: &Bytes, point: blst_p1_affine) -> Bytes {
    let points = [Signature::from_bytes(signature).unwrap().into(), point];
    AggregateSignature::from(points.as_slice().add()).to_signature().to_bytes().into()
}

#[test]
fn signatures_outside_the_group_are_refused() {
    let (schemes, outside) = (schemes(4, 1), outside());
    let group = Group::Slow;
    let all = shares(&schemes, group);
    let whole = schemes[0].combine(group, MESSAGE, &all[..3]).unwrap();
    let wrong = claim(group, plus(&whole, outside));
    assert!(schemes[1].accepts(&[claim(group, whole.clone())]));
    assert!(!schemes[1].accepts(core::slice::from_ref(&wrong)), "alone");
    assert!(!schemes[1].accepts(&[claim(group, whole), wrong]), "in a batch");
    // A share that lies outside is named, also where the sum of all lies inside.
    let mut shares = all;
    shares[0].1 = plus(&shares[0].1, outside);
    let liars: ReplicaSet = [Index(0)].into_iter().collect();
    assert_eq!(schemes[1].combine(group, MESSAGE, &shares[..3]), Err(liars));
}

/// A replica has one share: repeated ones make no signature of fewer replicas.
#[test]
fn a_share_counts_once() {
    let schemes = schemes(4, 1);
    let group = Group::Slow;
    let all = shares(&schemes, group);
    let repeated = [all[0].clone(), all[1].clone(), all[0].clone()];
    let named: ReplicaSet = [Index(0)].into_iter().collect();
    assert_eq!(schemes[2].combine(group, MESSAGE, &repeated), Err(named));
    assert!(schemes[2].combine(group, MESSAGE, &all[..3]).is_ok());
}

/// Errors that cancel pass where every signature of a batch has the same weight.
#[test]
fn wrong_group_signatures_and_shares_whose_errors_cancel_are_refused() {
    let schemes = schemes(4, 1);
    let group = Group::Slow;
    let shares = shares(&schemes, group);
    let error: blst_p1_affine = Signature::from_bytes(&shares[3].1).unwrap().into();
    let negative = {
        // The third flag of a compressed point is the sign.
        let mut bytes = shares[3].1.to_vec();
        bytes[0] ^= 0x20;
        Signature::from_bytes(&bytes).unwrap().into()
    };
    let whole = schemes[0].combine(group, MESSAGE, &shares[..3]).unwrap();
    let (one, other) = (claim(group, plus(&whole, error)), claim(group, plus(&whole, negative)));
    assert!(!schemes[1].accepts(&[one, other]));
    let mut wrong = shares;
    wrong[0].1 = plus(&wrong[0].1, error);
    wrong[1].1 = plus(&wrong[1].1, negative);
    let liars: ReplicaSet = [Index(0), Index(1)].into_iter().collect();
    assert_eq!(schemes[2].combine(group, MESSAGE, &wrong[..3]), Err(liars));
}
