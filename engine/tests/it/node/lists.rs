//! Candidates that come with a block access list: a service executes them on it, and no list changes a result.

use super::{
    CHAIN, genesis,
    service::{self, commit, env, submit},
    wallet::{Call, address, signed},
};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use alloy_rlp::Decodable as _;
use parking_lot::Mutex;
use phalanx::{
    BlockAttributes, BlockSink, Edit, Edited, Engine, RootKind, Service, ServiceConfig, SinkBlock, SinkRefused,
    api::{Candidate, CommittedTip, ExecId, ExecOutcome, ExecutionEngine as _, Payload, Priority, Ticket, TxPolicy},
    chain::Parameters,
};
use std::sync::Arc;

const BLOCKS: u64 = 4;

/// Transactions of each block that wait for each other.
const CHAINED: u64 = 6;

/// Record of a block at the sink: its hash, its list, and the longest chain of its execution.
type Left = (B256, Bytes, usize);

#[derive(Debug, Default)]
struct Sink(Mutex<Vec<Left>>);

impl BlockSink for Sink {
    fn resumed(&self, _: &CommittedTip) {}

    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused> {
        let list = block.info.access_list().expect("the header has its hash").rlp().clone();
        self.0.lock().push((block.hash, list, block.info.stats().run.critical_path));
        Ok(())
    }
}

/// Transactions of a block: a contract, and payments of one account to itself and others.
fn txs(height: u64) -> Vec<Bytes> {
    // An account that stores its number, with the code STOP.
    let init = Bytes::from(vec![0x43, 0x5f, 0x55, 0x60, 0x01, 0x5f, 0xf3]);
    let deploy = Call { from: 1, nonce: height - 1, to: TxKind::Create, value: 0, data: init };
    let pay = |number| Call::to(0, (height - 1) * CHAINED + number, address(number % 3), 5);
    core::iter::once(deploy).chain((0..CHAINED).map(pay)).map(|call| signed(2, &call, vec![])).collect()
}

/// Executes and commits the blocks, each with the list that `list` names for it.
fn run(root: RootKind, list: impl Fn(usize) -> Option<Bytes>) -> (Vec<ExecOutcome>, Vec<Left>) {
    let funded: Vec<Address> = (0..4).map(address).collect();
    let times = [("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0), ("amsterdam", 0)];
    let file = genesis(&times, &funded);
    let chain = service::steady(&file).with_root(root);
    let mut engine = Engine::builder().with_threads(2).with_chain(chain).build().expect("an engine");
    engine.begin(&file).expect("a genesis");
    let sink = Arc::new(Sink::default());
    let config = ServiceConfig::default().with_sink(Arc::clone(&sink) as _);
    let service = Service::open(engine, config).expect("a service");
    let (mut parent, mut outcomes) = (ExecId::GENESIS, Vec::new());
    for height in 1..=BLOCKS {
        let payload = Payload::new(txs(height));
        let block = Candidate::new(CHAIN, parent, env(height), TxPolicy::Strict, payload.into());
        let block = list(height as usize - 1).into_iter().fold(block, Candidate::with_hints);
        outcomes.push(submit(&service, &block));
        commit(&service, &block);
        parent = block.id();
    }
    let left = core::mem::take(&mut *sink.0.lock());
    (outcomes, left)
}

#[test]
fn a_block_runs_on_the_list_that_comes_with_it() {
    for root in [RootKind::Twigs, RootKind::Ethereum] {
        let (outcomes, left) = run(root, |_| None);
        assert!(left.iter().all(|(_, _, chain)| *chain > 1), "payments of one account wait for each other: {left:?}");
        let (same, listed) = run(root, |at| Some(left[at].1.clone()));
        assert_eq!(same, outcomes);
        for ((hash, list, chain), expected) in listed.iter().zip(&left) {
            assert_eq!((hash, list, *chain), (&expected.0, &expected.1, 1), "no transaction waits for another");
        }
    }
}

#[test]
fn no_list_changes_a_result() {
    let (outcomes, left) = run(RootKind::Twigs, |_| None);
    let decode = |list: &Bytes| Vec::<AccountChanges>::decode(&mut &list[..]).expect("a list");
    let encode = |list: &Vec<AccountChanges>| Bytes::from(alloy_rlp::encode(list));
    let lies: [&dyn Fn(&Bytes) -> Bytes; 6] = [
        &|_| Bytes::new(),
        &|_| Bytes::from_static(&[0xc0]),
        &|list| list.slice(..list.len() - 1),
        // Of another block.
        &|_| left[0].1.clone(),
        &|list| {
            let mut list = decode(list);
            list.pop();
            encode(&list)
        },
        &|list| {
            let mut list = decode(list);
            let paid = list.iter_mut().rev().find(|account| account.balance_changes.len() > 2).expect("it pays");
            paid.balance_changes.last_mut().expect("a change").post_balance += U256::ONE;
            encode(&list)
        },
    ];
    for (number, lie) in lies.iter().enumerate() {
        let (same, lied) = run(RootKind::Twigs, |at| Some(lie(&left[at].1)));
        assert_eq!(same, outcomes, "lie {number}");
        for (found, expected) in lied.iter().zip(&left) {
            assert_eq!((found.0, &found.1), (expected.0, &expected.1), "lie {number}");
        }
    }
}

/// An invalid transaction is the block's own fault, with a list and without.
#[test]
fn a_list_does_not_hide_an_invalid_transaction() {
    let (_, left) = run(RootKind::Twigs, |_| None);
    let funded: Vec<Address> = (0..4).map(address).collect();
    let times = [("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0), ("amsterdam", 0)];
    let file = genesis(&times, &funded);
    let mut engine = Engine::builder().with_threads(2).with_chain(service::steady(&file)).build().expect("an engine");
    engine.begin(&file).expect("a genesis");
    let service = Service::open(engine, ServiceConfig::default()).expect("a service");
    let mut txs = txs(1);
    txs.swap(2, 3);
    let block = Candidate::new(CHAIN, ExecId::GENESIS, env(1), TxPolicy::Strict, Payload::new(txs).into());
    let mut failures = Vec::new();
    for list in [None, Some(left[0].1.clone())] {
        let block = list.into_iter().fold(block.clone(), Candidate::with_hints);
        service.submit(Ticket(1), block, Priority::Decided).expect("accepted");
        failures.push(format!("{:?}", service::events(&service)));
    }
    assert!(failures[0].contains("Transaction { index: 2 }"), "{failures:?}");
    assert_eq!(failures[0], failures[1]);
}

/// Edits of a chain for development cost no gas, and are no reason to refuse their block.
#[test]
fn edits_are_not_bounded_by_the_blocks_gas() {
    let times = [("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0), ("amsterdam", 0)];
    let file = genesis(&times, &[address(0)]);
    let chain = service::steady(&file);
    let parameters = Parameters { development: true, ..chain.parameters().clone() };
    let chain = chain.with_parameters(parameters);
    let mut engine = Engine::builder().with_threads(2).with_chain(chain).build().expect("an engine");
    engine.begin(&file).expect("a genesis");
    let service = Service::open(engine, ServiceConfig::default()).expect("a service");
    let edit = |number: u64| Edit {
        account: Address::from_word(B256::from(U256::from(0x1000 + number))),
        value: Edited::Balance(U256::ONE),
    };
    let more = env(1).gas_limit / 2_000 + 100;
    let attributes = BlockAttributes { edits: Some((0..more).map(edit).collect()), ..BlockAttributes::default() };
    let pay = signed(2, &Call::to(0, 0, address(1), 5), vec![]);
    let payload = Payload::with_attributes(vec![pay], attributes.encode());
    let block = Candidate::new(CHAIN, ExecId::GENESIS, env(1), TxPolicy::Strict, payload.into());
    submit(&service, &block);
    commit(&service, &block);
}
