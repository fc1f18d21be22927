//! Every reason to refuse bytes, by name.

use super::signed::{
    ORDER, address, authorization, dynamic, encoded, key, legacy, mirrored, recovery, samples, set_code,
};
use alloy_consensus::{Signed, TxEnvelope, TxType};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Bytes, Signature, U256};
use phalanx::{
    Form, RecoverError, Recovery,
    chain::{ChainSpec, TxRuleError},
    recover,
    revm::primitives::hardfork::SpecId,
};

fn refused(recovery: &Recovery, bytes: &[u8]) -> RecoverError {
    let both = [Form::Block, Form::Pooled].map(|form| recovery.recover(form, bytes).expect_err("refused"));
    assert_eq!(both[0].to_string(), both[1].to_string());
    let [error, _] = both;
    error
}

/// The legacy transaction with another signature.
fn resigned(envelope: &TxEnvelope, change: impl Fn(&Signature) -> Signature) -> Bytes {
    match envelope {
        TxEnvelope::Legacy(signed) => {
            let signature = change(signed.signature());
            encoded(&Signed::new_unhashed(signed.tx().clone(), signature).into())
        }
        TxEnvelope::Eip1559(signed) => {
            let signature = change(signed.signature());
            encoded(&Signed::new_unhashed(signed.tx().clone(), signature).into())
        }
        _ => unreachable!("of the two types used here"),
    }
}

#[test]
fn bytes_that_are_no_transaction_are_refused() {
    let osaka = recovery(SpecId::OSAKA);
    let whole = encoded(&dynamic(0, Bytes::new()));
    for bytes in [&[][..], &[0], &[0x80], &[0xc0], &[2], &[2, 0xc0], &[5, 0xc0], &[0x7f; 200], &[0xff; 9]] {
        assert!(matches!(refused(&osaka, bytes), RecoverError::Decode(_)), "{bytes:?}");
        assert!(matches!(recover(bytes), Err(RecoverError::Decode(_))), "{bytes:?}");
    }
    for len in 1..whole.len() {
        assert!(matches!(refused(&osaka, &whole[..len]), RecoverError::Decode(_)), "cut to {len}");
    }
    for envelope in samples() {
        let long = [&envelope.encoded_2718()[..], &[1, 2, 3]].concat();
        assert!(matches!(refused(&osaka, &long), RecoverError::Trailing { len: 3 }));
    }
}

/// The rules allow fees of any width; revm and alloy hold 128 bits.
#[test]
fn a_fee_that_is_too_wide_is_named() {
    let osaka = recovery(SpecId::OSAKA);
    let wide = U256::from(1) << 130;
    let fits = U256::from(u128::MAX);
    let tx = |tx_type: u8, count: usize, place: usize, number: U256| {
        let mut fields = vec![U256::from(1); count];
        fields[place] = number;
        let mut bytes = if tx_type == 0 { vec![] } else { vec![tx_type] };
        alloy_rlp::encode_list(&fields, &mut bytes);
        bytes
    };
    for (tx_type, count, place, field) in [
        (0, 9, 1, "the gas price"),
        (1, 11, 2, "the gas price"),
        (2, 12, 2, "the maximum priority fee per gas"),
        (2, 12, 3, "the maximum fee per gas"),
        (3, 14, 3, "the maximum fee per gas"),
        (4, 13, 3, "the maximum fee per gas"),
    ] {
        let error = refused(&osaka, &tx(tx_type, count, place, wide));
        assert!(matches!(error, RecoverError::TooWide(_)), "{tx_type} {place}: {error}");
        assert_eq!(error.to_string(), format!("{field} does not fit 128 bits, the limit of this engine"));
        let other = refused(&osaka, &tx(tx_type, count, place, fits));
        assert!(!matches!(other, RecoverError::TooWide(_)), "{tx_type} {place}: {other}");
    }
}

#[test]
fn a_transaction_has_one_encoding() {
    let short = encoded(&legacy(None));
    assert_eq!((short[0], short[2]), (0xf8, 3), "a list with one byte of length, then the nonce");
    // The nonce as a string of one byte with a length before it; the list's length in two bytes; v as a short integer.
    let nonce = [&[0xf8, short[1] + 1, 0x81, 3], &short[3..]].concat();
    let list = [&[0xf9, 0, short[1]], &short[2..]].concat();
    let mut v = short.to_vec();
    let at = v.len() - 67;
    assert!(matches!(v[at], 27 | 28), "v, then two words with a length before each");
    v[at] = if v[at] == 27 { 0x80 } else { 1 };
    for bytes in [nonce, list, v] {
        let error = refused(&recovery(SpecId::OSAKA), &bytes);
        assert!(matches!(error, RecoverError::Decode(_) | RecoverError::NotCanonical { .. }), "{error}");
    }
    assert!(recovery(SpecId::OSAKA).recover(Form::Block, &short).is_ok());
}

#[test]
fn signatures_are_checked_by_fork() {
    let envelope = legacy(None);
    let mirror = resigned(&envelope, mirrored);
    let old = recovery(SpecId::FRONTIER).recover(Form::Block, &mirror).expect("valid before Homestead");
    assert_eq!(old.sender(), address(key(1)), "the same key");
    for spec in [SpecId::HOMESTEAD, SpecId::OSAKA] {
        assert!(matches!(refused(&recovery(spec), &mirror), RecoverError::Rule(TxRuleError::HighS)), "{spec:?}");
    }
    assert!(matches!(recover(&mirror), Err(RecoverError::Signature)));
    let (zero, one) = (U256::ZERO, U256::ONE);
    for (r, s) in [(zero, one), (one, zero), (zero, zero), (ORDER, one), (U256::MAX, one)] {
        let bytes = resigned(&envelope, |_| Signature::new(r, s, false));
        assert!(matches!(refused(&recovery(SpecId::OSAKA), &bytes), RecoverError::Signature), "{r} {s}");
        assert!(matches!(refused(&recovery(SpecId::FRONTIER), &bytes), RecoverError::Signature), "{r} {s}");
    }
}

#[test]
fn chain_ids_and_types_are_checked_by_fork() {
    let of = |chain_id| Recovery::new(ChainSpec::mainnet().with_chain_id(chain_id), SpecId::OSAKA);
    for envelope in [legacy(Some(1)), dynamic(0, Bytes::new()), set_code(vec![authorization(key(2), 0)])] {
        let error = refused(&of(5), &encoded(&envelope));
        assert!(matches!(error, RecoverError::Rule(TxRuleError::ChainId { expected: Some(5), got: 1 })), "{error}");
    }
    assert!(of(5).recover(Form::Block, &encoded(&legacy(None))).is_ok(), "an unprotected one is valid on all chains");
    let early = refused(&recovery(SpecId::BERLIN), &encoded(&dynamic(0, Bytes::new())));
    let expected = TxRuleError::Type { tx_type: TxType::Eip1559, spec: SpecId::BERLIN };
    assert!(matches!(early, RecoverError::Rule(rule) if rule == expected));
    let empty = refused(&recovery(SpecId::PRAGUE), &encoded(&set_code(vec![])));
    assert!(matches!(empty, RecoverError::Rule(TxRuleError::NoAuthorizations)));
}

#[test]
fn the_intrinsic_gas_is_known_for_every_fork() {
    let tx = recovery(SpecId::OSAKA).recover(Form::Block, &encoded(&dynamic(0, vec![1; 100].into()))).expect("valid");
    // 21000 and 16 for each byte, or 10 for each of 4 tokens of a byte (EIP-7623), or 68 before Istanbul.
    assert_eq!(tx.least_gas(SpecId::CANCUN), 21_000 + 1_600);
    assert_eq!(tx.least_gas(SpecId::OSAKA), 21_000 + 4_000);
    assert_eq!(tx.least_gas(SpecId::BYZANTIUM), 21_000 + 6_800);
}
