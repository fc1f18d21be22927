//! A chain for development: every hard fork from its first block, the protocol's contracts, and accounts with known keys.

use phalanx::alloy::{
    consensus::crypto::secp256k1::{recover_signer_unchecked, sign_message},
    eips::{eip2935, eip4788, eip7002, eip7251},
    genesis::{ChainConfig, Genesis, GenesisAccount},
    primitives::{Address, B256, Bytes, U256, b256},
};

/// Private keys of the accounts: those of the mnemonic that development tools share, "test test .. test junk". Everybody
/// knows them, so on any other chain they hold nothing.
const KEYS: [B256; 10] = [
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// Balance of each account, in wei: 10,000 ether.
const BALANCE: U256 = U256::from_limbs([0x19e0_c9ba_b240_0000, 0x21e, 0, 0]);

/// Gas limit of the blocks.
const GAS_LIMIT: u64 = 60_000_000;

/// An account of a chain for development.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevAccount {
    /// Address of the account.
    pub address: Address,
    /// Private key, which everybody knows.
    pub key: B256,
}

/// The first accounts of a chain for development, at most ten.
pub fn dev_accounts(count: usize) -> Vec<DevAccount> {
    let account = |key: &B256| {
        let signature = sign_message(*key, B256::ZERO).ok()?;
        let address = recover_signer_unchecked(&signature, B256::ZERO).ok()?;
        Some(DevAccount { address, key: *key })
    };
    KEYS.iter().take(count).filter_map(account).collect()
}

/// Genesis of a chain for development.
pub fn dev_genesis(chain: u64, accounts: &[DevAccount]) -> Genesis {
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
    let contracts: [(Address, &Bytes); 4] = [
        (eip4788::BEACON_ROOTS_ADDRESS, &eip4788::BEACON_ROOTS_CODE),
        (eip2935::HISTORY_STORAGE_ADDRESS, &eip2935::HISTORY_STORAGE_CODE),
        (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
        (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, &eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
    ];
    let contract = |code: &Bytes| GenesisAccount::default().with_nonce(Some(1)).with_code(Some(code.clone()));
    let contracts = contracts.map(|(address, code)| (address, contract(code)));
    let funded = accounts.iter().map(|account| (account.address, GenesisAccount::default().with_balance(BALANCE)));
    Genesis {
        config,
        gas_limit: GAS_LIMIT,
        base_fee_per_gas: Some(1_000_000_000),
        alloc: contracts.into_iter().chain(funded).collect(),
        ..Genesis::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_are_those_that_tools_know() {
        let accounts = dev_accounts(99);
        let [first, .., last] = &accounts[..] else { panic!("ten accounts") };
        assert_eq!(accounts.len(), 10);
        assert_eq!(first.address.to_string(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(last.address.to_string(), "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        assert_eq!(BALANCE, U256::from(10_000) * U256::from(10).pow(U256::from(18)));
    }
}
