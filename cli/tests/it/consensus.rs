//! The engine as chain teams link it: [`Service`] with its threads on disks, under the conformance kit with every legal oddity
//! and crash, behind the solo driver and the worked example.

#[path = "../../../consensus/adapter/examples/sequencer.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example of its own, with a main function")]
mod sequencer;
#[path = "../../../consensus/adapter/tests/it/subjects.rs"]
mod subjects;

use alloy_primitives::{Address, Bytes, TxKind, U256};
use phalanx::{
    Engine, GenesisAccount, RootKind, Service, ServiceConfig,
    api::{ReadState as _, StateView, ViewAt},
    merkle::{Backend, Durability, StoreConfig},
    revm::context::TxEnv,
};
use phalanx_adapter::{
    FileJournal, Journal as _, Solo,
    conformance::{self, Machine, Subject},
};
use phalanx_workloads::{Native, TransferLoad, Workload as _};
use std::{path::PathBuf, sync::Arc};
use subjects::{SequencerSubject, show};

const ACCOUNTS: u64 = 256;
/// Senders of the kit's transactions: one per content and height, so that each is valid on every branch.
const PER_CONTENT: usize = 64;
/// Sender of the solo driver and the sequencer.
const SENDER: usize = 200;

/// Accounts with keys.
#[derive(Clone)]
pub(crate) struct People(Arc<Native>);

impl People {
    pub(crate) fn new() -> Self {
        let load = TransferLoad { accounts: ACCOUNTS, txs: 1, signatures: true, ..Default::default() };
        Self(Arc::new(Native::new(load).expect("a load")))
    }

    /// A service on a store that holds every account, with the root of the twigs.
    pub(crate) fn open(&self, store: StoreConfig) -> Result<Service, phalanx::Error> {
        self.open_with(store, RootKind::Twigs)
    }

    /// A service on a store that holds every account.
    pub(crate) fn open_with(&self, store: StoreConfig, root: RootKind) -> Result<Service, phalanx::Error> {
        let store = store.with_durability(Durability::Block);
        let mut engine = Engine::builder().with_threads(2).with_store(store).with_root(root).build()?;
        if engine.state().height().is_none() {
            let balance = U256::from(10).pow(U256::from(20));
            let funded = |address| GenesisAccount { address, balance, ..Default::default() };
            engine.genesis(self.0.accounts().addresses().map(funded))?;
        }
        Service::open(engine, ServiceConfig::default())
    }

    fn address(&self, index: usize) -> Address {
        self.0.accounts().address(index)
    }

    pub(crate) fn tx(&self, from: usize, nonce: u64) -> Bytes {
        let tx = TxEnv {
            tx_type: 2,
            caller: self.address(from),
            gas_limit: 21_000,
            gas_price: 100,
            gas_priority_fee: Some(3),
            kind: TxKind::Call(self.address(ACCOUNTS as usize - 1)),
            value: U256::from(1),
            nonce,
            chain_id: Some(1),
            ..Default::default()
        };
        self.0.accounts().sign(&[tx]).expect("a known sender").remove(0)
    }
}

/// A service with a power switch.
struct Real {
    people: People,
    folder: tempfile::TempDir,
    backend: fn(PathBuf) -> Backend,
    /// Number of discarded disks.
    wiped: u32,
}

impl Real {
    fn new(people: &People, backend: fn(PathBuf) -> Backend) -> Self {
        Self { people: people.clone(), folder: tempfile::tempdir().expect("a folder"), backend, wiped: 0 }
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join(format!("disk-{}", self.wiped))
    }

    fn nonce(&self, state: &dyn StateView, from: usize) -> u64 {
        state.account(self.people.address(from)).expect("readable").expect("funded").nonce
    }
}

impl Machine for Real {
    type Engine = Service;

    fn open(&mut self) -> Arc<Service> {
        Arc::new(self.people.open(StoreConfig::new((self.backend)(self.disk()))).expect("a service"))
    }

    fn settle(&self, engine: &Service) {
        engine.settle();
    }

    fn crash(&mut self, engine: Arc<Service>) {
        Arc::into_inner(engine).expect("the only handle").abandon();
    }

    fn wipe(&mut self) {
        let _ = std::fs::remove_dir_all(self.disk());
        self.wiped += 1;
    }

    fn tx(&self, content: u8, height: u64) -> Bytes {
        self.people.tx(usize::from(content) * PER_CONTENT + height as usize, 0)
    }
}

/// The solo driver with its journal on disk.
struct SoloSubject {
    people: People,
    folder: tempfile::TempDir,
    sent: u64,
}

impl SoloSubject {
    fn path(&self) -> PathBuf {
        self.folder.path().join("journal")
    }
}

impl Subject for SoloSubject {
    type Consensus = Solo<FileJournal>;

    fn open(&mut self) -> Self::Consensus {
        let mut solo = Solo::new(FileJournal::open(self.path()).expect("a journal"), 3_000);
        solo.send(self.people.tx(SENDER, self.sent));
        self.sent += 1;
        solo
    }

    fn crash(&mut self, consensus: Self::Consensus) {
        assert!(consensus.into_journal().last().is_some());
    }

    fn lose_from(&mut self, height: u64) {
        let journal = FileJournal::open(self.path()).expect("a journal");
        let kept: Vec<_> = (1..height).map_while(|height| journal.block(height).expect("readable")).collect();
        drop(journal);
        std::fs::remove_file(self.path()).expect("a file");
        let mut journal = FileJournal::open(self.path()).expect("a new journal");
        kept.into_iter().for_each(|block| journal.append(block).expect("room"));
    }

    fn wipe(&mut self) {
        let _ = std::fs::remove_file(self.path());
        self.sent = 0;
    }
}

fn conforms(name: &str, backend: fn(PathBuf) -> Backend) {
    let people = People::new();
    let mut real = Real::new(&people, backend);
    show(&conformance::engine(&format!("service on {name}"), &mut real));
    // The last script ends with twelve winners, and no trace of the losers.
    let engine = real.open();
    let state = engine.view(ViewAt::Committed).expect("a state");
    let nonces =
        |content: usize| -> u64 { (1..=12).map(|height| real.nonce(&*state, content * PER_CONTENT + height)).sum() };
    assert_eq!((state.height(), nonces(0), nonces(1)), (12, 12, 0), "transactions of the kit were skipped");
    drop((state, engine));
    let mut solo = SoloSubject { people: people.clone(), folder: tempfile::tempdir().expect("a folder"), sent: 0 };
    show(&conformance::consensus(&format!("solo on {name}, journal on disk"), &mut solo, &mut real));
    let mut sequencer = SequencerSubject::new(move |offset, _life| people.tx(SENDER, offset));
    show(&conformance::consensus(&format!("sequencer on {name}"), &mut sequencer, &mut real));
    let engine = real.open();
    let state = engine.view(ViewAt::Committed).expect("a state");
    assert_eq!(real.nonce(&*state, SENDER), state.height(), "one transaction per block");
}

#[test]
fn the_service_conforms_on_files() {
    conforms("files", Backend::File);
}

#[cfg(feature = "rocksdb")]
#[test]
fn the_service_conforms_on_rocksdb() {
    conforms("RocksDB", Backend::Rocks);
}
