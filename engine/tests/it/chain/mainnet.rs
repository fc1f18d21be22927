//! The schedule of mainnet.

use alloy_consensus::Header;
use alloy_eips::eip7840::BlobParams;
use alloy_genesis::Genesis;
use alloy_hardforks::ethereum::mainnet as alloys;
use alloy_primitives::{Bytes, U256};
use alloy_rlp::Decodable as _;
use phalanx::{
    chain::{ChainSpec, HeaderError, Merge},
    revm::primitives::hardfork::SpecId,
};

/// Blocks of mainnet whose spec is known from other sources.
const BLOCKS: [(u64, u64, SpecId); 41] = [
    (116_525, 1_440_088_773, SpecId::FRONTIER),
    (1_149_999, 1_457_981_342, SpecId::FRONTIER),
    (1_796_867, 1_467_259_961, SpecId::HOMESTEAD),
    (2_462_997, 1_476_796_730, SpecId::HOMESTEAD),
    (2_463_002, 1_476_796_817, SpecId::TANGERINE),
    (2_674_998, 1_479_831_336, SpecId::TANGERINE),
    (2_688_148, 1_480_025_372, SpecId::SPURIOUS_DRAGON),
    (2_691_178, 1_480_068_497, SpecId::SPURIOUS_DRAGON),
    (3_688_112, 1_494_498_038, SpecId::SPURIOUS_DRAGON),
    (3_932_759, 1_498_479_989, SpecId::SPURIOUS_DRAGON),
    (4_330_482, 1_506_949_359, SpecId::SPURIOUS_DRAGON),
    (4_369_999, 1_508_131_303, SpecId::SPURIOUS_DRAGON),
    (4_370_000, 1_508_131_331, SpecId::BYZANTIUM),
    (5_363_522, 1_522_622_983, SpecId::BYZANTIUM),
    (5_526_571, 1_525_007_887, SpecId::BYZANTIUM),
    (7_279_999, 1_551_383_501, SpecId::BYZANTIUM),
    (8_038_679, 1_561_620_853, SpecId::PETERSBURG),
    (8_889_776, 1_573_126_245, SpecId::PETERSBURG),
    (9_117_466, 1_576_532_026, SpecId::ISTANBUL),
    (10_760_440, 1_598_766_666, SpecId::ISTANBUL),
    (11_743_952, 1_611_832_255, SpecId::ISTANBUL),
    (11_814_555, 1_612_770_973, SpecId::ISTANBUL),
    (12_047_794, 1_615_872_599, SpecId::ISTANBUL),
    (12_459_406, 1_621_354_413, SpecId::BERLIN),
    (12_520_364, 1_622_172_095, SpecId::BERLIN),
    (13_217_637, 1_631_539_954, SpecId::LONDON),
    (13_287_210, 1_632_469_324, SpecId::LONDON),
    (14_029_313, 1_642_506_643, SpecId::LONDON),
    (15_537_393, 1_663_224_162, SpecId::LONDON),
    (15_752_489, 1_665_824_531, SpecId::MERGE),
    (16_146_267, 1_670_578_235, SpecId::MERGE),
    (16_257_471, 1_671_919_583, SpecId::MERGE),
    (17_666_333, 1_689_029_411, SpecId::SHANGHAI),
    (18_085_863, 1_694_105_579, SpecId::SHANGHAI),
    (18_426_253, 1_698_224_783, SpecId::SHANGHAI),
    (19_917_570, 1_716_285_899, SpecId::CANCUN),
    (19_929_064, 1_716_424_835, SpecId::CANCUN),
    (19_933_122, 1_716_473_807, SpecId::CANCUN),
    (19_933_597, 1_716_479_567, SpecId::CANCUN),
    (19_934_116, 1_716_485_843, SpecId::CANCUN),
    (22_546_209, 1_748_011_091, SpecId::PRAGUE),
];

fn at(number: u64, timestamp: u64) -> Header {
    Header { number, timestamp, ..Default::default() }
}

#[test]
fn mainnet_blocks_have_their_spec() {
    let chain = ChainSpec::mainnet();
    for (number, timestamp, spec) in BLOCKS {
        assert_eq!(chain.spec(&at(number, timestamp)), spec, "block {number}");
    }
}

#[test]
fn activations_equal_alloys() {
    let chain = ChainSpec::mainnet();
    let blocks = [
        (alloys::MAINNET_HOMESTEAD_BLOCK, SpecId::FRONTIER, SpecId::HOMESTEAD),
        (alloys::MAINNET_TANGERINE_BLOCK, SpecId::HOMESTEAD, SpecId::TANGERINE),
        (alloys::MAINNET_SPURIOUS_DRAGON_BLOCK, SpecId::TANGERINE, SpecId::SPURIOUS_DRAGON),
        (alloys::MAINNET_BYZANTIUM_BLOCK, SpecId::SPURIOUS_DRAGON, SpecId::BYZANTIUM),
        (alloys::MAINNET_PETERSBURG_BLOCK, SpecId::BYZANTIUM, SpecId::PETERSBURG),
        (alloys::MAINNET_ISTANBUL_BLOCK, SpecId::PETERSBURG, SpecId::ISTANBUL),
        (alloys::MAINNET_BERLIN_BLOCK, SpecId::ISTANBUL, SpecId::BERLIN),
        (alloys::MAINNET_LONDON_BLOCK, SpecId::BERLIN, SpecId::LONDON),
        (alloys::MAINNET_PARIS_BLOCK, SpecId::LONDON, SpecId::MERGE),
    ];
    for (number, before, from) in blocks {
        assert_eq!(chain.spec(&at(number - 1, 0)), before, "block {number}");
        assert_eq!(chain.spec(&at(number, 0)), from, "block {number}");
    }
    let times = [
        (alloys::MAINNET_SHANGHAI_BLOCK, alloys::MAINNET_SHANGHAI_TIMESTAMP, SpecId::MERGE, SpecId::SHANGHAI),
        (alloys::MAINNET_CANCUN_BLOCK, alloys::MAINNET_CANCUN_TIMESTAMP, SpecId::SHANGHAI, SpecId::CANCUN),
        (alloys::MAINNET_PRAGUE_BLOCK, alloys::MAINNET_PRAGUE_TIMESTAMP, SpecId::CANCUN, SpecId::PRAGUE),
        (alloys::MAINNET_OSAKA_BLOCK, alloys::MAINNET_OSAKA_TIMESTAMP, SpecId::PRAGUE, SpecId::OSAKA),
    ];
    for (number, time, before, from) in times {
        assert_eq!(chain.spec(&at(number, time - 1)), before, "time {time}");
        assert_eq!(chain.spec(&at(number, time)), from, "time {time}");
    }
    let dao = chain.dao().expect("a DAO fork");
    assert_eq!((dao.block, dao.support), (alloys::MAINNET_DAO_BLOCK, true));
    let Merge::At { total_difficulty, block } = chain.merge() else { panic!("mainnet has merged") };
    assert_eq!((total_difficulty, block), (alloys::MAINNET_PARIS_TTD, Some(alloys::MAINNET_PARIS_BLOCK)));
}

#[test]
fn blob_parameters_follow_their_schedule() {
    let chain = ChainSpec::mainnet();
    let schedule = [
        (alloys::MAINNET_CANCUN_TIMESTAMP, None, BlobParams::cancun()),
        (alloys::MAINNET_PRAGUE_TIMESTAMP, Some(BlobParams::cancun()), BlobParams::prague()),
        (alloys::MAINNET_OSAKA_TIMESTAMP, Some(BlobParams::prague()), BlobParams::osaka()),
        (alloys::MAINNET_BPO1_TIMESTAMP, Some(BlobParams::osaka()), BlobParams::bpo1()),
        (alloys::MAINNET_BPO2_TIMESTAMP, Some(BlobParams::bpo1()), BlobParams::bpo2()),
    ];
    for (time, before, from) in schedule {
        assert_eq!(chain.blob_params(time - 1), before);
        assert_eq!(chain.blob_params(time), Some(from));
        assert_eq!(chain.cfg(SpecId::OSAKA, time).max_blobs_per_tx, Some(from.max_blobs_per_tx));
    }
    assert_eq!(chain.cfg(SpecId::SHANGHAI, 0).max_blobs_per_tx, None);
}

#[test]
fn the_first_byzantium_header_follows_its_parent() {
    let file = include_str!("../../fixtures/mainnet-4369999-4370000.rlp.txt");
    let headers: Vec<Header> = file
        .lines()
        .map(|line| Header::decode(&mut line.parse::<Bytes>().expect("hexadecimal").as_ref()).expect("a header"))
        .collect();
    let [parent, header] = headers.as_slice() else { panic!("two headers") };
    let chain = ChainSpec::mainnet();
    assert_eq!(chain.validate_header(header, parent, None), Ok(()));

    // Without the hard fork the bomb would not have been delayed.
    let without = ChainSpec::named("EIP158").expect("a fork");
    let Err(HeaderError::Difficulty { expected: Some(expected), got }) = without.validate_header(header, parent, None)
    else {
        panic!("the difficulty differs")
    };
    assert!(expected > got + (U256::from(1) << 40), "the bomb of period 43");
}

#[test]
fn geths_genesis_file_describes_mainnet() {
    let genesis: Genesis = serde_json::from_value(serde_json::json!({
        "config": {
            "chainId": 1, "homesteadBlock": 1_150_000, "daoForkBlock": 1_920_000, "daoForkSupport": true,
            "eip150Block": 2_463_000, "eip155Block": 2_675_000, "eip158Block": 2_675_000, "byzantiumBlock": 4_370_000,
            "constantinopleBlock": 7_280_000, "petersburgBlock": 7_280_000, "istanbulBlock": 9_069_000,
            "muirGlacierBlock": 9_200_000, "berlinBlock": 12_244_000, "londonBlock": 12_965_000,
            "arrowGlacierBlock": 13_773_000, "grayGlacierBlock": 15_050_000,
            "terminalTotalDifficulty": "0xc70d808a128d7380000", "terminalTotalDifficultyPassed": true,
            "shanghaiTime": 1_681_338_455, "cancunTime": 1_710_338_135, "pragueTime": 1_746_612_311,
            "osakaTime": 1_764_798_551, "bpo1Time": 1_765_290_071, "bpo2Time": 1_767_747_671, "ethash": {},
            "depositContractAddress": "0x00000000219ab540356cbb839cbe05303d7705fa",
            "blobSchedule": {
                "cancun": { "target": 3, "max": 6, "baseFeeUpdateFraction": 3_338_477 },
                "prague": { "target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716 },
                "osaka": { "target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716 },
                "bpo1": { "target": 10, "max": 15, "baseFeeUpdateFraction": 8_346_193 },
                "bpo2": { "target": 14, "max": 21, "baseFeeUpdateFraction": 11_684_671 },
            },
        },
        "difficulty": "0x400000000", "gasLimit": "0x1388", "alloc": {},
    }))
    .expect("a genesis file");
    let chain = ChainSpec::from_genesis(&genesis).expect("mainnet");
    // The file does not state the block of the merge: a header's difficulty decides.
    assert_eq!(chain.merge(), Merge::At { total_difficulty: alloys::MAINNET_PARIS_TTD, block: None });
    let mainnet = ChainSpec::mainnet();
    assert_eq!((chain.chain_id(), chain.dao()), (1, mainnet.dao()));
    assert_eq!((chain.parameters(), chain.deposit_contract()), (mainnet.parameters(), mainnet.deposit_contract()));
    for (number, timestamp, spec) in BLOCKS {
        let difficulty = U256::from(u8::from(number < alloys::MAINNET_PARIS_BLOCK));
        assert_eq!(chain.spec(&Header { difficulty, ..at(number, timestamp) }), spec, "block {number}");
        assert_eq!(chain.blob_params(timestamp), mainnet.blob_params(timestamp));
    }
    assert_eq!(chain.blob_params(u64::MAX), mainnet.blob_params(u64::MAX));
}
