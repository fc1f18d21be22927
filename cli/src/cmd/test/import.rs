//! A chain with forks: each imported block is judged on the state of its parent.

use super::mpt::state_root;
use alloy_consensus::{
    Block, EMPTY_ROOT_HASH, Eip658Value, Header, ReceiptEnvelope, TxEnvelope, proofs::calculate_receipt_root,
};
use alloy_rlp::Decodable as _;
use phalanx::{
    BlockAccessList, BlockError, Engine, Error, Executed, Executor, Hints, RecoveredBlock, RootKind, TooWide,
    chain::{ChainSpec, HeaderError, PreStep},
    revm::{
        context::TxEnv,
        primitives::{B256, U256, map::HashMap},
    },
};
use phalanx_lab::run::engines::{self, Setup};
use phalanx_workloads::fixtures::{Alloc, recover_senders, tx_env};
use std::{collections::VecDeque, sync::Arc};

/// Maximum number of accounts and slots in all kept states, some hundred bytes each. Tests with thousands of blocks follow
/// one chain, and tests with forks have few blocks.
const MAX_KEPT: usize = 4_000_000;

/// Reason why a block does not enter the chain.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// Invalid, by this rule.
    #[error("{0}")]
    Invalid(String),
    /// Valid by the rules, or not: the engine does not hold its numbers.
    #[error(transparent)]
    TooWide(#[from] TooWide),
    /// Failure of the engine, not of the block.
    #[error("internal: {0}")]
    Internal(#[from] Error),
    /// The parent's state was evicted; the block is not judged.
    #[error("internal: it forks off a state that was too large to be kept")]
    Evicted,
}

fn invalid(rule: impl ToString) -> Refusal {
    Refusal::Invalid(rule.to_string())
}

/// A block of the chain.
#[derive(Debug)]
struct Known {
    header: Header,
    ommers: Vec<B256>,
    /// Total difficulty up to and including this block.
    total_difficulty: U256,
    /// State after the block; `None` once evicted.
    state: Option<Arc<Alloc>>,
    has_child: bool,
}

/// All valid blocks, and the engine on one of them.
pub(super) struct Chain {
    spec: ChainSpec,
    setup: Setup,
    blocks: HashMap<B256, Known>,
    engine: Option<(B256, Engine)>,
    kept: Kept,
    /// Hash of the last imported block.
    pub(super) last: B256,
}

/// Blocks with kept states, oldest first, with the sizes of the states.
#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<(B256, usize)>,
    size: usize,
}

impl Kept {
    /// Adds a block, and returns the blocks whose states are to be evicted; never the added one.
    fn add(&mut self, hash: B256, state: &Alloc) -> Vec<B256> {
        let size = state.values().map(|account| 1 + account.storage.len()).sum();
        self.blocks.push_back((hash, size));
        self.size += size;
        let mut evicted = Vec::new();
        while self.size > MAX_KEPT && self.blocks.len() > 1 {
            if let Some((hash, size)) = self.blocks.pop_front() {
                self.size -= size;
                evicted.push(hash);
            }
        }
        evicted
    }
}

impl Chain {
    /// A chain that begins with `genesis`.
    pub(super) fn new(spec: ChainSpec, setup: Setup, genesis: Header, state: Alloc) -> Self {
        let hash = genesis.hash_slow();
        let total_difficulty = genesis.difficulty;
        let mut chain =
            Self { spec, setup, blocks: HashMap::default(), engine: None, kept: Kept::default(), last: hash };
        chain.insert(hash, genesis, Vec::new(), total_difficulty, state);
        chain
    }

    fn insert(&mut self, hash: B256, header: Header, ommers: Vec<B256>, total_difficulty: U256, state: Alloc) {
        for evicted in self.kept.add(hash, &state) {
            if let Some(known) = self.blocks.get_mut(&evicted) {
                known.state = None;
            }
        }
        let known = Known { header, ommers, total_difficulty, state: Some(Arc::new(state)), has_child: false };
        self.blocks.insert(hash, known);
        self.last = hash;
    }

    /// The state after a block.
    pub(super) fn state(&self, hash: &B256) -> Option<Arc<Alloc>> {
        self.blocks.get(hash).and_then(|known| known.state.clone())
    }

    /// Tips with the greatest total difficulty.
    pub(super) fn best(&self) -> Vec<B256> {
        let most = self.blocks.values().map(|known| known.total_difficulty).max();
        let tips = self.blocks.iter().filter(|(_, known)| !known.has_child && Some(known.total_difficulty) == most);
        tips.map(|(hash, _)| *hash).collect()
    }

    /// Judges a block. A valid block enters the chain, and its hash is returned.
    pub(super) fn import(&mut self, rlp: &[u8]) -> Result<B256, Refusal> {
        let block = decode(rlp)?;
        let header = &block.header;
        let hash = header.hash_slow();
        if self.blocks.contains_key(&hash) {
            return Ok(hash);
        }
        let parent = self.blocks.get(&header.parent_hash).ok_or_else(|| invalid("its parent is not known"))?;
        let total_difficulty = parent.total_difficulty.saturating_add(header.difficulty);
        self.spec.validate_header(header, &parent.header, Some(parent.total_difficulty)).map_err(
            |rule| match rule {
                HeaderError::TooWide(wide) => wide.into(),
                rule => invalid(rule),
            },
        )?;
        let (ommers, withdrawals) = (&block.body.ommers, block.body.withdrawals.as_ref().map(|list| list.as_slice()));
        let txs = &block.body.transactions;
        self.spec.validate_body(header, txs, ommers, withdrawals, Some(rlp.len())).map_err(invalid)?;
        let ancestor = |hash| self.blocks.get(&hash).map(|known| (known.header.clone(), known.ommers.clone()));
        self.spec.validate_ommers(header, ommers, ancestor).map_err(invalid)?;
        let txs = self.check_transactions(header, txs)?;

        let payload = RecoveredBlock { header, txs: &txs, ommers, withdrawals };
        let parent_hash = header.parent_hash;
        let state = self.state(&parent_hash).ok_or(Refusal::Evicted)?;
        let mut engine = self.engine_on(parent_hash, &state)?;
        // With predictions Block-STM would take most of these blocks over; with the true sets they run on the DAG. An invalid
        // block has none.
        let on_dag = self.setup.executor == Executor::Dag;
        let sets = on_dag.then(|| engine.true_sets(&payload).ok()).flatten();
        let hints = sets.as_ref().map_or(Hints::Predict, Hints::Sets);
        let executed = engine.execute_block(&payload, hints).map_err(|error| match error {
            BlockError::Engine(Error::TooWide(wide)) => wide.into(),
            BlockError::Engine(error) => Refusal::Internal(error),
            other => invalid(other),
        })?;
        let receipts_root = match executed.block().receipts_root() {
            Some(root) => root,
            None => self.receipts_root_with_states(&payload, &executed, &state)?,
        };
        compare(header, &executed, receipts_root)?;
        let executed =
            match executed.block().access_list().filter(|_| on_dag && header.block_access_list_hash.is_some()) {
                // As a validator that received the list: the compared root is this execution's.
                Some(list) => {
                    let (rlp, hash) = (list.rlp().clone(), list.hash());
                    let listed =
                        engine.execute_block(&payload, Hints::AccessList { rlp: &rlp, hash }).map_err(invalid)?;
                    compare(header, &listed, receipts_root)?;
                    listed
                }
                None => executed,
            };
        engines::commit(&mut engine, executed)?;
        let (state, root) = (engines::dump(&engine)?, engine.state().root());
        if root != header.state_root {
            return Err(Refusal::Invalid(format!("the state root is {root}, the header says {}", header.state_root)));
        }
        self.engine = Some((hash, engine));
        if let Some(parent) = self.blocks.get_mut(&parent_hash) {
            parent.has_child = true;
        }
        let ommers = ommers.iter().map(Header::hash_slow).collect();
        self.insert(hash, block.header, ommers, total_difficulty, state);
        Ok(hash)
    }

    fn check_transactions(&self, header: &Header, txs: &[TxEnvelope]) -> Result<Vec<TxEnv>, Refusal> {
        let spec = self.spec.spec(header);
        for (index, tx) in txs.iter().enumerate() {
            self.spec.validate_tx(spec, tx).map_err(|rule| invalid(format!("transaction {index}: {rule}")))?;
        }
        let senders = recover_senders(txs).into_iter().enumerate();
        let tx = |((index, sender), tx): ((usize, Option<_>), &TxEnvelope)| {
            sender
                .map(|sender| tx_env(tx, sender))
                .ok_or_else(|| invalid(format!("transaction {index}: its signature belongs to no key")))
        };
        senders.zip(txs).map(tx).collect()
    }

    /// Takes the engine out, on the state of block `hash`. The caller puts it back only after it has committed a valid block.
    fn engine_on(&mut self, hash: B256, state: &Alloc) -> Result<Engine, Error> {
        let mut engine = match self.engine.take() {
            Some((tip, engine)) if tip == hash => engine,
            _ => self.setup.chain(self.spec.clone().with_root(RootKind::Ethereum), state)?,
        };
        engine.set_ancestors(self.ancestors(hash));
        Ok(engine)
    }

    /// Hashes that BLOCKHASH returns in a child of block `hash`.
    fn ancestors(&self, mut hash: B256) -> phalanx::Ancestors {
        let mut ancestors = phalanx::Ancestors::new();
        while let Some(known) = self.blocks.get(&hash).filter(|_| ancestors.len() < engines::BLOCK_HASHES as usize) {
            ancestors.insert(known.header.number, hash);
            hash = known.header.parent_hash;
        }
        ancestors
    }

    /// Receipts root before Byzantium, where each receipt holds the state root after its transaction. The engine does not keep
    /// these roots, so each transaction runs as a block of its own.
    fn receipts_root_with_states(
        &self,
        payload: &RecoveredBlock<'_>,
        executed: &Executed,
        state: &Alloc,
    ) -> Result<B256, Refusal> {
        let mut receipts = executed.block().receipts();
        if receipts.is_empty() {
            return Ok(EMPTY_ROOT_HASH);
        }
        let spec = self.spec.spec(payload.header);
        let mut state = state.clone();
        for step in self.spec.pre_steps(payload.header, spec) {
            if let PreStep::Drain { accounts, refund } = step {
                drain(&mut state, accounts, refund);
            }
        }
        let (cfg, env) = (self.spec.cfg(spec, payload.header.timestamp), self.spec.env(payload.header));
        let mut engine = Setup::ORACLE.plain(cfg, &state)?;
        engine.set_ancestors(self.ancestors(payload.header.parent_hash));
        for (tx, receipt) in payload.txs.iter().zip(&mut receipts) {
            let one = engines::execute_one(&mut engine, Setup::ORACLE.executor, &env, tx)?;
            engines::commit(&mut engine, one)?;
            let root = state_root(&engines::dump(&engine)?);
            if let ReceiptEnvelope::Legacy(receipt) = receipt {
                receipt.receipt.status = Eip658Value::PostState(root);
            }
        }
        Ok(calculate_receipt_root(&receipts))
    }
}

fn drain(
    state: &mut Alloc,
    accounts: &[phalanx::revm::primitives::Address],
    refund: phalanx::revm::primitives::Address,
) {
    let mut sum = U256::ZERO;
    for account in accounts {
        if let Some(account) = state.get_mut(account) {
            sum = sum.saturating_add(core::mem::take(&mut account.balance));
        }
    }
    let refund = state.entry(refund).or_default();
    refund.balance = refund.balance.saturating_add(sum);
}

fn decode(rlp: &[u8]) -> Result<Block<TxEnvelope>, Refusal> {
    let mut rest = rlp;
    let block = Block::decode(&mut rest).map_err(|error| match TooWide::in_block(rlp) {
        Some(wide) => wide.into(),
        None => invalid(format!("it cannot be decoded: {error}")),
    })?;
    if rest.is_empty() { Ok(block) } else { Err(invalid(format!("{} bytes follow it", rest.len()))) }
}

/// Compares the outcome with the header, apart from the state root.
fn compare(header: &Header, executed: &Executed, receipts_root: B256) -> Result<(), Refusal> {
    let block = executed.block();
    let differ = |what: &str, ours: &dyn core::fmt::Display, its: &dyn core::fmt::Display| {
        Err(Refusal::Invalid(format!("{what} is {ours}, the header says {its}")))
    };
    if block.gas_used() != header.gas_used {
        return differ("the gas used", &block.gas_used(), &header.gas_used);
    }
    if receipts_root != header.receipts_root {
        return differ("the receipts root", &receipts_root, &header.receipts_root);
    }
    if block.logs_bloom() != header.logs_bloom {
        return differ("the logs bloom", &block.logs_bloom(), &header.logs_bloom);
    }
    let text = |hash: Option<B256>| hash.map_or_else(|| "none".to_owned(), |hash| hash.to_string());
    // A header has the hash from Amsterdam on, and then a block has its list.
    let list = block.access_list().map(BlockAccessList::hash).filter(|_| header.block_access_list_hash.is_some());
    if list != header.block_access_list_hash {
        return differ("the hash of the block access list", &text(list), &text(header.block_access_list_hash));
    }
    if block.requests_hash() != header.requests_hash {
        return differ("the requests hash", &text(block.requests_hash()), &text(header.requests_hash));
    }
    Ok(())
}

/// Decodes the header of a genesis block in RLP.
pub(super) fn decode_genesis(rlp: &[u8]) -> Result<Header, Refusal> {
    decode(rlp).map(|block| block.header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::revm::primitives::Address;
    use phalanx_workloads::fixtures::Account;

    #[test]
    fn old_states_are_evicted_when_all_are_too_large() {
        let storage = (0..MAX_KEPT / 3).map(|slot| (U256::from(slot), U256::ONE)).collect();
        let state = Alloc::from([(Address::ZERO, Account { storage, ..Account::default() })]);
        let mut kept = Kept::default();
        let hash = B256::with_last_byte;
        assert!(kept.add(hash(1), &state).is_empty());
        assert!(kept.add(hash(2), &state).is_empty());
        assert_eq!(kept.add(hash(3), &state), [hash(1)]);
        assert!(kept.add(hash(4), &Alloc::new()).is_empty());
        assert_eq!(kept.add(hash(5), &state), [hash(2)]);
    }
}
