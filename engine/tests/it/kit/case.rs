//! Small chains of blocks on a genesis, and the requirements on every way to run them.

use super::{
    chain::COINBASE,
    disk::SlowDisk,
    hints::Hint,
    oracle,
    ways::{Way, every_way},
};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::Bloom;
use alloy_rlp::Decodable as _;
use phalanx::{
    Ancestors, BlockError, Engine, Executor, GenesisAccount, Hints, Outcome, RecoveredBlock, RunStats, Traces, Tuning,
    access::{AccessSets, Salt},
    chain::ChainSpec,
    eip7928::AccountChanges,
    merkle::{Backend, Memory, StoreConfig},
    paralyze::{Batch, ParaLyze, StateKey},
    revm::{
        context::TxEnv,
        context_interface::result::{ExecutionResult, ResultGas},
        primitives::{Address, B256, Bytes, U256, hardfork::SpecId, keccak256},
    },
};
use std::collections::BTreeMap;

/// Maximum number of executions of a transaction by a speculative executor: its attempts, and two more (see
/// `StmConfig::max_executions`).
const MAX_STM_EXECUTIONS: usize = 5;

/// A block to be executed.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) header: Header,
    pub(crate) txs: Vec<TxEnv>,
    pub(crate) ommers: Vec<Header>,
    pub(crate) withdrawals: Option<Vec<Withdrawal>>,
}

impl Body {
    pub(crate) fn payload(&self) -> RecoveredBlock<'_> {
        let Self { header, txs, ommers, withdrawals } = self;
        RecoveredBlock { header, txs, ommers, withdrawals: withdrawals.as_deref() }
    }
}

/// Blocks in a row, under the rules of one hard fork.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) rules: ChainSpec,
    pub(crate) genesis: Vec<GenesisAccount>,
    pub(crate) ancestors: Ancestors,
    pub(crate) blocks: Vec<Body>,
}

/// Result of a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) gas_used: u64,
    pub(crate) receipts_root: Option<B256>,
    pub(crate) logs_bloom: Bloom,
    pub(crate) requests: Option<Vec<Bytes>>,
    /// Encoded access list (EIP-7928), if the engine produces them.
    pub(crate) access_list: Option<Bytes>,
    pub(crate) state: BTreeMap<Address, GenesisAccount>,
    pub(crate) root: B256,
}

/// Artefacts that validators receive with a block.
#[derive(Clone, Debug)]
struct Artefacts {
    exceptions: Vec<u8>,
    list: Option<Bytes>,
}

/// Result of a block, or the reason why it is invalid.
pub(crate) type Verdict = Result<Ended, String>;

/// Base fee of [`header`].
pub(crate) fn base_fee(rules: &ChainSpec) -> u64 {
    header(rules, 1).base_fee_per_gas.unwrap_or_default()
}

/// A header that satisfies the rules.
pub(crate) fn header(rules: &ChainSpec, number: u64) -> Header {
    let merged = matches!(rules.merge(), phalanx::chain::Merge::Genesis);
    let timestamp = number * 12;
    let spec = rules.spec_at(number, timestamp, merged);
    let from = |since: SpecId| spec.is_enabled_in(since);
    Header {
        number,
        timestamp,
        beneficiary: COINBASE,
        gas_limit: 30_000_000,
        difficulty: U256::from(if merged { 0 } else { 0x20000 }),
        mix_hash: B256::repeat_byte(0x55),
        parent_hash: B256::repeat_byte(number as u8),
        base_fee_per_gas: from(SpecId::LONDON).then_some(7),
        excess_blob_gas: from(SpecId::CANCUN).then_some(0),
        blob_gas_used: from(SpecId::CANCUN).then_some(0),
        parent_beacon_block_root: from(SpecId::CANCUN).then_some(B256::repeat_byte(0xbe)),
        slot_number: from(SpecId::AMSTERDAM).then_some(1_000 + number),
        ..Header::default()
    }
}

/// Results on which all ways agreed.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) blocks: Vec<Verdict>,
}

impl Proof {
    /// Result of the last block, which must be valid.
    pub(crate) fn last(&self) -> &Ended {
        self.block(self.blocks.len() - 1)
    }

    pub(crate) fn block(&self, index: usize) -> &Ended {
        self.blocks[index].as_ref().expect("a valid block")
    }

    pub(crate) fn account(&self, address: Address) -> Option<&GenesisAccount> {
        self.last().state.get(&address)
    }

    pub(crate) fn balance(&self, address: Address) -> U256 {
        self.account(address).map_or(U256::ZERO, |account| account.balance)
    }

    pub(crate) fn nonce(&self, address: Address) -> u64 {
        self.account(address).map_or(0, |account| account.nonce)
    }

    pub(crate) fn slot(&self, address: Address, slot: u64) -> U256 {
        let slots = self.account(address).map_or(&[][..], |account| &account.storage);
        slots.iter().find(|(key, _)| *key == U256::from(slot)).map_or(U256::ZERO, |(_, value)| *value)
    }

    pub(crate) fn gas(&self, index: usize) -> u64 {
        self.last().outcomes[index].gas_used()
    }

    pub(crate) fn succeeded(&self, index: usize) -> bool {
        self.last().outcomes[index].is_success()
    }
}

impl Case {
    /// A case under the rules of a hard fork. From Prague on, the contracts of the system's requests exist, and return
    /// none.
    pub(crate) fn new(fork: &str) -> Self {
        let rules = ChainSpec::named(fork).expect("a fork");
        let mut genesis = Vec::new();
        for (_, address) in rules.request_calls(rules.spec(&header(&rules, 1))) {
            let (address, code) = (*address, Some(Bytes::from_static(&[0])));
            genesis.push(GenesisAccount { address, nonce: 1, code, ..GenesisAccount::default() });
        }
        Self { rules, genesis, ancestors: Ancestors::new(), blocks: Vec::new() }
    }

    pub(crate) fn with(mut self, accounts: impl IntoIterator<Item = GenesisAccount>) -> Self {
        self.genesis.extend(accounts);
        self
    }

    /// Adds a block of `txs` whose header satisfies the rules.
    pub(crate) fn block(self, txs: impl IntoIterator<Item = TxEnv>) -> Self {
        self.block_with(txs, |_| ())
    }

    /// [`Self::block`], changed by `change`.
    pub(crate) fn block_with(mut self, txs: impl IntoIterator<Item = TxEnv>, change: impl FnOnce(&mut Body)) -> Self {
        let number = 10 + self.blocks.len() as u64;
        let mut body = Body {
            header: header(&self.rules, number),
            txs: txs.into_iter().collect(),
            ommers: Vec::new(),
            withdrawals: None,
        };
        change(&mut body);
        self.blocks.push(body);
        self
    }

    pub(crate) fn engine(&self, way: &Way) -> Engine {
        self.engine_with_fast_path(way, true)
    }

    pub(crate) fn engine_with_fast_path(&self, way: &Way, fast_path: bool) -> Engine {
        self.build(way, fast_path, true)
    }

    fn build(&self, way: &Way, fast_path: bool, access_lists: bool) -> Engine {
        let memory = way.cached.map_or(Memory::Resident, |bytes| Memory::Cached { bytes });
        let store = way.disk.as_ref().map_or_else(|| StoreConfig::new(Backend::Mem), SlowDisk::store);
        let mut engine = Engine::builder()
            .with_store(store.with_memory(memory))
            .with_force_parallel(way.all_workers)
            .with_tuning(Tuning::new().with_fast_path(fast_path).with_traces(Traces::Checked))
            .with_chain(self.rules.clone())
            .with_executor(way.executor)
            .with_threads(way.threads)
            .with_schedule_seed(way.seed)
            .with_access_lists(access_lists)
            .build()
            .expect("an engine in memory");
        engine.genesis(self.genesis.iter().cloned()).expect("a sound genesis");
        engine.set_ancestors(self.ancestors.clone());
        engine
    }

    /// ParaLyze's predictions, with simulation whatever its cost: for `Hints::Predict` the engine would leave such a
    /// block to Block-STM.
    fn predicted(&self, engine: &Engine, body: &Body) -> AccessSets<StateKey> {
        let cfg = self.rules.cfg(self.rules.spec(&body.header), body.header.timestamp);
        let mut batch = Batch::new();
        let txs: Vec<&TxEnv> = body.txs.iter().collect();
        ParaLyze::new(Salt::new(1), cfg).analyse(engine.state(), &self.rules.env(&body.header), &txs, &mut batch);
        batch.sets().clone()
    }

    /// Runs the blocks, up to and including the first invalid one. `perfect` holds true hints, block by block.
    pub(crate) fn run(&self, way: &Way, perfect: &[AccessSets<StateKey>]) -> (Vec<Verdict>, Vec<RunStats>) {
        self.run_on(self.engine(way), way, perfect, &[])
    }

    /// Like [`Self::run`], on `engine` and with the artefacts of each block.
    fn run_on(
        &self,
        mut engine: Engine,
        way: &Way,
        perfect: &[AccessSets<StateKey>],
        artefacts: &[Artefacts],
    ) -> (Vec<Verdict>, Vec<RunStats>) {
        let (mut verdicts, mut all) = (Vec::new(), Vec::new());
        for (index, body) in self.blocks.iter().enumerate() {
            let sets = match &way.hints {
                Hint::Predict => Some(self.predicted(&engine, body)),
                hints => perfect.get(index).and_then(|perfect| hints.sets(perfect)),
            };
            let hints = match (&way.hints, artefacts.get(index)) {
                (Hint::AccessList, Some(Artefacts { list: Some(rlp), .. })) => {
                    Hints::AccessList { rlp, hash: keccak256(rlp) }
                }
                (Hint::Exceptions, Some(artefacts)) => Hints::Exceptions(&artefacts.exceptions),
                _ => sets.as_ref().map_or(Hints::None, Hints::Sets),
            };
            let executed = match engine.execute_block(&body.payload(), hints) {
                Ok(executed) => executed,
                Err(error) => {
                    assert!(!matches!(error, BlockError::Engine(_)), "{way:?}: {error}");
                    verdicts.push(Err(format!("{error:?}")));
                    break;
                }
            };
            let merkleized = engine.merkleize(executed).expect("a root");
            let committed = engine.commit(merkleized).expect("a commit");
            let block = committed.block;
            let stats = block.stats().run;
            assert_bounded(way, body.txs.len(), &stats);
            let (gas_used, receipts_root, logs_bloom) = (block.gas_used(), block.receipts_root(), block.logs_bloom());
            let requests = block.requests().map(<[Bytes]>::to_vec);
            let access_list = block.access_list().map(|list| list.rlp().clone());
            let (_, outcomes) = block.into_outcomes();
            let (state, root) = (engine.state().dump().expect("a sound state"), committed.state_root);
            let ended = Ended { outcomes, gas_used, receipts_root, logs_bloom, requests, access_list, state, root };
            verdicts.push(Ok(ended));
            all.push(stats);
        }
        (verdicts, all)
    }

    /// True access sets of every transaction; of an invalid block, those of the transactions before the first invalid
    /// one.
    pub(crate) fn perfect(&self) -> Vec<AccessSets<StateKey>> {
        let mut engine = self.engine(&Way::sequential());
        let mut all = Vec::new();
        for body in &self.blocks {
            let payload = body.payload();
            let mut sets = match engine.true_sets(&payload) {
                Ok(sets) => sets,
                Err(BlockError::InvalidTransaction { index, .. } | BlockError::GasLimit { index, .. }) => {
                    let valid = RecoveredBlock { txs: &payload.txs[..index], ..payload };
                    engine.true_sets(&valid).expect("the earlier transactions are valid")
                }
                Err(error) => panic!("{error}"),
            };
            while sets.len() < body.txs.len() {
                let caller = StateKey::Basic(body.txs[sets.len()].caller);
                sets.push([(caller, phalanx::access::Access::Write)]);
            }
            all.push(sets);
            let Ok(executed) = engine.execute_block(&payload, Hints::None) else { break };
            let merkleized = engine.merkleize(executed).expect("a root");
            let committed = engine.commit(merkleized).expect("a commit");
            committed.write.wait().expect("durable");
        }
        all
    }

    /// Artefacts of each block; an invalid one has no list.
    fn artefacts(&self) -> Vec<Artefacts> {
        let mut engine = self.engine(&Way::sequential());
        let mut all = Vec::new();
        for body in &self.blocks {
            let exceptions = engine.exceptions(&body.payload()).unwrap_or_default();
            let Ok(executed) = engine.execute_block(&body.payload(), Hints::None) else {
                all.push(Artefacts { exceptions, list: None });
                break;
            };
            let list = executed.block().access_list().map(|list| list.rlp().clone());
            all.push(Artefacts { exceptions, list });
            let merkleized = engine.merkleize(executed).expect("a root");
            let committed = engine.commit(merkleized).expect("a commit");
            committed.write.wait().expect("durable");
        }
        all
    }

    /// Compares all `ways` with sequential execution, and that with stock revm on a plain map.
    pub(crate) fn check(&self, ways: &[Way]) -> Result<Proof, String> {
        let (blocks, _) = self.run(&Way::sequential(), &[]);
        let oracle = oracle::run(self);
        for (number, (ours, revm)) in blocks.iter().zip(&oracle).enumerate() {
            let same = match (ours, revm) {
                (Ok(ours), Ok((outcomes, state, list))) => {
                    let gas_used = gas_used(self.rules.spec(&self.blocks[number].header), outcomes);
                    let outcomes = outcomes.iter().cloned().map(Outcome::Executed).collect();
                    let access_list = Some(list.clone());
                    let revm = Ok(Ended { outcomes, gas_used, access_list, state: state.clone(), ..ours.clone() });
                    let same = Ok::<_, String>(ours) == revm.as_ref().map_err(String::clone);
                    if !same {
                        let what = difference(Some(&Ok(ours.clone())), Some(&revm));
                        return Err(format!(
                            "block {number}: the engine's sequential executor as `ours`, stock revm as `sequential`\n{what}"
                        ));
                    }
                    true
                }
                (Err(ours), Err(revm)) => ours == revm,
                _ => false,
            };
            if !same {
                return Err(format!("block {number}: sequential says {ours:?}, stock revm {revm:?}"));
            }
        }
        let (perfect, artefacts) = (self.perfect(), self.artefacts());
        self.check_foreign(&blocks, &perfect)?;
        // From Amsterdam on every block has its list.
        let has_list = |body: &Body| self.rules.spec(&body.header).is_enabled_in(SpecId::AMSTERDAM);
        let unlisted = blocks.iter().zip(&self.blocks).map(|(verdict, body)| {
            verdict.clone().map(|ended| Ended { access_list: ended.access_list.filter(|_| has_list(body)), ..ended })
        });
        let unlisted: Vec<Verdict> = unlisted.collect();
        let txs: usize = self.blocks.iter().map(|body| body.txs.len()).sum();
        for (number, way) in ways.iter().enumerate() {
            // Every way in some cases: an engine that produces lists reads revm's journal and takes no shortcuts past
            // it.
            let lists = (number + txs).is_multiple_of(3) || matches!(way.hints, Hint::AccessList);
            let (ours, _) = self.run_on(self.build(way, true, lists), way, &perfect, &artefacts);
            let truth = if lists { &blocks } else { &unlisted };
            if ours != *truth {
                let number = ours.iter().zip(truth).position(|(ours, truth)| ours != truth);
                let number = number.unwrap_or(ours.len().min(truth.len()));
                let (ours, truth) = (ours.get(number), truth.get(number));
                return Err(format!("{way:?}, block {number}:\n{}", difference(ours, truth)));
            }
        }
        Ok(Proof { blocks })
    }

    /// Runs the blocks in every way, all of which must agree.
    pub(crate) fn prove(&self) -> Proof {
        self.check(&every_way()).unwrap_or_else(|what| panic!("{what}"))
    }
}

impl core::fmt::Display for Case {
    /// Prints everything that a failure needs to be reproduced, in few lines.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let spec = self.blocks.first().map(|body| self.rules.spec(&body.header));
        writeln!(f, "spec {spec:?}")?;
        for account in &self.genesis {
            writeln!(f, "  {account:?}")?;
        }
        for Body { header, txs, withdrawals, .. } in &self.blocks {
            let (number, beneficiary, base_fee) = (header.number, header.beneficiary, header.base_fee_per_gas);
            writeln!(f, "block {number} of {beneficiary}, base fee {base_fee:?}, gas limit {}", header.gas_limit)?;
            for (index, tx) in txs.iter().enumerate() {
                writeln!(f, "  {index}: {tx:?}")?;
            }
            writeln!(f, "  {withdrawals:?}")?;
        }
        Ok(())
    }
}

/// Gas used of a block's header, from the results of its transactions.
fn gas_used(spec: SpecId, results: &[ExecutionResult]) -> u64 {
    let sum = |of: fn(&ResultGas) -> u64| results.iter().map(|result| of(result.gas())).sum::<u64>();
    if !spec.is_enabled_in(SpecId::AMSTERDAM) {
        return sum(ResultGas::tx_gas_used);
    }
    // Before refunds, in two dimensions (EIP-7778, 8037).
    let execution = |gas: &ResultGas| (gas.total_gas_spent() - gas.state_gas_spent_final()).max(gas.floor_gas());
    sum(execution).max(sum(ResultGas::state_gas_spent_final))
}

/// Asserts the promised bound on the executions of a valid block.
fn assert_bounded(way: &Way, txs: usize, stats: &RunStats) {
    let most = match (way.executor, stats.fallback) {
        (Executor::Sequential, _) => 0,
        (Executor::Dag, false) => txs,
        (Executor::Dag, true) => MAX_STM_EXECUTIONS * txs,
        (Executor::BlockStm, _) => (MAX_STM_EXECUTIONS - 1) * txs,
    };
    assert!(stats.reexecutions <= most, "{way:?}: {stats:?} for {txs} transactions");
    assert!(way.cached.is_some() || (stats.parked, stats.waits) == (0, 0), "{way:?}: {stats:?}");
}

/// Describes the first differences of two verdicts.
fn difference(ours: Option<&Verdict>, truth: Option<&Verdict>) -> String {
    let (Some(Ok(ours)), Some(Ok(truth))) = (ours, truth) else {
        let show =
            |verdict: Option<&Verdict>| verdict.map(|v| v.as_ref().map(|ended| ended.root).map_err(Clone::clone));
        return format!("ours {:?}, sequential {:?}", show(ours), show(truth));
    };
    let mut lines = Vec::new();
    for (index, (a, b)) in ours.outcomes.iter().zip(&truth.outcomes).enumerate().filter(|(_, (a, b))| a != b) {
        lines.push(format!("transaction {index}: ours {a:?}\n  sequential {b:?}"));
    }
    let addresses = ours.state.keys().chain(truth.state.keys()).collect::<std::collections::BTreeSet<_>>();
    for address in addresses {
        let (a, b) = (ours.state.get(address), truth.state.get(address));
        if a != b {
            lines.push(format!("account {address}: ours {a:?}\n  sequential {b:?}"));
        }
    }
    if let (Some(ours), Some(truth)) = (&ours.access_list, &truth.access_list)
        && ours != truth
    {
        let read = |mut rlp: &[u8]| Vec::<AccountChanges>::decode(&mut rlp).expect("a list");
        let (ours, truth) = (read(ours), read(truth));
        for (a, b) in ours.iter().zip(&truth).filter(|(a, b)| a != b).take(3) {
            lines.push(format!("listed: ours {a:?}\n  sequential {b:?}"));
        }
        lines.push(format!("listed accounts: ours {}, sequential {}", ours.len(), truth.len()));
    }
    if ours.root != truth.root {
        lines.push(format!("root: ours {}, sequential {}", ours.root, truth.root));
    }
    lines.join("\n")
}
