//! Rules of headers, one by one, in every era.

use alloy_consensus::Header;
use alloy_primitives::{B64, B256, U256};
use phalanx::{
    chain::{ChainSpec, HeaderError, Merge},
    revm::primitives::hardfork::SpecId,
};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};

pub(super) fn named(name: &str) -> ChainSpec {
    ChainSpec::named(name).expect("a fork")
}

/// A header with the optional fields of a spec.
fn shaped(spec: SpecId, header: Header) -> Header {
    let from = |fork, value: u64| spec.is_enabled_in(fork).then_some(value);
    Header {
        base_fee_per_gas: from(SpecId::LONDON, 1_000_000_000),
        withdrawals_root: from(SpecId::SHANGHAI, 0).map(|_| B256::ZERO),
        blob_gas_used: from(SpecId::CANCUN, 0),
        excess_blob_gas: from(SpecId::CANCUN, 0),
        parent_beacon_block_root: from(SpecId::CANCUN, 0).map(|_| B256::ZERO),
        requests_hash: from(SpecId::PRAGUE, 0).map(|_| B256::ZERO),
        block_access_list_hash: from(SpecId::AMSTERDAM, 0).map(|_| B256::ZERO),
        slot_number: from(SpecId::AMSTERDAM, 0),
        ..header
    }
}

/// A genesis, thirteen seconds old and half full, so that base fee and difficulty stay.
pub(super) fn genesis(chain: &ChainSpec) -> Header {
    let work = if chain.merge() == Merge::Genesis { 0 } else { 1 << 20 };
    let header = Header {
        timestamp: 1000,
        gas_limit: 10_000_000,
        gas_used: 5_000_000,
        difficulty: U256::from(work),
        ..Default::default()
    };
    shaped(chain.spec(&header), header)
}

/// A valid child. Fields that follow from the parent are taken from the errors of the rules.
pub(super) fn child(chain: &ChainSpec, parent: &Header, seconds: u64) -> Header {
    let mut header = Header {
        number: parent.number + 1,
        parent_hash: parent.hash_slow(),
        timestamp: parent.timestamp + seconds,
        gas_limit: parent.gas_limit,
        gas_used: parent.gas_used,
        difficulty: parent.difficulty,
        ..Default::default()
    };
    header = shaped(chain.spec(&header), header);
    for _ in 0..4 {
        match chain.validate_header(&header, parent, None) {
            Ok(()) => return header,
            Err(HeaderError::Difficulty { expected: Some(expected), .. }) => header.difficulty = expected,
            Err(HeaderError::BaseFee { expected, .. }) => header.base_fee_per_gas = Some(expected),
            Err(HeaderError::ExcessBlobGas { expected, .. }) => header.excess_blob_gas = expected,
            Err(HeaderError::GasLimit { parent, .. }) => header.gas_limit = u64::try_from(parent).expect("a limit"),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no valid child of {parent:?}")
}

/// Sets an optional field of a header, or removes it.
type Set = fn(&mut Header, bool);

const ERAS: [&str; 15] = [
    "Frontier",
    "Homestead",
    "EIP150",
    "EIP158",
    "Byzantium",
    "ConstantinopleFix",
    "Istanbul",
    "Berlin",
    "London",
    "Paris",
    "Shanghai",
    "Cancun",
    "Prague",
    "Osaka",
    "Amsterdam",
];

#[test]
fn each_rule_refuses_its_violation() {
    for name in ERAS {
        let chain = named(name);
        let parent = genesis(&chain);
        let good = child(&chain, &parent, 12);
        let check = |change: &dyn Fn(&mut Header)| {
            let mut header = good.clone();
            change(&mut header);
            chain.validate_header(&header, &parent, None)
        };
        use HeaderError as E;
        assert!(matches!(check(&|h| h.number = 2), Err(E::Number { parent: 0, got: 2 })), "{name}");
        assert!(matches!(check(&|h| h.number = 0), Err(E::Number { .. })), "{name}");
        assert!(matches!(check(&|h| h.parent_hash = B256::ZERO), Err(E::ParentHash { .. })), "{name}");
        assert!(matches!(check(&|h| h.timestamp = 1000), Err(E::Timestamp { .. })), "{name}");
        assert!(matches!(check(&|h| h.extra_data = vec![0; 33].into()), Err(E::ExtraData { len: 33 })), "{name}");
        assert_eq!(check(&|h| h.extra_data = vec![0; 32].into()), Ok(()), "{name}");
        assert_eq!(check(&|h| h.extra_data = b"dao-hard-fork".into()), Ok(()), "{name}");
        assert!(matches!(check(&|h| h.difficulty += U256::ONE), Err(E::Difficulty { .. })), "{name}");
        // 10_000_000 / 1024 = 9765
        assert_eq!(check(&|h| h.gas_limit += 9764), Ok(()), "{name}");
        assert!(matches!(check(&|h| h.gas_limit += 9765), Err(E::GasLimit { .. })), "{name}");
        assert_eq!(check(&|h| h.gas_limit -= 9764), Ok(()), "{name}");
        assert!(matches!(check(&|h| h.gas_limit -= 9765), Err(E::GasLimit { .. })), "{name}");
        assert_eq!(check(&|h| h.gas_used = h.gas_limit), Ok(()), "{name}");
        assert!(matches!(check(&|h| h.gas_used = h.gas_limit + 1), Err(E::GasUsed { .. })), "{name}");

        let spec = chain.spec(&good);
        let merged = spec.is_enabled_in(SpecId::MERGE);
        let nonce = check(&|h| h.nonce = B64::with_last_byte(1));
        assert_eq!(nonce, if merged { Err(E::Nonce) } else { Ok(()) }, "{name}");
        let ommers = check(&|h| h.ommers_hash = B256::ZERO);
        assert_eq!(ommers, if merged { Err(E::Ommers) } else { Ok(()) }, "{name}");

        let fields: [(SpecId, Set); 8] = [
            (SpecId::LONDON, |h, there| h.base_fee_per_gas = there.then_some(1)),
            (SpecId::SHANGHAI, |h, there| h.withdrawals_root = there.then_some(B256::ZERO)),
            (SpecId::CANCUN, |h, there| h.blob_gas_used = there.then_some(0)),
            (SpecId::CANCUN, |h, there| h.excess_blob_gas = there.then_some(0)),
            (SpecId::CANCUN, |h, there| h.parent_beacon_block_root = there.then_some(B256::ZERO)),
            (SpecId::PRAGUE, |h, there| h.requests_hash = there.then_some(B256::ZERO)),
            (SpecId::AMSTERDAM, |h, there| h.block_access_list_hash = there.then_some(B256::ZERO)),
            (SpecId::AMSTERDAM, |h, there| h.slot_number = there.then_some(0)),
        ];
        for (from, set) in fields {
            let verdict = check(&|h| set(h, !spec.is_enabled_in(from)));
            let expected = if spec.is_enabled_in(from) {
                matches!(verdict, Err(E::Missing { .. }))
            } else {
                matches!(verdict, Err(E::NotDue { .. }))
            };
            assert!(expected, "{name}: {verdict:?}");
        }
        if spec.is_enabled_in(SpecId::LONDON) {
            let fee = good.base_fee_per_gas.expect("a base fee");
            let wrong = check(&|h| h.base_fee_per_gas = Some(fee + 1));
            assert_eq!(wrong, Err(E::BaseFee { expected: fee, got: fee + 1 }), "{name}");
        }
        if spec.is_enabled_in(SpecId::CANCUN) {
            let max = chain.blob_params(0).expect("blobs").max_blob_gas_per_block();
            assert_eq!(check(&|h| h.blob_gas_used = Some(max)), Ok(()), "{name}");
            let blob = 1 << 17;
            assert!(matches!(check(&|h| h.blob_gas_used = Some(max + blob)), Err(E::BlobGasUsed { .. })), "{name}");
            assert!(matches!(check(&|h| h.blob_gas_used = Some(1)), Err(E::BlobGasUsed { .. })), "{name}");
            assert!(matches!(check(&|h| h.excess_blob_gas = Some(1)), Err(E::ExcessBlobGas { .. })), "{name}");
        }
    }
}

#[test]
fn gas_limits_have_absolute_bounds() {
    let chain = named("Berlin");
    let follow = |parent_limit, limit| {
        let parent = Header { gas_limit: parent_limit, gas_used: 0, ..genesis(&chain) };
        let header = Header { gas_limit: limit, gas_used: 0, ..child(&chain, &parent, 12) };
        chain.validate_header(&header, &parent, None)
    };
    assert_eq!(follow(5003, 5000), Ok(()));
    assert!(matches!(follow(5000, 4999), Err(HeaderError::GasLimit { .. })));
    assert!(
        matches!(follow(5000, 5004), Err(HeaderError::GasLimit { .. })),
        "5000 / 1024 = 4: changes must be smaller"
    );
    let top = i64::MAX as u64;
    assert_eq!(follow(top, top), Ok(()));
    assert!(matches!(follow(top, top + 1), Err(HeaderError::GasLimit { .. })));
}

#[test]
fn london_doubles_the_gas_limit_and_sets_the_base_fee() {
    let chain = named("BerlinToLondonAt5");
    let mut headers = vec![genesis(&chain)];
    for number in 1..8 {
        headers.push(child(&chain, &headers[number - 1], 12));
    }
    let limits: Vec<_> = headers.iter().map(|header| header.gas_limit).collect();
    assert_eq!(limits, [[10_000_000; 5].as_slice(), &[20_000_000; 3]].concat());
    let fees: Vec<_> = headers[4..].iter().map(|header| header.base_fee_per_gas).collect();
    // 5 of 20 million gas is half the target: one sixteenth less each time.
    assert_eq!(fees, [None, Some(1_000_000_000), Some(937_500_000), Some(878_906_250)]);
    let kept = Header { gas_limit: 10_000_000, ..headers[5].clone() };
    assert!(matches!(chain.validate_header(&kept, &headers[4], None), Err(HeaderError::GasLimit { .. })));
}

#[test]
fn excess_blob_gas_follows_the_schedule_of_its_own_time() {
    let blob = 1 << 17;
    let excess = |name: &str, seconds, base_fee| {
        let chain = named(name);
        let full = Header {
            blob_gas_used: Some(6 * blob),
            excess_blob_gas: Some(10 * blob),
            base_fee_per_gas: Some(base_fee),
            ..genesis(&chain)
        };
        child(&chain, &full, seconds).excess_blob_gas
    };
    let gwei = 1_000_000_000;
    assert_eq!(excess("Cancun", 12, gwei), Some(13 * blob), "10 + 6 - target 3");
    assert_eq!(excess("CancunToPragueAtTime15k", 12, gwei), Some(13 * blob));
    assert_eq!(excess("CancunToPragueAtTime15k", 14_000, gwei), Some(10 * blob), "10 + 6 - target 6");
    // EIP-7918: blobs cost less than their reserve price, so the excess does not fall: 10 + 6 × (9 - 6) / 9.
    assert_eq!(excess("PragueToOsakaAtTime15k", 12, gwei), Some(10 * blob));
    assert_eq!(excess("PragueToOsakaAtTime15k", 14_000, gwei), Some(12 * blob));
    assert_eq!(excess("PragueToOsakaAtTime15k", 14_000, 16), Some(10 * blob), "8192 × 16 = 131072");
    assert_eq!(excess("PragueToOsakaAtTime15k", 14_000, 17), Some(12 * blob), "8192 × 17 > 131072");
    assert_eq!(excess("OsakaToBPO1AtTime15k", 14_000, gwei), Some(12 * blob), "10 + 6 × (15 - 10) / 15");
    assert_eq!(excess("OsakaToBPO1AtTime15k", 14_000, 15), Some(6 * blob), "10 + 6 - target 10");
    assert_eq!(excess("ShanghaiToCancunAtTime15k", 14_000, gwei), Some(13 * blob), "the parent's stated value counts");
}

#[test]
fn the_merge_begins_at_its_total_difficulty() {
    let chain = named("ArrowGlacierToParisAtDiffC0000");
    let parent = genesis(&chain);
    let work = child(&chain, &parent, 12);
    let stake = Header { difficulty: U256::ZERO, ..work.clone() };
    let reached = Some(U256::from(0xc0000));
    let short = Some(U256::from(0xbffff));
    assert_eq!(chain.validate_header(&work, &parent, short), Ok(()));
    assert!(matches!(chain.validate_header(&work, &parent, reached), Err(HeaderError::Difficulty { .. })));
    assert_eq!(chain.validate_header(&stake, &parent, reached), Ok(()));
    assert!(matches!(chain.validate_header(&stake, &parent, short), Err(HeaderError::Difficulty { .. })));
    // Without a total difficulty the header is trusted, but no later block returns to proof of work.
    assert_eq!(chain.validate_header(&work, &parent, None), Ok(()));
    assert_eq!(chain.validate_header(&stake, &parent, None), Ok(()));
    let next = child(&chain, &stake, 12);
    assert!(next.difficulty.is_zero());
    let back = Header { difficulty: U256::from(131_072), ..next };
    assert!(matches!(chain.validate_header(&back, &stake, None), Err(HeaderError::Difficulty { .. })));
    // A chain that never merges has no block without difficulty.
    let never = named("London");
    let stake = Header { difficulty: U256::ZERO, ..child(&never, &genesis(&never), 12) };
    assert!(matches!(never.validate_header(&stake, &genesis(&never), None), Err(HeaderError::Difficulty { .. })));
}

#[test]
fn dao_blocks_are_marked_on_chains_that_follow_the_fork() {
    let json = serde_json::json!({ "config": { "chainId": 1, "homesteadBlock": 0, "daoForkBlock": 5 }, "alloc": {} });
    let refuses = ChainSpec::from_genesis(&serde_json::from_value(json).expect("a genesis file")).expect("a chain");
    for (chain, follows) in [(named("HomesteadToDaoAt5"), true), (refuses, false)] {
        for number in [4, 5, 14, 15] {
            let plain = named("Homestead");
            let parent = Header { number: number - 1, ..genesis(&plain) };
            let unmarked = child(&plain, &parent, 12);
            let marked = Header { extra_data: b"dao-hard-fork".into(), ..unmarked.clone() };
            let verdicts = [marked, unmarked].map(|header| chain.validate_header(&header, &parent, None));
            let expected = match ((5..15).contains(&number), follows) {
                (false, _) => [Ok(()), Ok(())],
                (true, true) => [Ok(()), Err(HeaderError::DaoExtraData)],
                (true, false) => [Err(HeaderError::DaoExtraData), Ok(())],
            };
            assert_eq!(verdicts, expected, "block {number}, follows: {follows}");
        }
    }
}

#[test]
fn the_difficulty_follows_the_clock_of_its_era() {
    // Of 2^20: one step is 512.
    let steps = |name: &str, seconds| {
        let chain = named(name);
        let parent = Header { difficulty: U256::from(1 << 30), ..genesis(&chain) };
        let got: i64 = child(&chain, &parent, seconds).difficulty.to();
        (got - (1 << 30)) / (1 << 19)
    };
    assert_eq!([1, 12, 13, 9999].map(|seconds| steps("Frontier", seconds)), [1, 1, -1, -1]);
    assert_eq!([1, 9, 10, 19, 20, 999, 1010, 9999].map(|s| steps("Homestead", s)), [1, 1, 0, 0, -1, -98, -99, -99]);
    assert_eq!([1, 8, 9, 17, 18, 900, 9999].map(|s| steps("Byzantium", s)), [1, 1, 0, 0, -1, -99, -99]);
    let chain = named("Byzantium");
    let parent = Header { ommers_hash: B256::ZERO, difficulty: U256::from(1 << 30), ..genesis(&chain) };
    let header = child(&chain, &parent, 1);
    assert_eq!(header.difficulty, U256::from((1 << 30) + 2 * (1 << 19)), "the parent had ommers");
    let parent = Header { difficulty: U256::from(131_072), ..genesis(&chain) };
    assert_eq!(child(&chain, &parent, 999).difficulty, U256::from(131_072), "the minimum");
}

/// Extreme headers are judged without a panic. `PHALANX_SEED` and `PHALANX_CASES` choose others and more.
#[test]
fn no_header_makes_the_rules_panic() {
    let from_env = |name, default| std::env::var(name).map_or(default, |value| value.parse().expect("a number"));
    let (seed, cases) = (from_env("PHALANX_SEED", 1), from_env("PHALANX_CASES", 3000));
    println!("PHALANX_SEED={seed} PHALANX_CASES={cases}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut passed_the_hash = 0;
    for _ in 0..cases {
        let name = ERAS.choose(&mut rng).expect("an era");
        let chain = named(name);
        let mut number = || {
            *[0, 1, 2, 5000, 1 << 17, 1 << 30, i64::MAX as u64, u64::MAX - 1, u64::MAX].choose(&mut rng).expect("one")
        };
        let mut any = || {
            let option = |value: u64| (value % 3 != 2).then_some(value);
            Header {
                number: number(),
                timestamp: number(),
                gas_limit: number(),
                gas_used: number(),
                difficulty: U256::from(number()) << (number() % 256),
                base_fee_per_gas: option(number()),
                blob_gas_used: option(number()),
                excess_blob_gas: option(number()),
                ..Default::default()
            }
        };
        let (parent, mut header) = (any(), any());
        header = shaped(chain.spec(&header), header);
        header.excess_blob_gas = header.excess_blob_gas.and(parent.excess_blob_gas);
        if rng.random_bool(0.9) {
            header.number = parent.number.wrapping_add(1);
            header.parent_hash = parent.hash_slow();
            header.timestamp = parent.timestamp.saturating_add(rng.random_range(0..30));
        }
        if rng.random_bool(0.5) {
            header.gas_limit = parent.gas_limit;
            header.gas_used = 0;
        }
        if chain.merge() == Merge::Genesis {
            header.difficulty = U256::ZERO;
        }
        let verdict = chain.validate_header(&header, &parent, None);
        passed_the_hash +=
            usize::from(!matches!(verdict, Err(HeaderError::Number { .. } | HeaderError::ParentHash { .. })));
        let spec = chain.spec(&header);
        let _ = (chain.env(&header), chain.cfg(spec, header.timestamp), chain.pre_steps(&header, spec));
        let _ = chain.post_credits(&header, &[parent.clone(), header.clone()], None);
        let _ = chain.validate_ommers(&header, core::slice::from_ref(&header), |_| Some((parent.clone(), vec![])));
    }
    assert!(passed_the_hash > cases as usize / 2, "{passed_the_hash} went deeper");
}
