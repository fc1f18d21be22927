//! The rules in force, and those that are scheduled, as EIP-7910 describes them.

use super::Chain;
use alloy_eips::{
    eip2935, eip4788, eip7002, eip7251,
    eip7910::{EthConfig, EthForkConfig, SystemContract},
    eip8282,
};
use alloy_primitives::{B256, Bytes};
use phalanx::{
    chain::{ChainSpec, ForkPoints},
    revm::{
        precompile::{PrecompileSpecId, Precompiles},
        primitives::hardfork::SpecId,
    },
};

/// Rules in force, the next ones and the last ones; `None` before Cancun.
pub(crate) fn forks(chain: &Chain) -> Option<EthConfig> {
    let (chain, genesis, head) = (&chain.spec, &chain.genesis, chain.head());
    let (number, now) = (head.header.number, head.header.timestamp);
    let points = chain.fork_points();
    let name = (genesis.hash_slow(), genesis.timestamp);
    let at = |time: u64| fork(chain, &points, name, number, time);
    let current = points.times.iter().rev().find(|time| **time <= now).copied().unwrap_or_default();
    let mut coming = points.times.iter().copied().filter(|time| *time > now);
    let next = coming.next();
    let last = coming.next_back().or(next);
    Some(EthConfig { current: at(current)?, next: next.and_then(at), last: last.and_then(at) })
}

/// Rules from a time on; `None` before Cancun.
fn fork(
    chain: &ChainSpec,
    points: &ForkPoints,
    (genesis, begun): (B256, u64),
    number: u64,
    time: u64,
) -> Option<EthForkConfig> {
    let spec = chain.spec_at(number, time, true);
    let blob_schedule = chain.blob_params(time)?;
    let precompiles = Precompiles::new(PrecompileSpecId::from_spec_id(spec));
    let precompiles = precompiles.inner().values().map(|one| (one.id().name().to_owned(), *one.address()));
    let contracts = [
        (SpecId::CANCUN, SystemContract::BeaconRoots, eip4788::BEACON_ROOTS_ADDRESS),
        (SpecId::PRAGUE, SystemContract::HistoryStorage, eip2935::HISTORY_STORAGE_ADDRESS),
        (SpecId::PRAGUE, SystemContract::DepositContract, chain.deposit_contract()),
        (SpecId::PRAGUE, SystemContract::WithdrawalRequestPredeploy, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS),
        (
            SpecId::PRAGUE,
            SystemContract::ConsolidationRequestPredeploy,
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        ),
        (SpecId::AMSTERDAM, SystemContract::BuilderDepositContract, eip8282::BUILDER_DEPOSIT_CONTRACT_ADDRESS),
        (SpecId::AMSTERDAM, SystemContract::BuilderExitContract, eip8282::BUILDER_EXIT_CONTRACT_ADDRESS),
    ];
    let contracts = contracts.into_iter().filter(|(since, ..)| spec.is_enabled_in(*since));
    Some(EthForkConfig {
        activation_time: if time <= begun { 0 } else { time },
        blob_schedule,
        chain_id: chain.chain_id(),
        fork_id: Bytes::copy_from_slice(&fork_hash(points, genesis, begun, number, time)),
        precompiles: precompiles.collect(),
        system_contracts: contracts.map(|(_, contract, address)| (contract, address)).collect(),
    })
}

/// FORK_HASH of EIP-6122: a checksum over the name of the genesis and the forks behind it that have passed.
fn fork_hash(points: &ForkPoints, genesis: B256, begun: u64, number: u64, time: u64) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(genesis.as_slice());
    let blocks = points.blocks.iter().filter(|block| **block > 0 && **block <= number);
    let times = points.times.iter().filter(|at| **at > begun && **at <= time);
    blocks.chain(times).for_each(|at| hasher.update(&at.to_be_bytes()));
    hasher.finalize().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;

    #[test]
    fn fork_hashes_of_mainnet_are_those_of_the_standards() {
        let genesis = b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");
        let points = ChainSpec::mainnet().fork_points();
        // Rows of EIP-2124 and of EIP-7910.
        for (number, time, hash) in [
            (0, 0, [0xfc, 0x64, 0xec, 0x04]),
            (1_150_000, 0, [0x97, 0xc2, 0xc3, 0x4c]),
            (1_920_000, 0, [0x91, 0xd1, 0xf9, 0x48]),
            (9_200_000, 0, [0xe0, 0x29, 0xe9, 0x91]),
            (20_000_000, 1_710_338_135, [0x9f, 0x3d, 0x22, 0x54]),
            (23_000_000, 1_746_612_311, [0xc3, 0x76, 0xcf, 0x8b]),
        ] {
            assert_eq!(fork_hash(&points, genesis, 0, number, time), hash, "block {number} at {time} s");
        }
    }
}
