//! `ots_*`: what the explorer Otterscan asks for beside `eth_*`, at level 8 of its interface.
//!
//! There is no index of accounts: searches read blocks from a height on, and look at the accounts that their access lists name. What
//! they find are transactions of the account, to it, and those that create or change it.

use super::{
    api::{Api, Until},
    args::{self, Args, BlockRef},
    convert,
    error::{RpcError, simulated},
    parity,
    registry::Registry,
    traced::{Placed, room, visit},
};
use crate::store::{Block, Entry};
use ::phalanx::{chain::ChainSpec, eip7928::AccountChanges, revm::context_interface::result::ExecutionResult};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::Decodable as _;
use alloy_rpc_types_eth::{BlockTransactions, Transaction, TransactionReceipt};
use alloy_rpc_types_trace::{
    otterscan::{
        BlockDetails, ContractCreator, InternalIssuance, InternalOperation, OtsBlock, OtsBlockTransactions, OtsReceipt,
        OtsTransactionReceipt, TraceEntry, TransactionsWithReceipts,
    },
    parity::{Action, CallType, CreationMethod, LocalizedTransactionTrace, TraceOutput},
};
use revm_inspectors::otterscan::InternalOperationsInspector;
use std::sync::Arc;

/// Level of the interface.
const LEVEL: u64 = 8;

/// Maximum number of transactions of a page, as in Erigon.
const MAX_PAGE: usize = 25;

pub(super) fn register(registry: &mut Registry) {
    registry.instant("ots_getApiLevel", 0, |_, _| Ok(LEVEL));
    registry.light("ots_hasCode", 2, |api, args| {
        let account = api.state(args.block(1)?)?.account(&args.required(0, args::address)?);
        let account = account.map_err(crate::chain::StateUnread::from)?;
        Ok(account.is_some_and(|account| !account.is_empty_code_hash()))
    });
    registry.light("ots_getBlockDetails", 1, |api, args| details(api, args.required(0, args::number)?));
    registry
        .light("ots_getBlockDetailsByHash", 1, |api, args| details(api, BlockRef::Hash(args.required(0, args::hash)?)));
    registry.light("ots_getBlockTransactions", 3, page);
    registry.heavy("ots_getTransactionError", 1, error_of);
    registry.heavy("ots_getInternalOperations", 1, operations);
    registry.heavy("ots_traceTransaction", 1, |api, args| {
        let traces = parity::of_transaction(api, args.required(0, args::hash)?)?;
        Ok(traces.map(|traces| traces.iter().filter_map(entry).collect::<Vec<_>>()))
    });
    registry.heavy("ots_searchTransactionsBefore", 3, before);
    registry.heavy("ots_searchTransactionsAfter", 3, after);
    registry.heavy("ots_getTransactionBySenderAndNonce", 2, by_nonce);
    registry.heavy("ots_getContractCreator", 1, creator);
}

/// Number, or a plain number as Otterscan sends it.
fn size(args: &Args, place: usize) -> Result<usize, RpcError> {
    let size = args.required(place, args::count)?;
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

fn details(api: &Api, block: BlockRef) -> Result<Option<BlockDetails>, RpcError> {
    let Some(block) = api.block(block)? else { return Ok(None) };
    let fee = |(price, gas): (u128, u64)| U256::from(price).saturating_mul(U256::from(gas));
    let base = u128::from(block.head.header.base_fee_per_gas.unwrap_or_default());
    let tips = convert::tips(&block)?.into_iter().map(|(tip, gas)| (tip.saturating_add(base), gas));
    let fees = tips.map(fee).fold(U256::ZERO, U256::saturating_add);
    Ok(Some(BlockDetails::new(convert::block(&block, false)?, InternalIssuance::default(), fees)))
}

/// Transactions of a block: pages begin with the last ones.
fn page(api: &Api, args: &Args) -> Result<Option<OtsBlockTransactions>, RpcError> {
    let Some(block) = api.block(args.required(0, args::number)?)? else { return Ok(None) };
    let (number, size) = (size(args, 1)?, size(args, 2)?.min(MAX_PAGE));
    let count = block.entries.len();
    let end = count.saturating_sub(number.saturating_mul(size));
    let start = end.saturating_sub(size);
    let mut whole = convert::block(&block, false)?;
    let txs = (start as u64..).zip(&block.entries[start..end]);
    let shown = txs.clone().map(|(index, entry)| convert::transaction(&block.head, index, entry));
    whole.transactions = BlockTransactions::Full(shown.collect::<Result<_, _>>()?);
    let receipts = txs.map(|(index, entry)| receipt(&api.chain.spec, &block, index, entry));
    let mut fullblock = OtsBlock::from(whole);
    fullblock.transaction_count = count;
    Ok(Some(OtsBlockTransactions { fullblock, receipts: receipts.collect::<Result<_, _>>()? }))
}

/// A receipt without its logs.
fn receipt(chain: &ChainSpec, block: &Block, index: u64, entry: &Entry) -> Result<OtsTransactionReceipt, RpcError> {
    let receipt: TransactionReceipt = convert::receipt(chain, &block.head, index, entry)?;
    let receipt = receipt.map_inner(|inner| OtsReceipt {
        status: inner.status(),
        cumulative_gas_used: inner.cumulative_gas_used(),
        logs: None,
        logs_bloom: None,
        r#type: inner.tx_type() as u8,
    });
    Ok(OtsTransactionReceipt { receipt, timestamp: Some(block.head.header.timestamp) })
}

/// Runs a transaction of a block again. `None` if there is no such transaction.
fn again<T>(api: &Api, hash: B256, run: impl FnMut(&Placed<'_>) -> Result<T, RpcError>) -> Result<Option<T>, RpcError> {
    let Some((height, index, _)) = api.chain.transaction(&hash)? else { return Ok(None) };
    let block = api.chain.block(height)?.ok_or_else(RpcError::pruned)?;
    let mut run = run;
    let mut all = visit(api, &block, &mut room(api), |place| place == index, |placed, _| run(placed))?;
    Ok(all.pop())
}

/// Data that a transaction has reverted with; empty if it has not.
fn error_of(api: &Api, args: &Args) -> Result<Option<Bytes>, RpcError> {
    again(api, args.required(0, args::hash)?, |placed| {
        let called = placed.simulator.call(&placed.tx).map_err(|error| simulated(placed.tx.caller, &error))?;
        Ok(match called.result {
            ExecutionResult::Revert { output, .. } => output,
            _ => Bytes::new(),
        })
    })
}

fn operations(api: &Api, args: &Args) -> Result<Option<Vec<InternalOperation>>, RpcError> {
    again(api, args.required(0, args::hash)?, |placed| {
        let watched = placed.simulator.inspect(&placed.tx, InternalOperationsInspector::default());
        Ok(watched.map_err(|error| simulated(placed.tx.caller, &error))?.1.into_operations())
    })
}

/// A call, creation or destruction as Otterscan shows it.
fn entry(trace: &LocalizedTransactionTrace) -> Option<TraceEntry> {
    let trace = &trace.trace;
    let depth = u32::try_from(trace.trace_address.len()).unwrap_or(u32::MAX);
    match &trace.action {
        Action::Call(call) => {
            let has_value = !matches!(call.call_type, CallType::DelegateCall | CallType::StaticCall);
            let entry = TraceEntry::from_transaction_trace(trace)?;
            Some(TraceEntry { value: entry.value.filter(|_| has_value), ..entry })
        }
        Action::Create(create) => {
            let made = match &trace.result {
                Some(TraceOutput::Create(made)) => Some(made),
                _ => None,
            };
            let kind = if create.creation_method == CreationMethod::Create2 { "CREATE2" } else { "CREATE" };
            Some(TraceEntry {
                r#type: kind.into(),
                depth,
                from: create.from,
                to: made.map_or(Address::ZERO, |made| made.address),
                value: Some(create.value),
                input: create.init.clone(),
                output: made.map_or_else(Bytes::new, |made| made.code.clone()),
            })
        }
        Action::Selfdestruct(gone) => Some(TraceEntry {
            r#type: "SELFDESTRUCT".into(),
            depth,
            from: gone.address,
            to: gone.refund_address,
            value: Some(gone.balance),
            input: Bytes::new(),
            output: Bytes::new(),
        }),
        Action::Reward(_) => None,
    }
}

/// Blocks that may have something to do with an account, from a height on.
struct Search<'a> {
    api: &'a Api,
    address: Address,
    until: Until,
}

impl<'a> Search<'a> {
    fn new(api: &'a Api, address: Address) -> Self {
        Self { api, address, until: api.until() }
    }

    /// A block with what it changes of the account. `None` if the block's access list lacks the account.
    fn look(&self, height: u64) -> Result<Option<(Arc<Block>, AccountChanges)>, RpcError> {
        self.until.check()?;
        let head = self.api.chain.head_at(height)?.ok_or_else(RpcError::pruned)?;
        let mut changes = AccountChanges::new(self.address);
        if !head.access_list.is_empty() {
            let all = Vec::<AccountChanges>::decode(&mut &head.access_list[..])
                .map_err(|error| RpcError::internal(format!("the access list of block {height}: {error}")))?;
            match all.into_iter().find(|account| account.address == self.address) {
                Some(account) => changes = account,
                None => return Ok(None),
            }
        }
        Ok(self.api.chain.block(height)?.map(|block| (block, changes)))
    }

    /// Places of a block's transactions that are of the account, to it, or change it.
    fn places(&self, block: &Block, changes: &AccountChanges) -> Result<Vec<usize>, RpcError> {
        let slots = changes.storage_changes.iter().flat_map(|slot| &slot.changes).map(|one| one.block_access_index);
        let balances = changes.balance_changes.iter().map(|one| one.block_access_index);
        let nonces = changes.nonce_changes.iter().map(|one| one.block_access_index);
        let codes = changes.code_changes.iter().map(|one| one.block_access_index);
        let changed: Vec<u64> = slots.chain(balances).chain(nonces).chain(codes).map(|index| index.0).collect();
        let mut places = Vec::new();
        for (place, entry) in block.entries.iter().enumerate() {
            let is_named = entry.sender == self.address || entry.created() == Some(self.address);
            // Index 0 is what precedes the transactions.
            let is_changed = changed.contains(&(place as u64 + 1));
            if is_named || is_changed || convert::envelope(entry)?.to() == Some(self.address) {
                places.push(place);
            }
        }
        Ok(places)
    }

    /// Transactions of blocks, in the order of the heights, of whole blocks until a page is full. With true if blocks are left.
    fn page(&self, heights: impl Iterator<Item = u64>, size: usize) -> Result<(Vec<Found>, bool), RpcError> {
        let (mut found, mut heights) = (Vec::new(), heights.peekable());
        while found.len() < size
            && let Some(height) = heights.next()
        {
            let Some((block, changes)) = self.look(height)? else { continue };
            let mut places = self.places(&block, &changes)?;
            places.reverse();
            for place in places {
                let (index, entry) = (place as u64, &block.entries[place]);
                let tx = convert::transaction(&block.head, index, entry)?;
                found.push((tx, receipt(&self.api.chain.spec, &block, index, entry)?));
            }
        }
        Ok((found, heights.peek().is_some()))
    }
}

type Found = (Transaction, OtsTransactionReceipt);

fn search(args: &Args) -> Result<(Address, u64, usize), RpcError> {
    let (address, from, size) = (args.required(0, args::address)?, args.required(1, args::count)?, size(args, 2)?);
    if size > MAX_PAGE {
        return Err(RpcError::server(format!("max allowed page size: {MAX_PAGE}")));
    }
    Ok((address, from, size))
}

fn answer(found: Vec<Found>, first_page: bool, last_page: bool) -> TransactionsWithReceipts {
    let (txs, receipts) = found.into_iter().unzip();
    TransactionsWithReceipts { txs, receipts, first_page, last_page }
}

/// The newest transactions below a height, or of all with zero; the newest comes first.
fn before(api: &Api, args: &Args) -> Result<TransactionsWithReceipts, RpcError> {
    let (address, from, size) = search(args)?;
    let (first, head) = (api.chain.first()?, api.chain.height());
    let top = if from == 0 { head } else { (from - 1).min(head) };
    let (found, more) = Search::new(api, address).page((first..=top).rev(), size)?;
    Ok(answer(found, from == 0, !more))
}

/// The oldest transactions above a height, or of all with zero; the newest of them comes first.
fn after(api: &Api, args: &Args) -> Result<TransactionsWithReceipts, RpcError> {
    let (address, from, size) = search(args)?;
    let start = if from == 0 { api.chain.first()? } else { from.saturating_add(1).max(api.chain.first()?) };
    let (mut found, more) = Search::new(api, address).page(start..=api.chain.height(), size)?;
    found.sort_by_key(|(tx, _)| core::cmp::Reverse((tx.block_number, tx.transaction_index)));
    Ok(answer(found, !more, from == 0))
}

/// Hash of the transaction of a sender with a nonce.
fn by_nonce(api: &Api, args: &Args) -> Result<Option<B256>, RpcError> {
    let (sender, nonce) = (args.required(0, args::address)?, args.required(1, args::count)?);
    let account = api.state(BlockRef::Latest)?.account(&sender).map_err(crate::chain::StateUnread::from)?;
    if account.is_none_or(|account| account.nonce <= nonce) {
        return Ok(None);
    }
    let search = Search::new(api, sender);
    for height in (api.chain.first()?..=api.chain.height()).rev() {
        let Some((block, _)) = search.look(height)? else { continue };
        for entry in block.entries.iter().rev().filter(|entry| entry.sender == sender) {
            match convert::envelope(entry)?.nonce().cmp(&nonce) {
                core::cmp::Ordering::Equal => return Ok(Some(entry.hash)),
                // Nonces only grow.
                core::cmp::Ordering::Less => return Ok(None),
                core::cmp::Ordering::Greater => {}
            }
        }
    }
    Ok(None)
}

/// Transaction that has created a contract, and the account that has done so.
fn creator(api: &Api, args: &Args) -> Result<Option<ContractCreator>, RpcError> {
    let address = args.required(0, args::address)?;
    let account = api.state(BlockRef::Latest)?.account(&address).map_err(crate::chain::StateUnread::from)?;
    if account.is_none_or(|account| account.is_empty_code_hash()) {
        return Ok(None);
    }
    let search = Search::new(api, address);
    for height in (api.chain.first()?..=api.chain.height()).rev() {
        let Some((block, changes)) = search.look(height)? else { continue };
        if let Some(entry) = block.entries.iter().find(|entry| entry.created() == Some(address)) {
            return Ok(Some(ContractCreator { hash: entry.hash, creator: entry.sender }));
        }
        let made = changes.code_changes.iter().find(|change| !change.new_code.is_empty());
        let place = made.and_then(|change| usize::try_from(change.block_access_index.0.checked_sub(1)?).ok());
        let Some(entry) = place.and_then(|place| block.entries.get(place)) else { continue };
        let traces = parity::of_transaction(api, entry.hash)?.unwrap_or_default();
        let from = traces.iter().find_map(|trace| match (&trace.trace.action, &trace.trace.result) {
            (Action::Create(create), Some(TraceOutput::Create(made))) if made.address == address => Some(create.from),
            _ => None,
        });
        // A delegation is code as well, and no one has created it.
        if let Some(creator) = from {
            return Ok(Some(ContractCreator { hash: entry.hash, creator }));
        }
    }
    Ok(None)
}
