//! The node's own store behind a service: every block before it is visible, in order, and again after a crash.

use super::{
    service,
    wallet::{Call, address, signed},
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, TxKind};
use parking_lot::{Condvar, Mutex};
use phalanx::{
    BlockSink, Service, ServiceConfig, SinkBlock, SinkRefused,
    api::{
        BlockBudget, BlockEnv, Build as _, BuildRequest, Candidate, CommittedTip, EngineEvent, ExecId,
        ExecutionEngine as _, Failure, Payload, RetryCause, Ticket, TxPolicy, ViewAt,
    },
    pool::Pool,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Records what it gets.
#[derive(Debug, Default)]
struct Records {
    /// Heights and names of accepted blocks.
    blocks: Vec<(u64, ExecId)>,
    resumed: Vec<u64>,
    logs: usize,
    created: Vec<Address>,
    last: Option<(B256, Vec<Address>)>,
    /// Behaviour at the next block.
    mood: Mood,
}

#[derive(Clone, Copy, Debug, Default)]
enum Mood {
    #[default]
    Accepts,
    RefusesAt(u64),
    PanicsAt(u64),
}

#[derive(Debug, Default)]
struct Sink(Mutex<Records>);

impl BlockSink for Sink {
    fn resumed(&self, tip: &CommittedTip) {
        self.0.lock().resumed.push(tip.height);
    }

    fn needs_diff(&self) -> bool {
        true
    }

    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused> {
        let records = &mut *self.0.lock();
        let height = block.committed.height;
        match records.mood {
            Mood::RefusesAt(at) if at == height => return Err(SinkRefused),
            Mood::PanicsAt(at) if at == height => panic!("a bug in the node's store"),
            _ => {}
        }
        let header = block.header.expect("a whole block");
        assert_eq!((header.number, header.state_root), (height, block.committed.state_root));
        assert_eq!(header.receipts_root, block.outcome.receipts_root);
        assert_eq!(block.hash, header.hash_slow());
        assert_eq!(block.info.receipts().len(), block.hashes.len());
        assert_eq!((block.senders.len(), block.hashes.len()), (block.info.outcomes().len(), block.senders.len()));
        assert!(block.info.access_list().is_some(), "the engine makes them");
        records.logs += block.info.receipts().iter().map(|receipt| receipt.logs().len()).sum::<usize>();
        let created = block.info.outcomes().iter().filter_map(|outcome| outcome.result()?.created_address());
        records.created.extend(created);
        let diff = block.diff.as_ref().expect("it is needed");
        let touched = diff.accounts.keys().copied().collect();
        records.last = Some((block.committed.state_root, touched));
        records.blocks.push((height, block.committed.exec));
        Ok(())
    }
}

#[test]
fn a_sink_has_every_block_before_it_is_visible() {
    let file = service::forking();
    let folder = crate::kit::folder();
    let path = folder.path().join("store");
    let open = |sink: &Arc<Sink>| {
        let engine = {
            let chain = service::steady(&file);
            let store = phalanx::merkle::StoreConfig::new(phalanx::merkle::Backend::File(path.clone()));
            let builder = phalanx::Engine::builder().with_store(store).with_chain(chain).with_access_lists(true);
            let mut engine = builder.build().expect("an engine");
            engine.begin(&file).expect("a genesis");
            engine
        };
        let config = ServiceConfig::default().with_sink(Arc::clone(sink) as _);
        phalanx::Service::open(engine, config).expect("a service")
    };
    let sink = Arc::new(Sink::default());
    let service = open(&sink);
    // PUSH0 PUSH0 LOG0, and one byte of code.
    let init = Bytes::from_static(&[0x5f, 0x5f, 0xa0, 0x60, 0x01, 0x5f, 0xf3]);
    let block = |parent, height: u64| {
        let deploy = Call { from: 1, nonce: height - 1, to: TxKind::Create, value: 0, data: init.clone() };
        let txs = vec![signed(2, &deploy, vec![]), signed(2, &Call::to(0, height - 1, address(2), 1), vec![])];
        service::candidate(parent, height, txs, Bytes::new())
    };
    let one = block(ExecId::GENESIS, 1);
    service::submit(&service, &one);
    assert!(sink.0.lock().blocks.is_empty(), "not before it is decided");
    service::commit(&service, &one);
    assert_eq!(sink.0.lock().blocks, [(1, one.id())]);
    let two = block(one.id(), 2);
    let three = block(two.id(), 3);
    for next in [&two, &three] {
        service::submit(&service, next);
    }
    for mood in [Mood::RefusesAt(3), Mood::PanicsAt(2)] {
        sink.0.lock().mood = mood;
        service.commit(Ticket(5), three.id(), service::meta(&three)).expect("accepted");
        let events = service::events(&service);
        let refused = |event: &EngineEvent| {
            matches!(event, EngineEvent::Failed { ticket: Ticket(5), why: Failure::Retry(RetryCause::Sink), .. })
        };
        assert!(events.iter().any(refused), "{events:?}");
        assert_eq!(service.status().committed.height, 1, "{mood:?}: nothing is committed");
    }
    // The blocks are staged by now; after a restart they are executed again, so that the sink gets all of them.
    service.abandon();
    sink.0.lock().mood = Mood::Accepts;
    let service = open(&sink);
    assert_eq!(sink.0.lock().resumed, [0, 1]);
    for next in [&two, &three] {
        service::submit(&service, next);
    }
    service::commit(&service, &three);
    let records = sink.0.lock();
    let last: Vec<_> = records.blocks.iter().rev().take(2).rev().copied().collect();
    assert_eq!(last, [(2, two.id()), (3, three.id())], "at least once, in order");
    assert!(records.logs >= 3 && records.created.len() >= 3);
    let (root, touched) = records.last.clone().expect("blocks");
    assert_eq!(root, service.status().committed.state_root);
    let state = service.snapshot(ViewAt::Committed).expect("there");
    assert!(touched.contains(&address(0)) && touched.contains(&address(2)), "{touched:?}");
    let created = records.created.last().expect("contracts");
    let code_hash = state.account(created).expect("readable").expect("created").code_hash;
    let code = state.code(&code_hash).expect("readable").expect("stored");
    assert_eq!(code.original_byte_slice(), [0]);
    drop(records);
    service.rewind(Ticket(8), one.id()).expect("in the history");
    assert_eq!(sink.0.lock().resumed, [0, 1, 1]);
    assert_eq!(service.committed_at(2), None);
}

/// Holds every block up until it is opened.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// Heights of the blocks that came.
    heights: Mutex<Vec<u64>>,
    came: Condvar,
    refuses: AtomicBool,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }

    /// Waits until a block has come: the sink has a thread of its own.
    fn wait_for_a_block(&self) {
        let is_empty = |heights: &mut Vec<u64>| heights.is_empty();
        let patience = Duration::from_secs(120);
        assert!(!self.came.wait_while_for(&mut self.heights.lock(), is_empty, patience).timed_out(), "no block came");
    }
}

/// Opens a gate at the end, also of a test that fails: a service waits for its sink.
struct Opened(Arc<Gate>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl BlockSink for Gate {
    fn resumed(&self, _: &CommittedTip) {}

    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused> {
        self.heights.lock().push(block.committed.height);
        self.came.notify_all();
        self.opened.wait_while(&mut self.is_open.lock(), |is_open| !*is_open);
        if self.refuses.load(Ordering::Relaxed) { Err(SinkRefused) } else { Ok(()) }
    }
}

/// Builds a block of at most so many transactions, while others are written.
fn build(service: &Service, parent: ExecId, height: u64, txs: u32) -> Candidate {
    let budget = BlockBudget { txs, ..BlockBudget::UNLIMITED };
    let request = BuildRequest { parent, env: service::env(height), budget, forced: vec![], attributes: Bytes::new() };
    let job = service.build(request).expect("a job");
    job.wait(Duration::from_secs(60));
    job.finish().expect("a block").candidate
}

#[test]
fn a_block_is_built_on_one_that_is_still_kept() {
    let folder = crate::kit::folder();
    let sink = Arc::new(Gate::default());
    let config = ServiceConfig::default().with_sink(Arc::clone(&sink) as _);
    let service = service::open(&service::forking(), &folder.path().join("store"), config);
    let _opened = Opened(Arc::clone(&sink));
    let send =
        |nonce| drop(service.send(&signed(2, &Call::to(0, nonce, address(1), 1), vec![])).expect("a transaction"));
    (0..3).for_each(send);
    let has_ready = || service.with_pool(Pool::has_ready);
    let one = build(&service, ExecId::GENESIS, 1, 2);
    assert_eq!(one.payload().txs().len(), 2);
    assert!(has_ready(), "the third");
    service::submit(&service, &one);
    service.commit(Ticket(2), one.id(), service::meta(&one)).expect("accepted");
    let two = build(&service, one.id(), 2, 2);
    assert_eq!(two.payload().txs().len(), 1, "those of its parent are no candidates");
    assert!(!has_ready(), "all are in blocks");
    sink.wait_for_a_block();
    assert_eq!(
        (service.status().committed.height, sink.heights.lock().clone()),
        (0, vec![1]),
        "the sink has not answered"
    );
    let header = service.header(ViewAt::Exec(one.id())).expect("executed").expect("a whole block");
    assert_eq!(header.number, 1);
    sink.open();
    let events = service::events(&service);
    assert!(events.iter().any(|event| matches!(event, EngineEvent::Committed { height: 1, .. })), "{events:?}");
    service::submit(&service, &two);
    service::commit(&service, &two);
    assert_eq!((sink.heights.lock().clone(), service.waiting()), (vec![1, 2], 0));

    // What was in blocks that are not kept waits again, and only then.
    sink.refuses.store(true, Ordering::Relaxed);
    (3..5).for_each(send);
    let three = build(&service, two.id(), 3, 1);
    service::submit(&service, &three);
    service.commit(Ticket(3), three.id(), service::meta(&three)).expect("accepted");
    let four = build(&service, three.id(), 4, 1);
    let refused =
        |event: &EngineEvent| matches!(event, EngineEvent::Failed { why: Failure::Retry(RetryCause::Sink), .. });
    let events = service::events(&service);
    assert!(events.iter().any(refused), "{events:?}");
    service::submit(&service, &four);
    assert!(!has_ready());
    service.keep_only(Ticket(4), &[]).expect("accepted");
    service.settle();
    assert!(has_ready());
    sink.refuses.store(false, Ordering::Relaxed);
    let again = build(&service, two.id(), 3, 2);
    assert_eq!(again.payload().txs().len(), 2);
    service::submit(&service, &again);
    service::commit(&service, &again);
    assert_eq!((sink.heights.lock().clone(), service.waiting()), (vec![1, 2, 3, 3], 0));

    (5..7).for_each(send);
    service::submit(&service, &build(&service, again.id(), 4, 1));
    let beside = build(&service, again.id(), 4, 2);
    assert_eq!(beside.payload().txs().len(), 2, "a block beside may hold the same ones");
}

/// Headers of committed blocks.
#[derive(Debug, Default)]
struct Headers(Mutex<Vec<Header>>);

impl BlockSink for Headers {
    fn resumed(&self, _: &CommittedTip) {}

    fn put(&self, block: &SinkBlock<'_>) -> Result<(), SinkRefused> {
        self.0.lock().push(block.header.expect("a whole block").clone());
        Ok(())
    }
}

#[test]
fn the_first_block_follows_from_the_whole_header_of_the_genesis() {
    const BLOB: u64 = 1 << 17;
    // Under Osaka the base fee of the parent decides as well (EIP-7918), so it counts too.
    for base_fee in [7_u64, 1_000_000_000] {
        let mut file = super::genesis(&[("shanghai", 0), ("cancun", 0), ("prague", 0), ("osaka", 0)], &[address(0)]);
        file.excess_blob_gas = Some(400 * BLOB);
        file.blob_gas_used = Some(3 * BLOB);
        file.base_fee_per_gas = Some(base_fee.into());
        let folder = crate::kit::folder();
        // A service that is opened again at the genesis knows it as well.
        drop(service::open(&file, &folder.path().join("store"), ServiceConfig::default()));
        let sink = Arc::new(Headers::default());
        let config = ServiceConfig::default().with_sink(Arc::clone(&sink) as Arc<dyn BlockSink>);
        let service = service::open(&file, &folder.path().join("store"), config);
        let chain = service::steady(&file);
        let genesis = chain.genesis_header(&file, B256::ZERO);
        let child = chain.child_header(&genesis, &super::after(&genesis)).expect("a child");
        let env = BlockEnv {
            height: 1,
            timestamp_ms: 1000 * child.timestamp,
            gas_limit: child.gas_limit,
            base_fee: child.base_fee_per_gas.expect("London"),
            ..service::env(1)
        };
        let payload = Payload::with_attributes(vec![], Bytes::new());
        let block = Candidate::new(super::CHAIN, ExecId::GENESIS, env, TxPolicy::SkipInvalid, payload.into());
        service::submit(&service, &block);
        service::commit(&service, &block);
        let headers = sink.0.lock();
        assert_eq!(headers[0].excess_blob_gas, child.excess_blob_gas, "base fee {base_fee}");
        assert!(headers[0].excess_blob_gas > Some(390 * BLOB));
    }
}
