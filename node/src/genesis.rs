//! A chain for development: every hard fork from its first block, the protocol's contracts, and accounts with known keys.

use crate::keys::DevAccount;
use phalanx::{
    RootKind,
    alloy::{
        eips::{eip2935, eip4788, eip7002, eip7251, eip8282},
        genesis::{ChainConfig, Genesis, GenesisAccount},
        primitives::{Address, Bytes, U256, address, bytes},
    },
};

/// Balance of each account, in wei: 10,000 ether.
pub const DEV_BALANCE: U256 = U256::from_limbs([0x19e0_c9ba_b240_0000, 0x21e, 0, 0]);

/// Contract through which tools deploy at addresses that they know (CREATE2), and its code.
/// Source: <https://github.com/Arachnid/deterministic-deployment-proxy>.
const DEPLOYER: (Address, Bytes) = (
    address!("4e59b44847b379578588920cA78FbF26c0B4956C"),
    bytes!(
        "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
    ),
);

/// Field of a genesis's `config` that makes a chain one for development.
const DEVELOPMENT: &str = "phalanxDevelopment";

/// Gas limit of the blocks.
const GAS_LIMIT: u64 = 60_000_000;

/// Makes the chain of a genesis one for development, with a time of its first block: its producer may set state and time, and acts for
/// any account ([`Parameters::development`](phalanx::chain::Parameters::development)).
pub fn into_development(genesis: &mut Genesis, timestamp: u64) {
    genesis.timestamp = timestamp;
    genesis.config.extra_fields.insert(DEVELOPMENT.into(), true.into());
}

/// Sets the root that the blocks of a genesis' chain report.
pub fn set_root(genesis: &mut Genesis, root: RootKind) {
    genesis.config.extra_fields.insert(RootKind::FIELD.into(), root.name().into());
}

/// Genesis with every hard fork up to Osaka from the first block, the contracts that blocks of Amsterdam call, and accounts with a balance each, in wei.
pub fn dev_genesis(chain: u64, accounts: &[DevAccount], balance: U256) -> Genesis {
    let config = ChainConfig {
        chain_id: chain,
        homestead_block: Some(0),
        eip150_block: Some(0),
        eip155_block: Some(0),
        eip158_block: Some(0),
        byzantium_block: Some(0),
        constantinople_block: Some(0),
        petersburg_block: Some(0),
        istanbul_block: Some(0),
        berlin_block: Some(0),
        london_block: Some(0),
        terminal_total_difficulty: Some(U256::ZERO),
        terminal_total_difficulty_passed: true,
        shanghai_time: Some(0),
        cancun_time: Some(0),
        prague_time: Some(0),
        osaka_time: Some(0),
        ..ChainConfig::default()
    };
    let contracts: [(Address, &Bytes); 6] = [
        (eip4788::BEACON_ROOTS_ADDRESS, &eip4788::BEACON_ROOTS_CODE),
        (eip2935::HISTORY_STORAGE_ADDRESS, &eip2935::HISTORY_STORAGE_CODE),
        (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
        (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, &eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
        (eip8282::BUILDER_DEPOSIT_CONTRACT_ADDRESS, &eip8282::BUILDER_DEPOSIT_CONTRACT_CODE),
        (eip8282::BUILDER_EXIT_CONTRACT_ADDRESS, &eip8282::BUILDER_EXIT_CONTRACT_CODE),
    ];
    let contract = |code: &Bytes| GenesisAccount::default().with_nonce(Some(1)).with_code(Some(code.clone()));
    let contracts = contracts.map(|(address, code)| (address, contract(code)));
    let contracts = contracts.into_iter().chain([(DEPLOYER.0, contract(&DEPLOYER.1))]);
    let funded = accounts.iter().map(|account| (account.address, GenesisAccount::default().with_balance(balance)));
    Genesis {
        config,
        gas_limit: GAS_LIMIT,
        base_fee_per_gas: Some(1_000_000_000),
        alloc: contracts.chain(funded).collect(),
        ..Genesis::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::chain::ChainSpec;

    #[test]
    fn the_flag_makes_a_chain_for_development() {
        let is = |genesis: &Genesis| ChainSpec::from_genesis(genesis).expect("a chain").parameters().development;
        let mut genesis = dev_genesis(7, &[], U256::ZERO);
        assert!(!is(&genesis));
        into_development(&mut genesis, 5);
        let text = serde_json::to_string(&genesis).expect("JSON");
        let read: Genesis = serde_json::from_str(&text).expect("a genesis");
        assert!(is(&read) && read.timestamp == 5 && read == genesis);
        assert_eq!(ChainSpec::from_genesis(&genesis).expect("a chain").root(), RootKind::Twigs);
        set_root(&mut genesis, RootKind::Ethereum);
        assert_eq!(ChainSpec::from_genesis(&genesis).expect("a chain").root(), RootKind::Ethereum);
        assert_ne!(phalanx::chain_digest(&genesis), phalanx::chain_digest(&read), "another chain");
        genesis.config.extra_fields.insert(RootKind::FIELD.into(), "verkle".into());
        assert!(ChainSpec::from_genesis(&genesis).is_err());
        assert_eq!(DEV_BALANCE, U256::from(10_000) * U256::from(10).pow(U256::from(18)));
        assert_eq!(genesis.alloc[&DEPLOYER.0].code.as_ref().map(|code| code.len()), Some(69));
    }
}
