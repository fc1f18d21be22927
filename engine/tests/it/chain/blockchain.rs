//! BlockchainTests of the Ethereum Foundation, as far as they need no execution. Every valid block is accepted, every
//! other one refused by the rule that the test means.

use alloy_consensus::{Block, Header, TxEnvelope};
use alloy_primitives::{B256, Bytes, U256};
use alloy_rlp::Decodable as _;
use phalanx::chain::{BodyError, ChainSpec, HeaderError, OmmerError};
use serde_json::Value;
use std::{collections::HashMap, fs::File, io::Read as _, path::Path};

/// Rule that refused a block.
#[derive(Debug)]
enum Refused {
    Rlp,
    UnknownParent,
    Header(HeaderError),
    Body(BodyError),
    Ommers(OmmerError),
    Tx,
}

/// Exceptions that only execution can raise.
const NEEDS_EXECUTION: [&str; 4] =
    ["INVALID_STATE_ROOT", "INVALID_RECEIPTS_ROOT", "INVALID_LOG_BLOOM", "INVALID_GAS_USED"];

/// True if the rule that refused a block is the one that a test names.
fn is_meant(exception: &str, refused: &Refused) -> bool {
    exception.split('|').any(|one| {
        match (one.trim_start_matches("BlockException."), refused) {
            ("EXTRA_DATA_TOO_BIG", Refused::Header(HeaderError::ExtraData { len: 33.. }))
            | ("INVALID_GASLIMIT" | "GASLIMIT_TOO_BIG", Refused::Header(HeaderError::GasLimit { .. }))
            | ("UNKNOWN_PARENT" | "UNKNOWN_PARENT_ZERO", Refused::UnknownParent)
            | ("INVALID_BLOCK_TIMESTAMP_OLDER_THAN_PARENT", Refused::Header(HeaderError::Timestamp { .. }))
            | ("INVALID_TRANSACTIONS_ROOT", Refused::Body(BodyError::TransactionsRoot { .. }))
            | ("INVALID_WITHDRAWALS_ROOT", Refused::Body(BodyError::WithdrawalsRoot { .. }))
            // A block that ends before its withdrawals.
                  | ("RLP_WITHDRAWALS_NOT_READ", Refused::Body(BodyError::WithdrawalsRoot { expected: None, .. }))
            | ("IMPORT_IMPOSSIBLE_UNCLES_OVER_PARIS", Refused::Header(HeaderError::Ommers))
            | ("INVALID_BLOCK_NUMBER", Refused::Header(HeaderError::Number { .. }))
            | ("IMPORT_IMPOSSIBLE_DIFFICULTY_OVER_PARIS", Refused::Header(HeaderError::Difficulty { .. }))
            | (
                "EXTRA_DATA_INVALID_DAO",
                Refused::Header(HeaderError::DaoExtraData)
                | Refused::Ommers(OmmerError::Header { reason: HeaderError::DaoExtraData, .. }),
            )
            // A header of Shanghai before its time, and one of Paris after it.
            | ("IMPORT_IMPOSSIBLE_SHANGHAI", Refused::Header(HeaderError::NotDue { .. }))
            | ("IMPORT_IMPOSSIBLE_PARIS_OVER_SHANGHAI", Refused::Header(HeaderError::Missing { .. })) => true,
            (rlp, Refused::Rlp) => rlp.starts_with("RLP_"),
            _ => false,
        }
    })
}

/// Accepted blocks, with their total difficulty and the ommers they name.
struct Tree {
    chain: ChainSpec,
    blocks: HashMap<B256, (Header, U256, Vec<B256>)>,
}

impl Tree {
    fn add(&mut self, rlp: &[u8]) -> Result<(), Refused> {
        let mut rest = rlp;
        let block = Block::<TxEnvelope>::decode(&mut rest).map_err(|_| Refused::Rlp)?;
        if !rest.is_empty() {
            return Err(Refused::Rlp);
        }
        let Block { header, body } = block;
        let (parent, difficulty, _) = self.blocks.get(&header.parent_hash).ok_or(Refused::UnknownParent)?;
        self.chain.validate_header(&header, parent, Some(*difficulty)).map_err(Refused::Header)?;
        let withdrawals = body.withdrawals.as_ref().map(|list| list.as_slice());
        self.chain
            .validate_body(&header, &body.transactions, &body.ommers, withdrawals, Some(rlp.len()))
            .map_err(Refused::Body)?;
        let ancestor = |hash: B256| {
            let (header, _, ommers) = self.blocks.get(&hash)?;
            Some((header.clone(), ommers.clone()))
        };
        self.chain.validate_ommers(&header, &body.ommers, ancestor).map_err(Refused::Ommers)?;
        let spec = self.chain.spec(&header);
        for tx in &body.transactions {
            self.chain.validate_tx(spec, tx).map_err(|_| Refused::Tx)?;
        }
        let difficulty = *difficulty + header.difficulty;
        let ommers = body.ommers.iter().map(Header::hash_slow).collect();
        self.blocks.insert(header.hash_slow(), (header, difficulty, ommers));
        Ok(())
    }
}

/// Counts of the results of a file's blocks.
#[derive(Debug, Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    needs_execution: usize,
}

fn bytes(value: &Value) -> Bytes {
    value.as_str().expect("a string").parse().expect("hexadecimal")
}

fn run(cases: &Value, tally: &mut Tally) {
    for (name, case) in cases.as_object().expect("cases by name") {
        let chain = ChainSpec::named(case["network"].as_str().expect("a name")).expect("a known hard fork");
        let genesis = Block::<TxEnvelope>::decode(&mut bytes(&case["genesisRLP"]).as_ref()).expect("a genesis").header;
        let blocks = HashMap::from([(genesis.hash_slow(), (genesis.clone(), genesis.difficulty, vec![]))]);
        let mut tree = Tree { chain, blocks };
        for (index, block) in case["blocks"].as_array().expect("blocks").iter().enumerate() {
            let verdict = tree.add(&bytes(&block["rlp"]));
            match (block["expectException"].as_str(), verdict) {
                (None, Ok(())) => tally.accepted += 1,
                (Some(exception), Err(refused)) if is_meant(exception, &refused) => tally.refused += 1,
                (Some(exception), Ok(())) if NEEDS_EXECUTION.iter().any(|rule| exception.ends_with(rule)) => {
                    tally.needs_execution += 1;
                }
                (expected, got) => panic!("{name}, block {index}: expected {expected:?}, got {got:?}"),
            }
        }
    }
}

#[test]
fn committed_blockchain_tests() {
    let mut tally = Tally::default();
    run(&serde_json::from_str(include_str!("../../fixtures/blockchain.json")).expect("JSON"), &mut tally);
    assert!(tally.accepted >= 12 && tally.refused >= 15, "{tally:?}");
}

/// Hands over each file of the shared folder's blockchain tests; false if there is none.
pub(crate) fn each_of_the_fixtures(mut file: impl FnMut(&Value)) -> bool {
    let root = std::env::var_os("PHALANX_FIXTURES").unwrap_or_default();
    let path = Path::new(&root).join("ethereum-tests/BlockchainTests-sample.tar.gz");
    let Ok(archive) = File::open(&path) else {
        assert!(std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_none(), "{} is missing", path.display());
        eprintln!("skipped: {} is missing in the folder that PHALANX_FIXTURES names", path.display());
        return false;
    };
    let archive = flate2::read::GzDecoder::new(archive);
    for entry in tar::Archive::new(archive).entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        if entry.path().expect("a path").extension().is_some_and(|extension| extension == "json") {
            let mut json = String::new();
            entry.read_to_string(&mut json).expect("text");
            file(&serde_json::from_str(&json).expect("JSON"));
        }
    }
    true
}

#[test]
fn all_blockchain_tests_of_the_fixtures() {
    let mut tally = Tally::default();
    if each_of_the_fixtures(|cases| run(cases, &mut tally)) {
        println!("{tally:?}");
        assert!(tally.accepted > 200 && tally.refused > 50, "{tally:?}");
    }
}
