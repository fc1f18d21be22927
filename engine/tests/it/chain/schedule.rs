//! Chains by the name of a hard fork, and by a genesis file.

use alloy_consensus::Header;
use alloy_eips::eip7840::BlobParams;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, U256};
use phalanx::{
    chain::{ChainSpec, ChainSpecError, DaoFork, HeaderError, Merge, Parameters},
    revm::primitives::hardfork::SpecId,
};
use serde_json::{Value, json};

fn named(name: &str) -> ChainSpec {
    ChainSpec::named(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_forks_name_selects_its_rules_from_genesis_on() {
    let names = [
        ("Frontier", SpecId::FRONTIER),
        ("Homestead", SpecId::HOMESTEAD),
        ("EIP150", SpecId::TANGERINE),
        ("EIP158", SpecId::SPURIOUS_DRAGON),
        ("Byzantium", SpecId::BYZANTIUM),
        ("ConstantinopleFix", SpecId::PETERSBURG),
        ("Istanbul", SpecId::ISTANBUL),
        ("MuirGlacier", SpecId::ISTANBUL),
        ("Berlin", SpecId::BERLIN),
        ("London", SpecId::LONDON),
        ("ArrowGlacier", SpecId::LONDON),
        ("GrayGlacier", SpecId::LONDON),
        ("Paris", SpecId::MERGE),
        ("Merge", SpecId::MERGE),
        ("Shanghai", SpecId::SHANGHAI),
        ("Cancun", SpecId::CANCUN),
        ("Prague", SpecId::PRAGUE),
        ("Osaka", SpecId::OSAKA),
        ("BPO1", SpecId::OSAKA),
        ("BPO4", SpecId::OSAKA),
    ];
    for (name, spec) in names {
        let chain = named(name);
        for header in [Header::default(), Header { number: 1 << 40, timestamp: 1 << 40, ..Default::default() }] {
            assert_eq!(chain.spec(&header), spec, "{name}");
            assert_eq!(chain.cfg(spec, header.timestamp).spec, spec);
            assert_eq!(chain.env(&header).prevrandao.is_some(), spec.is_enabled_in(SpecId::MERGE), "{name}");
        }
        assert_eq!(chain.blob_params(0).is_some(), spec.is_enabled_in(SpecId::CANCUN), "{name}");
        assert_eq!(chain.chain_id(), 1);
    }
    assert_eq!(named("BPO1").blob_params(0), Some(BlobParams::bpo1()));
    assert_eq!(named("BPO3").blob_params(0).map(|params| params.max_blob_count), Some(32));
}

#[test]
fn a_transitions_name_selects_both_sides() {
    let header = |number, timestamp, difficulty: u64| Header {
        number,
        timestamp,
        difficulty: U256::from(difficulty),
        ..Default::default()
    };
    let by_block = [
        ("FrontierToHomesteadAt5", SpecId::FRONTIER, SpecId::HOMESTEAD),
        ("HomesteadToEIP150At5", SpecId::HOMESTEAD, SpecId::TANGERINE),
        ("EIP158ToByzantiumAt5", SpecId::SPURIOUS_DRAGON, SpecId::BYZANTIUM),
        ("ByzantiumToConstantinopleFixAt5", SpecId::BYZANTIUM, SpecId::PETERSBURG),
        ("ConstantinopleFixToIstanbulAt5", SpecId::PETERSBURG, SpecId::ISTANBUL),
        ("IstanbulToBerlinAt5", SpecId::ISTANBUL, SpecId::BERLIN),
        ("BerlinToLondonAt5", SpecId::BERLIN, SpecId::LONDON),
    ];
    for (name, before, from) in by_block {
        let specs = [4, 5].map(|number| named(name).spec(&header(number, 1 << 40, 1)));
        assert_eq!(specs, [before, from], "{name}");
    }
    let by_time = [
        ("ParisToShanghaiAtTime15k", SpecId::MERGE, SpecId::SHANGHAI),
        ("ShanghaiToCancunAtTime15k", SpecId::SHANGHAI, SpecId::CANCUN),
        ("CancunToPragueAtTime15k", SpecId::CANCUN, SpecId::PRAGUE),
        ("PragueToOsakaAtTime15k", SpecId::PRAGUE, SpecId::OSAKA),
    ];
    for (name, before, from) in by_time {
        let specs = [14_999, 15_000].map(|time| named(name).spec(&header(1, time, 0)));
        assert_eq!(specs, [before, from], "{name}");
    }
    let bpo = [14_999, 15_000].map(|time| named("OsakaToBPO1AtTime15k").blob_params(time));
    assert_eq!(bpo, [Some(BlobParams::osaka()), Some(BlobParams::bpo1())]);

    let merge = named("ArrowGlacierToParisAtDiffC0000");
    assert_eq!(merge.merge(), Merge::At { total_difficulty: U256::from(0xc0000), block: None });
    assert_eq!([1, 0].map(|difficulty| merge.spec(&header(1, 1, difficulty))), [SpecId::LONDON, SpecId::MERGE]);

    let dao = named("HomesteadToDaoAt5");
    assert_eq!(dao.dao(), Some(DaoFork { block: 5, support: true }));
    assert_eq!(dao.spec(&header(1 << 40, 0, 1)), SpecId::HOMESTEAD);
}

#[test]
fn other_names_are_refused() {
    for name in ["", "To", "At", "ToAt", "Verkle", "EOFv1", "london", "LondonTo", "BerlinToLondon", "BerlinToLondonAt"]
    {
        assert!(matches!(ChainSpec::named(name), Err(ChainSpecError::UnknownFork { .. })), "{name:?}");
    }
    for name in [
        "LondonToBerlinAt5",
        "LondonToLondonAt5",
        "BerlinToLondonAtTime15k",
        "ParisToShanghaiAt5",
        "ParisToShanghaiAtTime99999999999999999999k",
        "ParisToShanghaiAtTime18446744073709551615k",
        "LondonToParisAtDiffG",
        "LondonToParisAt5",
    ] {
        assert!(matches!(ChainSpec::named(name), Err(ChainSpecError::UnknownFork { .. })), "{name:?}");
    }
    for name in ["Constantinople", "ByzantiumToConstantinopleAt5"] {
        assert!(matches!(ChainSpec::named(name), Err(ChainSpecError::Unsupported { .. })), "{name:?}");
    }
}

/// A private chain that starts with Prague's rules.
fn prague() -> Value {
    json!({
        "chainId": 3_151_908, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0,
        "londonBlock": 0, "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
        "pragueTime": 0, "depositContractAddress": "0x4242424242424242424242424242424242424242",
        "blobSchedule": { "Prague": { "target": 2, "max": 4, "baseFeeUpdateFraction": 1_000_000 } },
    })
}

/// The chain of [`prague`] with some fields replaced, or removed if null.
fn genesis(changes: Value) -> Result<ChainSpec, ChainSpecError> {
    let mut config = prague();
    for (field, value) in changes.as_object().expect("fields") {
        config[field] = value.clone();
    }
    config.as_object_mut().expect("fields").retain(|_, value| !value.is_null());
    let genesis: Genesis = serde_json::from_value(json!({ "config": config, "alloc": {} })).expect("a genesis file");
    ChainSpec::from_genesis(&genesis)
}

#[test]
fn a_genesis_file_is_followed() {
    let chain = genesis(json!({})).expect("a chain");
    assert_eq!((chain.chain_id(), chain.merge(), chain.dao()), (3_151_908, Merge::Genesis, None));
    assert_eq!(chain.deposit_contract(), Address::repeat_byte(0x42));
    assert_eq!(chain.spec(&Header::default()), SpecId::PRAGUE);
    let params = chain.blob_params(0).expect("blobs");
    assert_eq!((params.target_blob_count, params.max_blob_count, params.max_blobs_per_tx), (2, 4, 4));
    assert_eq!(params.update_fraction, 1_000_000);
    assert_eq!(params.blob_base_cost, 0, "EIP-7918 comes with Osaka");

    // From Osaka on the hard fork itself defines what a schedule leaves open.
    let osaka = json!({ "osakaTime": 7, "bpo3Time": 9, "blobSchedule": {
        "osaka": { "target": 9, "max": 18, "baseFeeUpdateFraction": 5 },
        "bpo3": { "target": 20, "max": 30, "baseFeeUpdateFraction": 6 },
    } });
    let chain = genesis(osaka).expect("a chain");
    let of = |time| chain.blob_params(time).map(|p| (p.max_blob_count, p.max_blobs_per_tx, p.blob_base_cost));
    assert_eq!([0, 7, 9].map(of), [Some((9, 9, 0)), Some((18, 6, 8192)), Some((30, 6, 8192))]);

    // Amsterdam keeps the parameters before it, unless it has its own.
    let amsterdam = |more: Value| {
        let mut changes = json!({ "osakaTime": 7, "amsterdamTime": 9 });
        changes.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        genesis(changes).expect("a chain")
    };
    let chain = amsterdam(json!({}));
    assert_eq!([8, 9].map(|time| chain.spec_at(1, time, true)), [SpecId::OSAKA, SpecId::AMSTERDAM]);
    assert_eq!(chain.blob_params(9), chain.blob_params(8));
    let own = json!({ "blobSchedule": { "amsterdam": { "target": 20, "max": 30, "baseFeeUpdateFraction": 6 } } });
    assert_eq!(amsterdam(own).blob_params(9).map(|params| params.max_blob_count), Some(30));

    let refuses_dao = genesis(json!({ "daoForkBlock": 8 })).expect("a chain");
    assert_eq!(refuses_dao.dao(), Some(DaoFork { block: 8, support: false }));
    let passed = genesis(json!({ "terminalTotalDifficulty": null, "terminalTotalDifficultyPassed": true }));
    assert_eq!(passed.expect("a chain").merge(), Merge::Genesis);
}

#[test]
fn a_genesis_file_out_of_order_is_refused() {
    use ChainSpecError::{Blobs, Missing, Order, Unsupported};
    let error = |changes| genesis(changes).expect_err("refused");
    assert!(matches!(error(json!({ "berlinBlock": null })), Missing { fork: "London", before: "Berlin" }));
    assert!(matches!(error(json!({ "homesteadBlock": null })), Missing { fork: "Tangerine Whistle", .. }));
    assert!(matches!(error(json!({ "londonBlock": null })), Missing { fork: "the merge", before: "London" }));
    assert!(matches!(error(json!({ "londonBlock": 5 })), Order { fork: "the merge", before: "London" }));
    assert!(matches!(error(json!({ "istanbulBlock": 7 })), Order { fork: "Berlin", before: "Istanbul" }));
    assert!(matches!(error(json!({ "cancunTime": 7 })), Order { fork: "Prague", before: "Cancun" }));
    assert!(matches!(error(json!({ "shanghaiTime": null })), Missing { fork: "Cancun", before: "Shanghai" }));
    assert!(matches!(error(json!({ "bpo1Time": 3 })), Missing { fork: "BPO1", before: "Osaka" }));
    assert!(matches!(error(json!({ "osakaTime": 3, "bpo1Time": 2 })), Order { fork: "BPO1", before: "Osaka" }));
    assert!(matches!(error(json!({ "osakaTime": 3, "bpo3Time": 3 })), Blobs { fork: "BPO3" }));
    assert!(matches!(error(json!({ "terminalTotalDifficulty": null })), Missing { before: "the merge", .. }));
    assert!(matches!(error(json!({ "eip155Block": 1 })), Unsupported { .. }));
    assert!(matches!(error(json!({ "petersburgBlock": 1 })), Unsupported { .. }));
    assert!(matches!(error(json!({ "amsterdamTime": 1 })), Missing { fork: "Amsterdam", before: "Osaka" }));
    assert!(matches!(error(json!({ "bogotaTime": 1 })), Unsupported { .. }));
    let clique = json!({ "clique": { "period": 5, "epoch": 30_000 } });
    assert!(genesis(clique.clone()).is_ok(), "a chain that starts after the merge has no clique seals");
    let mut sealed = clique;
    sealed["terminalTotalDifficulty"] = json!(1000);
    assert!(matches!(error(sealed), Unsupported { .. }));

    for (target, max, fraction) in [(3, 6, 0), (0, 0, 1), (7, 6, 1), (1, u64::MAX, 1)] {
        let params = json!({ "target": target, "max": max, "baseFeeUpdateFraction": fraction });
        assert!(matches!(error(json!({ "blobSchedule": { "prague": params } })), Blobs { fork: "Prague" }));
    }
}

#[test]
fn parameters_can_be_replaced() {
    let params = BlobParams { target_blob_count: 1, max_blob_count: 2, ..BlobParams::cancun() };
    let chain = named("CancunToPragueAtTime15k").with_blob_params("prague", params).expect("usable");
    assert_eq!(chain.blob_params(0), Some(BlobParams::cancun()));
    assert_eq!(chain.blob_params(15_000).map(|params| params.max_blobs_per_tx), Some(2));
    let unused = named("Cancun").with_blob_params("BPO2", params).expect("not scheduled");
    assert_eq!(unused, named("Cancun"));
    let useless = BlobParams { update_fraction: 0, ..params };
    assert!(matches!(named("Cancun").with_blob_params("Cancun", useless), Err(ChainSpecError::Blobs { .. })));
    assert!(matches!(named("Cancun").with_blob_params("Paris", params), Err(ChainSpecError::UnknownFork { .. })));

    let chain = named("London").with_chain_id(7).with_parameters(Parameters { rewards: vec![], ..Default::default() });
    assert_eq!(chain.cfg(SpecId::LONDON, 0).chain_id, 7);
    assert_eq!(chain.block_reward(SpecId::LONDON), None);
}

#[test]
fn configuration_leaves_derived_values_to_revm() {
    use phalanx::revm::context_interface::Cfg as _;
    let cfg = named("Osaka").cfg(SpecId::OSAKA, 0);
    assert!(cfg.tx_chain_id_check);
    assert_eq!((cfg.tx_gas_limit_cap(), cfg.max_code_size(), cfg.max_initcode_size()), (1 << 24, 24_576, 49_152));
    assert_eq!((cfg.max_blobs_per_tx, cfg.blob_base_fee_update_fraction), (Some(6), Some(5_007_716)));
    let cfg = named("Cancun").cfg(SpecId::CANCUN, 0);
    assert_eq!((cfg.tx_gas_limit_cap(), cfg.max_blobs_per_tx), (u64::MAX, Some(6)));
    assert_eq!(cfg.blob_base_fee_update_fraction, Some(3_338_477));
    // Blobs belong to specs, even where a schedule would have parameters.
    assert_eq!(named("Cancun").cfg(SpecId::SHANGHAI, 0).max_blobs_per_tx, None);
}

#[test]
fn the_environment_equals_the_header() {
    let header = Header {
        number: 3,
        timestamp: 15_000,
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(9),
        excess_blob_gas: Some(10_000_000),
        beneficiary: Address::repeat_byte(7),
        mix_hash: [8; 32].into(),
        ..Default::default()
    };
    let env = named("CancunToPragueAtTime15k").env(&header);
    assert_eq!(
        (env.number, env.timestamp, env.gas_limit, env.basefee),
        (U256::from(3), U256::from(15_000), 30_000_000, 9)
    );
    assert_eq!((env.beneficiary, env.prevrandao), (header.beneficiary, Some(header.mix_hash)));
    let price = |env: phalanx::revm::context::BlockEnv| env.blob_excess_gas_and_price.map(|blobs| blobs.blob_gasprice);
    // e^(10 / 5.007716) = 7.366, and e^(10 / 3.338477) = 19.99.
    assert_eq!(price(env), Some(7));
    let earlier = Header { timestamp: 14_999, ..header.clone() };
    assert_eq!(price(named("CancunToPragueAtTime15k").env(&earlier)), Some(19));
    assert_eq!(price(named("ParisToShanghaiAtTime15k").env(&header)), None);
    let silent = Header { excess_blob_gas: None, ..header.clone() };
    assert_eq!(price(named("Cancun").env(&silent)), None);
    let absurd = Header { excess_blob_gas: Some(u64::MAX), ..header };
    assert_eq!(price(named("Cancun").env(&absurd)), Some(u128::MAX));
    let work = Header { difficulty: U256::from(5), mix_hash: [8; 32].into(), ..Default::default() };
    let env = named("London").env(&work);
    assert_eq!((env.difficulty, env.prevrandao), (U256::from(5), None));
}

/// Numbers that the rules allow and no field holds: the header is refused, and the error names the limit.
#[test]
fn fees_that_no_field_holds_are_refused_by_name() {
    let chain = named("Osaka");
    let parent = Header {
        number: 1,
        timestamp: 12,
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(7),
        withdrawals_root: Some(B256::ZERO),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        requests_hash: Some(B256::ZERO),
        ..Default::default()
    };
    let child = |parent: &Header| Header {
        parent_hash: parent.hash_slow(),
        number: 2,
        timestamp: 24,
        gas_used: 15_000_000,
        ..parent.clone()
    };
    let judge = |header: &Header, parent: &Header| chain.validate_header(header, parent, None).expect_err("refused");
    let full = Header { gas_used: 30_000_000, base_fee_per_gas: Some(u64::MAX), ..parent.clone() };
    let wide = |error: HeaderError, bits| {
        assert!(matches!(error, HeaderError::TooWide(wide) if wide.bits == bits), "{error}");
        assert!(error.to_string().ends_with(&format!("does not fit {bits} bits, the limit of this engine")), "{error}");
    };
    wide(judge(&child(&full), &full), 64);
    // The excess does not change at the target, where the price of blob gas is far above the reserve.
    let params = chain.blob_params(0).expect("blobs");
    let parent = Header {
        gas_used: 15_000_000,
        excess_blob_gas: Some(u64::MAX >> 1),
        blob_gas_used: Some(params.target_blob_gas_per_block()),
        ..parent
    };
    wide(judge(&child(&parent), &parent), 128);
}
