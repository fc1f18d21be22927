//! Rules of bodies, and rules of transactions that hold in a hard fork for every state.

use super::headers::named;
use alloy_consensus::{
    Header, Signed, TxEip1559, TxEip2930, TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TxEip7702, TxEnvelope,
    TxLegacy, TxType, proofs,
};
use alloy_eips::{
    eip4844::BlobTransactionSidecar, eip4895::Withdrawal, eip7594::BlobTransactionSidecarVariant,
    eip7702::Authorization,
};
use alloy_primitives::{B256, Signature, U256};
use phalanx::{
    chain::{BodyError, MAX_BLOCK_RLP, TxRuleError},
    revm::primitives::hardfork::SpecId,
};

fn low_s() -> Signature {
    Signature::new(U256::from(5), U256::from(7), false)
}

fn legacy(chain_id: Option<u64>) -> TxEnvelope {
    Signed::new_unhashed(TxLegacy { chain_id, gas_limit: 21_000, ..Default::default() }, low_s()).into()
}

fn blobs(hashes: Vec<B256>) -> TxEip4844 {
    TxEip4844 { chain_id: 1, blob_versioned_hashes: hashes, ..Default::default() }
}

fn blob_tx(hashes: Vec<B256>) -> TxEnvelope {
    TxEnvelope::Eip4844(Signed::new_unhashed(TxEip4844Variant::TxEip4844(blobs(hashes)), low_s()))
}

fn set_code(authorizations: usize) -> TxEnvelope {
    let authorization = Authorization { chain_id: U256::ONE, address: Default::default(), nonce: 0 };
    let signed = authorization.into_signed(low_s());
    let tx = TxEip7702 { chain_id: 1, authorization_list: vec![signed; authorizations], ..Default::default() };
    Signed::new_unhashed(tx, low_s()).into()
}

fn versioned(count: usize) -> Vec<B256> {
    (0..count).map(|index| B256::with_last_byte(index as u8) | B256::right_padding_from(&[1])).collect()
}

#[test]
fn types_come_with_their_forks() {
    let type_1: TxEnvelope = Signed::new_unhashed(TxEip2930 { chain_id: 1, ..Default::default() }, low_s()).into();
    let type_2: TxEnvelope = Signed::new_unhashed(TxEip1559 { chain_id: 1, ..Default::default() }, low_s()).into();
    let types = [
        (legacy(None), TxType::Legacy, SpecId::FRONTIER),
        (type_1, TxType::Eip2930, SpecId::BERLIN),
        (type_2, TxType::Eip1559, SpecId::LONDON),
        (blob_tx(versioned(1)), TxType::Eip4844, SpecId::CANCUN),
        (set_code(1), TxType::Eip7702, SpecId::PRAGUE),
    ];
    let chain = named("Osaka");
    for (tx, tx_type, since) in types {
        for spec in (0..=SpecId::OSAKA as u8).filter_map(SpecId::try_from_u8) {
            let expected = if spec >= since { Ok(()) } else { Err(TxRuleError::Type { tx_type, spec }) };
            assert_eq!(chain.validate_tx(spec, &tx), expected);
        }
    }
}

#[test]
fn signatures_and_chain_ids_are_checked_from_their_forks_on() {
    let chain = named("Osaka");
    let n = alloy_primitives::uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);
    let half = n >> 1;
    let with_s =
        |s| -> TxEnvelope { Signed::new_unhashed(TxLegacy::default(), Signature::new(U256::from(5), s, false)).into() };
    assert_eq!(chain.validate_tx(SpecId::FRONTIER, &with_s(n - U256::ONE)), Ok(()));
    assert_eq!(chain.validate_tx(SpecId::HOMESTEAD, &with_s(n - U256::ONE)), Err(TxRuleError::HighS));
    assert_eq!(chain.validate_tx(SpecId::HOMESTEAD, &with_s(half + U256::ONE)), Err(TxRuleError::HighS));
    assert_eq!(chain.validate_tx(SpecId::HOMESTEAD, &with_s(half)), Ok(()));

    let error = |expected, got| Err(TxRuleError::ChainId { expected, got });
    assert_eq!(chain.validate_tx(SpecId::TANGERINE, &legacy(Some(1))), error(None, 1));
    assert_eq!(chain.validate_tx(SpecId::SPURIOUS_DRAGON, &legacy(Some(1))), Ok(()));
    assert_eq!(chain.validate_tx(SpecId::SPURIOUS_DRAGON, &legacy(Some(2))), error(Some(1), 2));
    assert_eq!(chain.validate_tx(SpecId::OSAKA, &legacy(None)), Ok(()), "unprotected ones stay valid");
    assert_eq!(chain.with_chain_id(2).validate_tx(SpecId::OSAKA, &legacy(Some(1))), error(Some(2), 1));
}

#[test]
fn blob_and_set_code_transactions_are_well_formed() {
    let chain = named("Osaka");
    for spec in [SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA] {
        assert_eq!(chain.validate_tx(spec, &blob_tx(vec![])), Err(TxRuleError::BlobCount { blobs: 0 }));
        assert_eq!(chain.validate_tx(spec, &blob_tx(versioned(6))), Ok(()));
        let mut hashes = versioned(2);
        hashes[1].0[0] = 2;
        assert_eq!(chain.validate_tx(spec, &blob_tx(hashes)), Err(TxRuleError::BlobVersion { index: 1 }));
        let sidecar = BlobTransactionSidecarVariant::Eip4844(BlobTransactionSidecar::default());
        let with = TxEip4844WithSidecar { tx: blobs(versioned(1)), sidecar };
        let with = TxEnvelope::Eip4844(Signed::new_unhashed(with.into(), low_s()));
        assert_eq!(chain.validate_tx(spec, &with), Err(TxRuleError::Sidecar));
    }
    assert_eq!(chain.validate_tx(SpecId::PRAGUE, &blob_tx(versioned(9))), Ok(()), "the block's limit decides");
    assert_eq!(chain.validate_tx(SpecId::OSAKA, &blob_tx(versioned(7))), Err(TxRuleError::BlobCount { blobs: 7 }));
    assert_eq!(chain.validate_tx(SpecId::PRAGUE, &set_code(0)), Err(TxRuleError::NoAuthorizations));
}

#[test]
fn osaka_caps_the_gas_of_a_transaction() {
    let chain = named("Osaka");
    let with = |gas_limit| -> TxEnvelope {
        Signed::new_unhashed(TxLegacy { gas_limit, ..Default::default() }, low_s()).into()
    };
    assert_eq!(chain.validate_tx(SpecId::OSAKA, &with(1 << 24)), Ok(()));
    let gas_limit = (1 << 24) + 1;
    assert_eq!(
        chain.validate_tx(SpecId::OSAKA, &with(gas_limit)),
        Err(TxRuleError::GasLimit { gas_limit, max: 1 << 24 })
    );
    assert_eq!(chain.validate_tx(SpecId::PRAGUE, &with(gas_limit)), Ok(()));
}

#[test]
fn a_body_matches_its_header() {
    let chain = named("Osaka");
    let txs = [blob_tx(versioned(6)), blob_tx(versioned(3)), legacy(None)];
    let withdrawals = [Withdrawal { amount: 7, ..Default::default() }];
    let header = Header {
        transactions_root: proofs::calculate_transaction_root(&txs),
        withdrawals_root: Some(proofs::calculate_withdrawals_root(&withdrawals)),
        blob_gas_used: Some(9 << 17),
        ..Default::default()
    };
    let check = |header: &Header, txs: &[TxEnvelope], withdrawals: Option<&[Withdrawal]>, len| {
        chain.validate_body(header, txs, &[], withdrawals, Some(len))
    };
    let withdrawn = Some(withdrawals.as_slice());
    assert_eq!(check(&header, &txs, withdrawn, MAX_BLOCK_RLP), Ok(()));
    let long = MAX_BLOCK_RLP + 1;
    assert_eq!(check(&header, &txs, withdrawn, long), Err(BodyError::Size { len: long }));
    assert!(matches!(check(&header, &txs[..2], withdrawn, 0), Err(BodyError::TransactionsRoot { .. })));
    assert!(matches!(check(&header, &txs, None, 0), Err(BodyError::WithdrawalsRoot { expected: None, .. })));
    assert!(matches!(check(&header, &txs, Some(&[]), 0), Err(BodyError::WithdrawalsRoot { .. })));
    let without = Header { withdrawals_root: None, ..header.clone() };
    assert!(matches!(check(&without, &txs, withdrawn, 0), Err(BodyError::WithdrawalsRoot { got: None, .. })));
    let ommers = chain.validate_body(&header, &txs, &[Header::default()], withdrawn, None);
    assert!(matches!(ommers, Err(BodyError::OmmersHash { .. })));

    let less = Header { blob_gas_used: Some(8 << 17), ..header.clone() };
    let expected = Err(BodyError::BlobGasUsed { expected: 9 << 17, got: Some(8 << 17) });
    assert_eq!(check(&less, &txs, withdrawn, 0), expected);
    let many = [blob_tx(versioned(6)), blob_tx(versioned(4))];
    let root = proofs::calculate_transaction_root(&many);
    let header = Header { transactions_root: root, blob_gas_used: Some(10 << 17), ..header };
    assert_eq!(check(&header, &many, withdrawn, 0), Err(BodyError::TooManyBlobs { blobs: 10, max: 9 }));
    // Before Osaka blocks have any length, before Cancun no blobs.
    let old = Header { blob_gas_used: None, ..header };
    let verdict = named("Shanghai").validate_body(&old, &many, &[], withdrawn, Some(long));
    assert_eq!(verdict, Err(BodyError::TooManyBlobs { blobs: 10, max: 0 }));
}
