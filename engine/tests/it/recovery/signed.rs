//! Signed transactions of every type, and their recovery.

use crate::kit::{ETHER, builder, env, eoa, run};
use alloy_consensus::{
    SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip7702, TxEnvelope, TxLegacy,
    crypto::secp256k1::{recover_signer_unchecked, sign_message},
    transaction::SignerRecoverable as _,
};
use alloy_eips::{
    Encodable2718 as _,
    eip2930::{AccessList, AccessListItem},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256, uint};
use phalanx::{
    BlockLimits, Form, GenesisAccount, Order, RecoverError, Recovery,
    chain::ChainSpec,
    parascheduler::Workers,
    recover, recover_all,
    revm::{context::TxEnv, context_interface::either::Either, primitives::hardfork::SpecId},
};
use phalanx_workloads::fixtures::tx_env;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

pub(super) const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

pub(super) const fn key(byte: u8) -> B256 {
    B256::repeat_byte(byte)
}

/// Address of a key, recovered from a signature.
pub(super) fn address(key: B256) -> Address {
    let signature = sign_message(key, B256::ZERO).expect("a key");
    recover_signer_unchecked(&signature, B256::ZERO).expect("a signature")
}

pub(super) fn sign<T: SignableTransaction<Signature>>(key: B256, tx: T) -> Signed<T> {
    let signature = sign_message(key, tx.signature_hash()).expect("a key");
    Signed::new_unhashed(tx, signature)
}

pub(super) fn encoded(envelope: &TxEnvelope) -> Bytes {
    envelope.encoded_2718().into()
}

pub(super) fn recovery(spec: SpecId) -> Recovery {
    Recovery::new(ChainSpec::mainnet(), spec)
}

pub(super) fn legacy(chain_id: Option<u64>) -> TxEnvelope {
    let tx = TxLegacy { chain_id, nonce: 3, gas_price: 9, gas_limit: 21_000, to: to(), ..Default::default() };
    sign(key(1), tx).into()
}

pub(super) fn dynamic(nonce: u64, input: Bytes) -> TxEnvelope {
    let tx = TxEip1559 {
        chain_id: 1,
        nonce,
        gas_limit: 90_000,
        max_fee_per_gas: 40,
        max_priority_fee_per_gas: 2,
        to: to(),
        value: U256::from(5),
        input,
        ..Default::default()
    };
    sign(key(1), tx).into()
}

const fn to() -> TxKind {
    TxKind::Call(Address::repeat_byte(9))
}

pub(super) fn mirrored(signature: &Signature) -> Signature {
    Signature::new(signature.r(), ORDER - signature.s(), !signature.v())
}

pub(super) fn authorization(key: B256, nonce: u64) -> SignedAuthorization {
    let authorization = Authorization { chain_id: U256::ONE, address: Address::repeat_byte(7), nonce };
    let signature = sign_message(key, authorization.signature_hash()).expect("a key");
    authorization.into_signed(signature)
}

pub(super) fn set_code(list: Vec<SignedAuthorization>) -> TxEnvelope {
    let tx = TxEip7702 {
        chain_id: 1,
        gas_limit: 300_000,
        max_fee_per_gas: 40,
        to: Address::repeat_byte(9),
        authorization_list: list,
        ..Default::default()
    };
    sign(key(1), tx).into()
}

/// A transaction of every type that comes without blobs.
pub(super) fn samples() -> Vec<TxEnvelope> {
    let item = AccessListItem { address: Address::repeat_byte(8), storage_keys: vec![key(1), key(2)] };
    let access_list = AccessList(vec![item]);
    let listed = TxEip2930 { chain_id: 1, access_list, gas_limit: 60_000, ..Default::default() };
    vec![
        legacy(None),
        legacy(Some(1)),
        sign(key(1), listed).into(),
        dynamic(0, Bytes::new()),
        dynamic(u64::MAX, vec![7; 900].into()),
        set_code(vec![authorization(key(2), 4), authorization(key(3), 0)]),
    ]
}

#[test]
fn every_type_recovers_to_its_fields_its_sender_and_its_hash() {
    for envelope in samples() {
        let bytes = encoded(&envelope);
        let recovered = recovery(SpecId::OSAKA).recover(Form::Block, &bytes).expect("a transaction");
        assert_eq!(*recovered.hash(), *envelope.tx_hash());
        assert_eq!(*recovered.bytes(), bytes);
        assert_eq!(recovered.sender(), envelope.recover_signer().expect("a signature"));
        assert_eq!(recovered.sender(), address(key(1)));
        let expected = tx_env(&envelope, recovered.sender());
        let without = |tx: &TxEnv| TxEnv { authorization_list: Vec::new(), ..tx.clone() };
        assert_eq!(without(recovered.tx()), without(&expected));
        assert_eq!(recovered.tx().authorization_list.len(), expected.authorization_list.len());
        assert_eq!(recover(&bytes).expect("a transaction"), *recovered.tx());
        assert!(recovered.size() > bytes.len());
    }
}

#[test]
fn authorities_are_recovered_and_invalid_ones_are_skipped() {
    let good = authorization(key(2), 4);
    let mirror = mirrored(&good.signature().expect("a signature"));
    let high = good.inner().clone().into_signed(mirror);
    let odd = SignedAuthorization::new_unchecked(good.inner().clone(), 2, good.r(), good.s());
    let zero = SignedAuthorization::new_unchecked(good.inner().clone(), 0, U256::ZERO, good.s());
    let list = vec![good, high, odd, zero, authorization(key(3), 0)];
    let tx = recover(&encoded(&set_code(list))).expect("bad authorizations invalidate nothing");
    let authorities: Vec<_> = tx
        .authorization_list
        .iter()
        .map(|either| {
            let Either::Right(recovered) = either else { panic!("not recovered") };
            recovered.authority()
        })
        .collect();
    assert_eq!(authorities, [Some(address(key(2))), None, None, None, Some(address(key(3)))]);
}

#[test]
fn recovered_authorities_execute_like_revms() {
    let good = authorization(key(2), 0);
    let high = good.inner().clone().into_signed(mirrored(&good.signature().expect("a signature")));
    let self_signed = authorization(key(1), 1);
    let envelope = set_code(vec![high, good, self_signed]);
    let ours = recover(&encoded(&envelope)).expect("a transaction");
    let theirs = tx_env(&envelope, ours.caller);
    assert_ne!(ours, theirs, "ours is recovered, theirs is left to revm");
    let rich = |address| GenesisAccount { address, balance: U256::from(ETHER), ..Default::default() };
    let genesis = [rich(address(key(1))), eoa(9)];
    let limits = BlockLimits { max_txs: 10, max_gas: u64::MAX };
    let [ours, theirs] = [ours, theirs].map(|tx| run(builder(), &genesis, &[tx], Order::Given, limits, env));
    assert_eq!(ours.blocks, theirs.blocks);
    assert_eq!(ours.succeeded(), 1);
    let state = ours.engine.state().dump().expect("a state");
    assert!(state[&address(key(2))].code.is_some() && state[&address(key(1))].code.is_some(), "both delegate");
}

#[test]
fn a_batch_equals_its_members_on_any_number_of_threads() {
    let mut encoded: Vec<Bytes> = (0..200).map(|nonce| encoded(&dynamic(nonce, Bytes::new()))).collect();
    encoded[17] = Bytes::new();
    encoded[60] = Bytes::from_static(&[2, 0xc0]);
    encoded[199] = [&encoded[3][..], &[0]].concat().into();
    let recovery = recovery(SpecId::OSAKA);
    let one_by_one: Vec<String> =
        encoded.iter().map(|bytes| format!("{:?}", recovery.recover(Form::Block, bytes))).collect();
    assert_eq!(one_by_one.iter().filter(|result| result.starts_with("Err")).count(), 3);
    for threads in [1, 2, 4] {
        let workers = Workers::new(threads).expect("threads");
        let batch = recovery.recover_batch(&workers, Form::Block, &encoded);
        assert!(batch.iter().map(|result| format!("{result:?}")).eq(one_by_one.iter().cloned()), "{threads} threads");
        let plain = workers.install(|| recover_all(&encoded));
        for (plain, result) in plain.into_iter().zip(batch) {
            assert_eq!(plain.ok(), result.ok().map(|recovered| recovered.tx().clone()));
        }
    }
}

/// Senders and authorities of a batch are those of each transaction alone, with bad signatures beside good ones in any place.
#[test]
fn signatures_of_a_batch_have_no_influence_on_each_other() {
    let seed = std::env::var("PHALANX_FUZZ_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (osaka, frontier) = (recovery(SpecId::OSAKA), recovery(SpecId::FRONTIER));
    for _ in 0..12 {
        let mut truth = Vec::new();
        let batch: Vec<Bytes> = (0..rng.random_range(1..90))
            .map(|nonce| {
                let sender = key(rng.random_range(1..=254));
                let list = (0..rng.random_range(0..6)).map(|_| authorization(key(rng.random_range(1..=254)), nonce));
                let list: Vec<_> = list.collect();
                let envelope: TxEnvelope = match rng.random_range(0..3) {
                    0 if !list.is_empty() => {
                        let tx = TxEip7702 {
                            chain_id: 1,
                            nonce,
                            gas_limit: 300_000,
                            authorization_list: list,
                            ..Default::default()
                        };
                        sign(sender, tx).into()
                    }
                    1 => {
                        let tx = TxLegacy { nonce, gas_price: 9, gas_limit: 21_000, to: to(), ..Default::default() };
                        let signed = sign(sender, tx);
                        // The mirror image has the same sender; r = 5 is of no point.
                        let signature = match rng.random_range(0..3) {
                            0 => mirrored(signed.signature()),
                            1 => Signature::new(U256::from(5), U256::from(7), rng.random()),
                            _ => *signed.signature(),
                        };
                        Signed::new_unhashed(signed.tx().clone(), signature).into()
                    }
                    _ => dynamic(nonce, Bytes::new()),
                };
                truth.push(envelope.recover_signer_unchecked().ok());
                encoded(&envelope)
            })
            .collect();
        for recovery in [&osaka, &frontier] {
            let each = recovery.recover_each(Form::Block, &batch);
            let alone: Vec<_> = batch.iter().map(|bytes| recovery.recover(Form::Block, bytes)).collect();
            assert_eq!(format!("{each:?}"), format!("{alone:?}"), "seed {seed}");
        }
        for (tx, sender) in frontier.recover_each(Form::Block, &batch).into_iter().zip(truth) {
            if let Ok(tx) = tx {
                assert_eq!(Some(tx.sender()), sender, "seed {seed}");
                let listed = tx.tx().authorization_list.len();
                let authorities = tx.tx().authorization_list.iter().filter_map(|either| either.as_ref().right());
                assert_eq!(authorities.filter(|recovered| recovered.authority().is_some()).count(), listed);
            }
        }
        let plain = recover_all(&batch);
        for (plain, tx) in plain.into_iter().zip(osaka.recover_each(Form::Block, &batch)) {
            assert_eq!(plain.ok(), tx.ok().map(|tx| tx.tx().clone()), "seed {seed}");
        }
    }
}

/// For any bytes: no panic, and accepted bytes are the only encoding.
#[test]
fn damaged_bytes_are_refused_or_are_another_transaction() {
    let seed = std::env::var("PHALANX_FUZZ_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let samples = samples();
    let mut taken = 0;
    for _ in 0..3_000 {
        let envelope = &samples[rng.random_range(0..samples.len())];
        let mut bytes = envelope.encoded_2718();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..5) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, rng.random()),
                2 => _ = bytes.remove(at),
                _ => bytes[at] = rng.random(),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        match recover(&bytes) {
            Ok(tx) if bytes != envelope.encoded_2718() => {
                taken += 1;
                assert_ne!((tx.caller, keccak256(&bytes)), (address(key(1)), *envelope.tx_hash()));
                let decoded = <TxEnvelope as alloy_eips::Decodable2718>::decode_2718_exact(&bytes).expect("decodes");
                assert_eq!(decoded.encoded_2718(), bytes, "seed {seed}");
            }
            Err(RecoverError::Trailing { len }) => assert!(len > 0),
            _ => {}
        }
    }
    assert!(taken > 100, "{taken} damaged transactions were accepted");
}
