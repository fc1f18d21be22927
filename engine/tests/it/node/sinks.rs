//! The node's own store behind a service: every block before it is visible, in order, and again after a crash.

use super::{
    service,
    wallet::{Call, address, signed},
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, TxKind};
use parking_lot::Mutex;
use phalanx::{
    BlockSink, ServiceConfig, SinkBlock, SinkRefused,
    api::{
        BlockEnv, Candidate, CommittedTip, EngineEvent, ExecId, ExecutionEngine as _, Failure, Payload, RetryCause,
        Ticket, TxPolicy, ViewAt,
    },
};
use std::sync::Arc;

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
    let folder = tempfile::tempdir().expect("a folder");
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
        let folder = tempfile::tempdir().expect("a folder");
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
