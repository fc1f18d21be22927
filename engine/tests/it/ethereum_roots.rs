//! Chains whose blocks report Ethereum's root, made of each block's changes alone: that of Ethereum's own tests.

use alloy_consensus::{
    Block, Header, TxEnvelope,
    proofs::{state_root_unhashed, storage_root_unhashed},
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use alloy_rlp::Decodable as _;
use alloy_trie::{Nibbles, TrieAccount, proof::verify_proof};
use phalanx::{
    AccountProof, Ancestors, Engine, Executor, GenesisAccount, Hints, RecoveredBlock, RootKind, SnapshotAt,
    chain::{ChainSpec, Merge},
    merkle::BlockId,
    revm::{context::BlockEnv, context_interface::block::BlobExcessGasAndPrice, primitives::hardfork::SpecId},
};
use phalanx_workloads::fixtures::{
    Account, Alloc, BlockchainTest, StateTestCase, StateTestEnv, Test, read_tests, recover_senders,
    state_test_block_hash, tx_env, visit_files,
};
use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
    path::Path,
};

use crate::kit::builder;

/// Ethereum's root of the committed state, by another implementation.
pub(crate) fn state_root(engine: &Engine) -> B256 {
    let state = engine.state().dump().expect("a sound state");
    state_root_unhashed(state.into_values().map(|account| {
        let GenesisAccount { address, balance, nonce, code, storage } = account;
        let slots = storage.into_iter().map(|(slot, value)| (B256::from(slot), value));
        let storage_root = storage_root_unhashed(slots);
        (address, TrieAccount::new(nonce, balance, storage_root, code.map_or(KECCAK256_EMPTY, keccak256)))
    }))
}

fn accounts(alloc: &Alloc) -> impl Iterator<Item = GenesisAccount> {
    alloc.iter().map(|(address, account)| GenesisAccount {
        address: *address,
        balance: account.balance,
        nonce: account.nonce,
        code: (!account.code.is_empty()).then(|| account.code.clone()),
        storage: account.storage.iter().map(|(slot, value)| (*slot, *value)).collect(),
    })
}

/// Blocks of a test on an engine, all of them forks of its genesis.
struct Chain {
    spec: ChainSpec,
    engine: Engine,
    blocks: HashMap<B256, (Header, BlockId)>,
}

/// Counts of judged blocks.
#[derive(Debug, Default)]
struct Tally {
    blocks: usize,
    proofs: usize,
}

impl Chain {
    fn new(test: &BlockchainTest, executor: Executor, threads: usize) -> Self {
        let mut spec = ChainSpec::named(&test.network).expect("a known hard fork");
        if let Some(id) = test.chain_id {
            spec = spec.with_chain_id(id);
        }
        let genesis = Block::<TxEnvelope>::decode(&mut test.genesis_rlp.as_ref()).expect("a genesis").header;
        spec = spec.with_root(RootKind::Ethereum);
        let engine = builder().with_executor(executor).with_threads(threads).with_chain(spec.clone());
        let mut engine = engine.build().expect("an engine in memory");
        let root = engine.genesis(accounts(&test.pre)).expect("a sound genesis");
        assert_eq!(root, genesis.state_root, "the root of the genesis");
        let blocks = HashMap::from([(genesis.hash_slow(), (genesis, engine.committed()))]);
        Self { spec, engine, blocks }
    }

    /// Executes a valid block, and compares its root.
    fn import(&mut self, rlp: &[u8], tally: &mut Tally) {
        let block = Block::<TxEnvelope>::decode(&mut &rlp[..]).expect("a block");
        let header = &block.header;
        let parent = self.blocks[&header.parent_hash].1;
        let mut ancestors = Ancestors::new();
        let mut hash = header.parent_hash;
        while let Some((known, _)) = self.blocks.get(&hash) {
            ancestors.insert(known.number, hash);
            hash = known.parent_hash;
        }
        self.engine.checkout(parent).expect("it is there");
        self.engine.set_ancestors(ancestors);
        let senders = recover_senders(&block.body.transactions);
        let txs = block.body.transactions.iter().zip(senders);
        let txs: Vec<_> = txs.map(|(tx, sender)| tx_env(tx, sender.expect("a signature"))).collect();
        let (ommers, withdrawals) = (&block.body.ommers, block.body.withdrawals.as_ref().map(|list| list.as_slice()));
        let payload = RecoveredBlock { header, txs: &txs, ommers, withdrawals };
        let executed = self.engine.execute_block(&payload, Hints::Predict).expect("a valid block");
        let merkleized = self.engine.merkleize(executed).expect("a root");
        self.spec.check_outcome(header, &merkleized.outcome()).expect("the header's outcome, the state root included");
        let (fork, _) = self.engine.add_fork(merkleized, Vec::new()).expect("room");
        tally.blocks += 1;
        let diff = self.engine.state_diff(fork).expect("a fork");
        self.prove(fork, header.state_root, &diff, tally);
        self.blocks.insert(header.hash_slow(), (block.header, fork));
    }

    /// Proves what the block wrote, present or not.
    fn prove(&self, block: BlockId, root: B256, diff: &phalanx::StateDiff, tally: &mut Tally) {
        let state = self.engine.snapshot(SnapshotAt::Block(block)).expect("a fork");
        assert_eq!(state.root(), root);
        let slots = diff.storage.keys().map(|(address, _)| *address);
        let addresses: BTreeSet<Address> = diff.accounts.keys().copied().chain(slots).take(8).collect();
        for address in addresses {
            let slots: Vec<U256> =
                diff.storage.keys().filter(|(owner, _)| *owner == address).map(|(_, slot)| *slot).take(4).collect();
            let proof = state.prove_ethereum(&address, &slots).expect("readable").expect("Ethereum's root");
            verify(root, &address, &proof);
            tally.proofs += 1;
        }
    }
}

/// Verifies a proof with alloy's verifier.
pub(crate) fn verify(root: B256, address: &Address, proof: &AccountProof) {
    let account = proof.account.map(|account| {
        let (nonce, balance, code_hash) = (account.nonce, account.balance, account.code_hash);
        alloy_rlp::encode(TrieAccount::new(nonce, balance, proof.storage_root, code_hash))
    });
    verify_proof(root, Nibbles::unpack(keccak256(address)), account, &proof.nodes).expect("the account's proof");
    for slot in &proof.slots {
        let value = (!slot.value.is_zero()).then(|| alloy_rlp::encode(slot.value));
        let path = Nibbles::unpack(keccak256(slot.slot));
        verify_proof(proof.storage_root, path, value, &slot.nodes).expect("the slot's proof");
    }
}

/// Hands over the tests of every `stride`-th file of an archive of the shared folder; false if it is missing.
fn each_test(archive: &str, stride: usize, mut take: impl FnMut(&str, Test)) -> bool {
    let root = std::env::var_os("PHALANX_FIXTURES").unwrap_or_default();
    let path = Path::new(&root).join("ethereum-tests").join(archive);
    if !path.exists() {
        assert!(std::env::var_os("PHALANX_REQUIRE_FIXTURES").is_none(), "{} is missing", path.display());
        eprintln!("skipped: {} is missing in the folder that PHALANX_FIXTURES names", path.display());
        return false;
    }
    let mut files = 0;
    let _ = visit_files(&path, &mut |file| {
        if files % stride == 0 {
            for (name, test) in read_tests(&file.expect("a readable file").bytes).expect("tests") {
                take(&name, test.expect("a test"));
            }
        }
        files += 1;
        ControlFlow::Continue(())
    });
    true
}

#[test]
fn roots_of_blockchain_tests_are_those_of_their_headers() {
    let mut tally = Tally::default();
    let is_there = each_test("BlockchainTests-sample.tar.gz", 1, |name, test| {
        let Test::Blockchain(test) = test else { return };
        println!("{name}");
        for (executor, threads) in [(Executor::Dag, 1), (Executor::Dag, 8), (Executor::Sequential, 2)] {
            let mut chain = Chain::new(&test, executor, threads);
            for block in test.blocks.iter().filter(|block| block.expect_exception.is_none()) {
                chain.import(&block.rlp, &mut tally);
            }
        }
    });
    assert!(!is_there || tally.blocks == 687 && tally.proofs > 2250, "{tally:?}");
}

#[test]
fn roots_of_state_tests_are_those_that_they_name() {
    let stride = std::env::var("PHALANX_STRIDE").map_or(8, |stride| stride.parse().expect("a count of files"));
    let mut cases = 0;
    let is_there = each_test("GeneralStateTests.tar.gz", stride, |name, test| {
        let Test::State(test) = test else { return };
        let is_bare = |account: &Account| account.nonce == 0 && account.code.is_empty() && !account.storage.is_empty();
        if test.pre.values().any(is_bare) {
            // revm does not know EIP-7610: a creation over storage succeeds.
            return;
        }
        // One of each test and hard fork: `phalanx test state` runs all.
        let first = |case: &&StateTestCase| case.expect_exception.is_none() && case.indexes == (0, 0, 0);
        for case in test.cases.iter().filter(first) {
            let (Ok(chain), Ok(tx)) = (ChainSpec::named(&case.fork), &case.tx) else { continue };
            let (number, timestamp) = (test.env.number.saturating_to(), test.env.timestamp.saturating_to());
            let spec = chain.spec_at(number, timestamp, matches!(chain.merge(), Merge::Genesis));
            let chain = chain.with_chain_id(test.chain_id);
            // What a blob costs follows from the block before.
            if test.env.parent_blob_gas.is_some() || spec.is_enabled_in(SpecId::AMSTERDAM) {
                continue;
            }
            let env = block_env(&test.env, spec, &chain, timestamp);
            let engine = Engine::builder().with_executor(Executor::Sequential).with_threads(1);
            let engine = engine.with_cfg(chain.cfg(spec, timestamp)).with_root(RootKind::Ethereum);
            let mut engine = engine.build().expect("an engine in memory");
            engine.genesis(accounts(&test.pre)).expect("a sound genesis");
            let hashes = number.saturating_sub(256)..number;
            engine.set_ancestors(hashes.map(|number| (number, state_test_block_hash(number))).collect());
            let block = phalanx::Block::unpredicted(vec![0]);
            let executed = engine.execute(&env, core::slice::from_ref(tx), block).expect("execution");
            let merkleized = engine.merkleize(executed).expect("a root");
            let root = merkleized.state_root();
            assert_eq!(root, case.post_root, "{name}, {} {:?}", case.fork, case.indexes);
            cases += 1;
        }
    });
    println!("{cases} cases of every {stride}th file");
    assert!(!is_there || cases * stride > 1000, "{cases} cases");
}

fn block_env(env: &StateTestEnv, spec: SpecId, chain: &ChainSpec, timestamp: u64) -> BlockEnv {
    let blobs = chain.blob_params(timestamp).filter(|_| spec.is_enabled_in(SpecId::CANCUN));
    BlockEnv {
        number: env.number,
        beneficiary: env.coinbase,
        timestamp: env.timestamp,
        gas_limit: env.gas_limit,
        basefee: env.base_fee.filter(|_| spec.is_enabled_in(SpecId::LONDON)).unwrap_or_default(),
        difficulty: env.difficulty,
        prevrandao: spec.is_enabled_in(SpecId::MERGE).then(|| env.random.unwrap_or_default()),
        blob_excess_gas_and_price: blobs.map(|params| {
            let excess_blob_gas = env.excess_blob_gas.unwrap_or_default();
            BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice: params.calc_blob_fee(excess_blob_gas) }
        }),
        slot_num: env.slot,
    }
}
