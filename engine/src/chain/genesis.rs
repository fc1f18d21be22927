//! Chains described by geth's `genesis.json`.
//!
//! Four fields of `config` are this engine's: `phalanxDevelopment`, true for a chain for development
//! ([`Parameters::development`](super::Parameters::development)); `phalanxCodeLimit`, the maximum length of a contract's code in
//! bytes instead of EIP-170's, with twice as much for initcode; `phalanxRoot`, the root that blocks report: `twigs` or `ethereum`;
//! and `phalanxFixedBaseFee`, true for a chain whose blocks all have the base fee of its genesis, so that a block's environment
//! follows from the order alone.

use super::fees::FIXED;
use super::schedule::{ByBlock, ByTime, ChainSpecError, Merge, Schedule, Upgrade};
use super::spec::{ChainSpec, DaoFork};
use crate::model::RootKind;
use alloy_eips::eip7840::BlobParams;
use alloy_genesis::ChainConfig;

/// Name of the field that makes a chain one for development.
const DEVELOPMENT: &str = "phalanxDevelopment";

/// Name of the field with the maximum length of a contract's code.
const CODE_LIMIT: &str = "phalanxCodeLimit";

/// Name of the field that fixes the base fee.
const FIXED_BASE_FEE: &str = "phalanxFixedBaseFee";

/// Largest limit of code, in bytes: a transaction cannot pay for more.
const MAX_CODE: usize = 1 << 24;

pub(super) fn chain_spec(config: &ChainConfig) -> Result<ChainSpec, ChainSpecError> {
    let merge = match config.terminal_total_difficulty {
        Some(difficulty) if difficulty.is_zero() => Merge::Genesis,
        Some(total_difficulty) => Merge::At { total_difficulty, block: None },
        None if config.terminal_total_difficulty_passed => Merge::Genesis,
        None => Merge::Never,
    };
    refuse_what_is_missing(config, merge)?;

    let blocks = [
        (Upgrade::Homestead, config.homestead_block),
        (Upgrade::Tangerine, config.eip150_block),
        (Upgrade::SpuriousDragon, config.eip158_block),
        (Upgrade::Byzantium, config.byzantium_block),
        (Upgrade::Petersburg, config.petersburg_block.or(config.constantinople_block)),
        (Upgrade::Istanbul, config.istanbul_block),
        (Upgrade::MuirGlacier, config.muir_glacier_block),
        (Upgrade::Berlin, config.berlin_block),
        (Upgrade::London, config.london_block),
        (Upgrade::ArrowGlacier, config.arrow_glacier_block),
        (Upgrade::GrayGlacier, config.gray_glacier_block),
    ];
    let times = [
        (Upgrade::Shanghai, config.shanghai_time, None),
        (Upgrade::Cancun, config.cancun_time, Some(BlobParams::cancun())),
        (Upgrade::Prague, config.prague_time, Some(BlobParams::prague())),
        (Upgrade::Osaka, config.osaka_time, Some(BlobParams::osaka())),
        (Upgrade::Bpo1, config.bpo1_time, Some(BlobParams::bpo1())),
        (Upgrade::Bpo2, config.bpo2_time, Some(BlobParams::bpo2())),
        (Upgrade::Bpo3, config.bpo3_time, None),
        (Upgrade::Bpo4, config.bpo4_time, None),
        (Upgrade::Bpo5, config.bpo5_time, None),
        (Upgrade::Amsterdam, config.amsterdam_time, None),
    ];
    let blocks: Vec<ByBlock> = blocks.iter().filter_map(|(upgrade, at)| Some((*upgrade, (*at)?))).collect();
    let timed = |(upgrade, at, default): &(Upgrade, Option<u64>, Option<BlobParams>)| {
        let given = config.blob_schedule.iter().find(|(name, _)| upgrade.name().eq_ignore_ascii_case(name));
        let params = given.map(|(_, params)| *params).or(*default);
        Some((*upgrade, (*at)?, params.filter(|_| *upgrade != Upgrade::Shanghai)))
    };
    let times: Vec<ByTime> = times.iter().filter_map(timed).collect();
    // Mainnet has no later upgrades whose parameters could fill a gap. Amsterdam keeps those before it.
    let lacks = |upgrade: &Upgrade| (Upgrade::Bpo3..=Upgrade::Bpo5).contains(upgrade);
    if let Some((upgrade, ..)) = times.iter().find(|(upgrade, _, params)| lacks(upgrade) && params.is_none()) {
        return Err(ChainSpecError::Blobs { fork: upgrade.name() });
    }

    let mut chain = ChainSpec::new(config.chain_id, Schedule::new(&blocks, merge, &times)?);
    chain.dao = config.dao_fork_block.map(|block| DaoFork { block, support: config.dao_fork_support });
    let flag = |name: &str, what| match config.extra_fields.get(name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or(ChainSpecError::Unsupported { what }),
    };
    chain.parameters.development = flag(DEVELOPMENT, "phalanxDevelopment that is no boolean")?;
    if flag(FIXED_BASE_FEE, "phalanxFixedBaseFee that is no boolean")? {
        chain.parameters.base_fee = FIXED;
    }
    if let Some(value) = config.extra_fields.get(CODE_LIMIT) {
        let limit = value.as_u64().and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit <= MAX_CODE);
        let limit =
            limit.ok_or(ChainSpecError::Unsupported { what: "phalanxCodeLimit that is no number up to 2^24" })?;
        chain.base.limit_contract_code_size = Some(limit);
        chain.base.limit_contract_initcode_size = Some(2 * limit);
    }
    if let Some(value) = config.extra_fields.get(RootKind::FIELD) {
        let root = value.as_str().and_then(RootKind::named);
        chain.root = root.ok_or(ChainSpecError::Unsupported { what: "a phalanxRoot other than twigs and ethereum" })?;
    }
    chain.deposit_contract = config.deposit_contract_address.unwrap_or(chain.deposit_contract);
    Ok(chain)
}

fn refuse_what_is_missing(config: &ChainConfig, merge: Merge) -> Result<(), ChainSpecError> {
    let unsupported = |what| Err(ChainSpecError::Unsupported { what });
    if config.parlia.is_some() || (config.clique.is_some() && merge != Merge::Genesis) {
        return unsupported("proof of authority");
    }
    if config.bogota_time.is_some() {
        return unsupported("forks after Amsterdam");
    }
    // revm has one spec for each of these pairs.
    if config.eip155_block != config.eip158_block {
        return unsupported("EIP-155 and EIP-158 at different blocks");
    }
    if config.petersburg_block.is_some_and(|block| config.constantinople_block != Some(block)) {
        return unsupported("Constantinople and Petersburg at different blocks");
    }
    Ok(())
}
