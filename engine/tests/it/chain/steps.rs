//! Steps of a block outside of its transactions.

use alloy_consensus::{Block, Header, TxEnvelope, proofs};
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS, eip4895::Withdrawal,
    eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS, eip7685::EMPTY_REQUESTS_HASH,
};
use alloy_primitives::{Address, B256, Bytes, Log, LogData, U256, address, b256, keccak256};
use alloy_rlp::Decodable as _;
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY, TrieAccount};
use phalanx::{
    chain::{ChainSpec, DAO_ACCOUNTS, DAO_REFUND, DepositError, PreStep, requests_hash},
    revm::primitives::hardfork::SpecId,
};

fn named(name: &str) -> ChainSpec {
    ChainSpec::named(name).expect("a fork")
}

#[test]
fn the_dao_is_drained_at_its_fork_and_nowhere_else() {
    let chain = ChainSpec::mainnet();
    let steps = |number| {
        let header = Header { number, ..Default::default() };
        chain.pre_steps(&header, chain.spec(&header))
    };
    assert_eq!(steps(1_920_000), [PreStep::Drain { accounts: &DAO_ACCOUNTS, refund: DAO_REFUND }]);
    assert!(steps(1_919_999).is_empty() && steps(1_920_001).is_empty());
    assert!(DAO_ACCOUNTS.is_sorted_by(|a, b| a < b), "no duplicates");
    assert!(DAO_ACCOUNTS.contains(&address!("0xbb9bc244d798123fde783fcc1c72d3bb8c189413")), "the DAO itself");
}

/// The genesis of ethereum/tests' bcHomesteadToDao holds the accounts, each with 10^10 wei, and one sender: its state
/// root proves the list complete and right.
#[test]
fn the_dao_accounts_equal_those_of_the_ethereum_tests() {
    let account = |balance: u64| TrieAccount {
        balance: U256::from(balance),
        storage_root: EMPTY_ROOT_HASH,
        code_hash: KECCAK_EMPTY,
        ..Default::default()
    };
    let sender = address!("0xa94f5374fce5edbc8e2a8697c15331677e6ebf0b");
    let accounts = DAO_ACCOUNTS.map(|address| (address, account(10_000_000_000)));
    let root = proofs::state_root_unhashed(accounts.into_iter().chain([(sender, account(1_000_000_000_000))]));

    let cases: serde_json::Value = serde_json::from_str(include_str!("../../fixtures/blockchain.json")).expect("JSON");
    let rlp: Bytes = serde_json::from_value(cases["DaoTransactions_XBlockm1_HomesteadToDaoAt5"]["genesisRLP"].clone())
        .expect("hexadecimal");
    let genesis = Block::<TxEnvelope>::decode(&mut rlp.as_ref()).expect("a genesis");
    assert_eq!(root, genesis.header.state_root);
}

#[test]
fn system_calls_come_with_their_forks() {
    let header = |number| Header {
        number,
        parent_hash: B256::repeat_byte(1),
        parent_beacon_block_root: Some(B256::repeat_byte(2)),
        ..Default::default()
    };
    let beacon = PreStep::SystemCall { to: BEACON_ROOTS_ADDRESS, data: B256::repeat_byte(2) };
    let history = PreStep::SystemCall { to: HISTORY_STORAGE_ADDRESS, data: B256::repeat_byte(1) };
    assert_eq!(named("Shanghai").pre_steps(&header(1), SpecId::SHANGHAI), []);
    assert_eq!(named("Cancun").pre_steps(&header(1), SpecId::CANCUN), [beacon]);
    assert_eq!(named("Prague").pre_steps(&header(1), SpecId::PRAGUE), [beacon, history]);
    assert_eq!(named("Prague").pre_steps(&header(0), SpecId::PRAGUE), []);

    assert!(named("Cancun").request_calls(SpecId::CANCUN).is_empty());
    let withdrawals = address!("0x00000961Ef480Eb55e80D19ad83579A64c007002");
    let consolidations = address!("0x0000BBdDc7CE488642fb579F8B00f3a590007251");
    assert_eq!(named("Prague").request_calls(SpecId::PRAGUE), [(1, withdrawals), (2, consolidations)]);
}

#[test]
fn rewards_are_those_of_their_era() {
    const ETHER: u128 = 1_000_000_000_000_000_000;
    let header = Header { number: 100, beneficiary: Address::repeat_byte(9), ..Default::default() };
    let ommers =
        [99, 94].map(|number| Header { number, beneficiary: Address::repeat_byte(number as u8), ..Default::default() });
    for (name, ether) in [("Frontier", 5), ("EIP158", 5), ("Byzantium", 3), ("ConstantinopleFix", 2), ("London", 2)] {
        let chain = named(name);
        let reward = ether * ETHER;
        let miner = (header.beneficiary, U256::from(reward + 2 * reward / 32));
        let expected = [
            (ommers[0].beneficiary, U256::from(reward * 7 / 8)),
            (ommers[1].beneficiary, U256::from(reward * 2 / 8)),
            miner,
        ];
        assert_eq!(chain.post_credits(&header, &ommers, None), expected, "{name}");
        assert_eq!(chain.post_credits(&header, &[], None), [(header.beneficiary, U256::from(reward))]);
        assert_eq!(chain.miner_reward(chain.spec(&header), 2), Some(miner.1));
    }
    assert!(named("Paris").post_credits(&header, &[], None).is_empty());
    assert_eq!(named("Paris").miner_reward(SpecId::MERGE, 0), None);
    // Ommers that no valid block names must not panic either.
    let distant = [Header::default(), Header { number: u64::MAX, ..Default::default() }];
    assert_eq!(named("London").post_credits(&header, &distant, None)[0].1, U256::ZERO);
}

#[test]
fn withdrawals_are_in_gwei_and_zero_ones_are_kept() {
    let withdrawal = |amount| Withdrawal { amount, address: Address::repeat_byte(3), ..Default::default() };
    let withdrawals = [withdrawal(0), withdrawal(1), withdrawal(u64::MAX)];
    let credits = named("Shanghai").post_credits(&Header::default(), &[], Some(&withdrawals));
    let gwei = U256::from(1_000_000_000);
    let amounts: Vec<_> = credits.iter().map(|(_, amount)| *amount).collect();
    assert_eq!(amounts, [U256::ZERO, gwei, U256::from(u64::MAX) * gwei]);
    assert!(named("Paris").post_credits(&Header::default(), &[], Some(&withdrawals)).is_empty());
}

/// Log data of the deposit contract in Solidity's encoding: five offsets, then each field's length and padded bytes.
fn deposit_data(fields: [&[u8]; 5]) -> Vec<u8> {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for field in fields {
        head.extend(U256::from(5 * 32 + tail.len()).to_be_bytes::<32>());
        tail.extend(U256::from(field.len()).to_be_bytes::<32>());
        tail.extend(field);
        tail.resize(tail.len().next_multiple_of(32), 0);
    }
    [head, tail].concat()
}

fn deposit_log(data: Vec<u8>) -> Log {
    let event = keccak256("DepositEvent(bytes,bytes,bytes,bytes,bytes)");
    Log { address: MAINNET_DEPOSIT_CONTRACT_ADDRESS, data: LogData::new_unchecked(vec![event], data.into()) }
}

#[test]
fn deposits_are_parsed_from_logs() {
    let chain = named("Prague");
    let fields: [&[u8]; 5] = [&[1; 48], &[2; 32], &[3; 8], &[4; 96], &[5; 8]];
    let deposit = deposit_log(deposit_data(fields));
    let mut foreign = deposit.clone();
    foreign.address = Address::repeat_byte(1);
    let mut other_event = deposit.clone();
    other_event.data = LogData::new_unchecked(vec![B256::ZERO], deposit.data.data.clone());
    let mut no_topic = deposit.clone();
    no_topic.data = LogData::new_unchecked(vec![], deposit.data.data.clone());

    assert_eq!(chain.deposit_requests(&[]), Ok(None));
    assert_eq!(chain.deposit_requests(&[foreign.clone(), other_event.clone(), no_topic]), Ok(None));
    let one = fields.concat();
    let logs = [foreign, deposit.clone(), other_event, deposit.clone()];
    let expected: Bytes = [vec![0], one.clone(), one].concat().into();
    assert_eq!(chain.deposit_requests(&logs), Ok(Some(expected)));

    // Every word that states an offset or a length: offsets are the first five, lengths are at their targets.
    let data = deposit.data.data.to_vec();
    for word in [0, 32, 64, 96, 128, 160, 256, 320, 384, 512] {
        for (byte, bit) in [(0, 0x80), (31, 1), (30, 1)] {
            let mut bad = data.clone();
            bad[word + byte] ^= bit;
            let logs = [deposit.clone(), deposit_log(bad)];
            assert_eq!(chain.deposit_requests(&logs), Err(DepositError { index: 1 }), "word at {word}");
        }
    }
    for len in [0, 1, 160, 575, 577, 608] {
        let mut bad = data.clone();
        bad.resize(len, 0);
        assert_eq!(chain.deposit_requests(&[deposit_log(bad)]), Err(DepositError { index: 0 }), "{len} bytes");
    }
    // Padding is ignored.
    let mut padded = data;
    padded[160 + 32 + 48] = 1;
    assert!(chain.deposit_requests(&[deposit_log(padded)]).is_ok());
}

#[test]
fn requests_are_hashed_by_type_without_empty_ones() {
    let request = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    assert_eq!(requests_hash([]), EMPTY_REQUESTS_HASH);
    assert_eq!(requests_hash([request(&[0]), request(&[1]), request(&[])]), EMPTY_REQUESTS_HASH);
    let (deposits, exits) = (request(&[0, 7]), request(&[1, 8, 9]));
    let both = requests_hash([deposits.clone(), exits.clone()]);
    assert_eq!(both, requests_hash([exits.clone(), request(&[2]), deposits.clone()]));
    assert_ne!(both, requests_hash([deposits]));
    assert_ne!(both, requests_hash([exits]));
    // sha256(sha256(00 07) ‖ sha256(01 08 09)), computed by another program.
    assert_eq!(both, b256!("0x6be7a28710081a5047d71302e46a25ca192fd1a3eb50d541fdb3001add5b748e"));
}
