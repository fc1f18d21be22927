//! Rules of Ethereum mainnet.

use super::schedule::{ByBlock, ByTime, Merge, Schedule, Upgrade};
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::uint;

/// First block of the DAO fork (EIP-779).
pub(super) const DAO_BLOCK: u64 = 1_920_000;

const BLOCKS: [ByBlock; 11] = [
    (Upgrade::Homestead, 1_150_000),
    (Upgrade::Tangerine, 2_463_000),
    (Upgrade::SpuriousDragon, 2_675_000),
    (Upgrade::Byzantium, 4_370_000),
    (Upgrade::Petersburg, 7_280_000),
    (Upgrade::Istanbul, 9_069_000),
    (Upgrade::MuirGlacier, 9_200_000),
    (Upgrade::Berlin, 12_244_000),
    (Upgrade::London, 12_965_000),
    (Upgrade::ArrowGlacier, 13_773_000),
    (Upgrade::GrayGlacier, 15_050_000),
];

/// The terminal total difficulty was reached by block 15_537_393.
const MERGE: Merge =
    Merge::At { total_difficulty: uint!(58_750_000_000_000_000_000_000_U256), block: Some(15_537_394) };

const TIMES: [ByTime; 6] = [
    (Upgrade::Shanghai, 1_681_338_455, None),
    (Upgrade::Cancun, 1_710_338_135, Some(BlobParams::cancun())),
    (Upgrade::Prague, 1_746_612_311, Some(BlobParams::prague())),
    (Upgrade::Osaka, 1_764_798_551, Some(BlobParams::osaka())),
    (Upgrade::Bpo1, 1_765_290_071, Some(BlobParams::bpo1())),
    (Upgrade::Bpo2, 1_767_747_671, Some(BlobParams::bpo2())),
];

pub(super) fn schedule() -> Schedule {
    Schedule::new(&BLOCKS, MERGE, &TIMES).expect("mainnet's upgrades are listed in their order")
}
