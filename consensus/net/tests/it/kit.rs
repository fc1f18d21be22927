//! A network of replicas in this process, each with a model engine, a folder and two ports on loopback.

use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::Index;
use phalanx_engine_api::{ExecutionEngine as _, Limits, Offer};
use phalanx_keys::{deal, deal_bls};
use phalanx_net::{
    Admission, Audit, Authentication, Beginning, Client, ClientSender, Content, Doorbell, Durability, Embedder,
    Genesis, LOG_BYTES, Links, Machine, Member, NetConfig, ProtocolName, Replica, ReplicaError, ReplicaKeys, Reply,
    Request, Snapshots, VERSION, leave_token,
};
use phalanx_sim::model::{Costs, Disk, ModelEngine, model_tx};
use std::{
    collections::BTreeSet,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Patience of every test with the network, also on a machine whose disk and cores are busy otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A folder in memory where the system has one: these tests are about threads and sockets, and disks may be busy.
pub(crate) fn folder() -> tempfile::TempDir {
    let shared = tempfile::tempdir_in("/dev/shm");
    shared.or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Free ports below those that the system gives to outgoing connections: a replica that is down must find its own again.
fn free(count: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let candidates = (0..20_000).map(|_| {
        let at = (std::process::id().wrapping_mul(331) % 20_000).wrapping_add(NEXT.fetch_add(1, Relaxed));
        SocketAddr::from(([127, 0, 0, 1], 11_000 + (at % 20_000) as u16))
    });
    let found: Vec<SocketAddr> = candidates.filter(|address| TcpListener::bind(address).is_ok()).take(count).collect();
    assert_eq!(found.len(), count, "free ports");
    found
}

pub(crate) fn config(n: usize, dir: &Path) -> NetConfig {
    let ports = free(2 * n);
    let member = |index: usize| Member {
        peers: ports[2 * index],
        clients: ports[2 * index + 1],
        keys: format!("keys-{index}.json").into(),
        dir: dir.join(format!("replica-{index}")),
    };
    NetConfig {
        version: VERSION,
        protocol: ProtocolName::Pbft,
        chain: 7,
        epoch: 0,
        before: None,
        instance: B256::repeat_byte(5),
        faults: ((n - 1) / 3) as u16,
        authentication: Authentication::Mac,
        durability: Durability::Group,
        batch_threads: 1,
        batch_txs: 20,
        batch_bytes: 1 << 20,
        batch_delay_us: 1_000,
        interval: 8,
        timeout_us: 1_000_000,
        resend_us: 100_000,
        retention: 4_096,
        snapshot_every: 0,
        log_bytes: LOG_BYTES,
        gas_limit: 1 << 40,
        base_fee: 0,
        beneficiary: Address::ZERO,
        links: Links::default(),
        replicas: (0..n).map(member).collect(),
    }
}

/// Time after which Autobahn leaves a view, in microseconds. It leaves one for every slot whose leader is away, and a test waits for
/// that. The next view of a slot has twice the time, so that a busy machine ends every slot.
pub(crate) const AUTOBAHN_TIMEOUT: u64 = 100_000;

fn keys(config: &NetConfig, seed: u8) -> Vec<ReplicaKeys> {
    let (n, seed) = (config.replicas.len(), [seed; 32]);
    match config.protocol {
        ProtocolName::Sbft => {
            let dealt = deal_bls(n, config.faults.into(), &seed).expect("keys");
            dealt.into_iter().map(ReplicaKeys::from).collect()
        }
        _ => deal(n, &seed).expect("keys").into_iter().map(ReplicaKeys::from).collect(),
    }
}

/// A machine on a disk.
pub(crate) fn machine(disk: Disk) -> (Arc<ModelEngine>, Machine<ModelEngine>) {
    let limits = Limits { depth: 64, ..Limits::default() };
    let engine = Arc::new(ModelEngine::open(7, limits, Costs::default(), disk));
    let stepped = Arc::clone(&engine);
    let step = move || {
        let works = stepped.start();
        works.iter().for_each(|work| stepped.finish(work));
        !works.is_empty()
    };
    // A model transaction is any bytes but none.
    let machine = Machine {
        engine: Arc::clone(&engine),
        genesis: Genesis::default(),
        content: Content::new(|tx| !tx.is_empty()),
        admit: Arc::new(|txs| {
            txs.iter().map(|tx| if tx.is_empty() { Admission::Refused } else { Admission::Ordered }).collect()
        }),
        step: Some(Box::new(step)),
        embedder: Box::new(()),
        doorbell: Doorbell::default(),
        snapshots: Some(Arc::new(Chunked)),
    };
    (engine, machine)
}

/// A model engine's states as snapshots: chunks that their height and number name.
struct Chunked;

/// A chunk of the state at a height.
pub(crate) fn chunk_of(height: u64, number: u32) -> Bytes {
    [&height.to_be_bytes()[..], &number.to_be_bytes()].concat().into()
}

impl Snapshots for Chunked {
    fn take(&self, height: u64) -> Result<Offer, String> {
        Ok(Offer { height, format: 1, chunks: 3, metadata: height.to_be_bytes().into() })
    }

    fn chunk(&self, height: u64, _: u32, number: u32) -> Option<Bytes> {
        Some(chunk_of(height, number))
    }
}

/// Channel of the replies, each with its replica's index.
type Replies = (mpsc::Sender<(usize, Reply)>, mpsc::Receiver<(usize, Reply)>);

pub(crate) struct Net {
    pub(crate) config: NetConfig,
    pub(crate) keys: Vec<ReplicaKeys>,
    pub(crate) replicas: Vec<Option<(Replica, Arc<ModelEngine>)>>,
    disks: Vec<Option<Disk>>,
    senders: Vec<Option<ClientSender>>,
    replies: Replies,
    pub(crate) audit: Audit,
    /// Hashes of settled transactions.
    pub(crate) settled: BTreeSet<B256>,
    sent: u64,
}

impl Net {
    pub(crate) fn new(config: NetConfig) -> Self {
        let n = config.replicas.len();
        let mut net = Self {
            keys: keys(&config, 4),
            replicas: (0..n).map(|_| None).collect(),
            disks: (0..n).map(|_| Some(Disk::default())).collect(),
            senders: (0..n).map(|_| None).collect(),
            replies: mpsc::channel(),
            audit: Audit::new(config.quorums().expect("a legal size")),
            settled: BTreeSet::new(),
            sent: 0,
            config,
        };
        for (index, member) in net.config.replicas.iter().enumerate() {
            leave_token(&net.config, Index(index as u16), &member.dir).expect("a folder");
        }
        (0..n).for_each(|index| net.start(index));
        net
    }

    pub(crate) fn try_start(&mut self, index: usize) -> Result<(), ReplicaError> {
        self.try_begin(index, Beginning::Usual)
    }

    pub(crate) fn try_begin(&mut self, index: usize, beginning: Beginning) -> Result<(), ReplicaError> {
        self.try_begin_in(index, beginning, (Box::new(()), Doorbell::default()))
    }

    /// Starts a replica as a part of another program.
    pub(crate) fn try_begin_in(
        &mut self,
        index: usize,
        beginning: Beginning,
        (embedder, doorbell): (Box<dyn Embedder>, Doorbell),
    ) -> Result<(), ReplicaError> {
        let (engine, machine) = machine(self.disks[index].clone().unwrap_or_default());
        let machine = Machine { embedder, doorbell, ..machine };
        let dir = self.config.replicas[index].dir.clone();
        let replica = Replica::start(&self.config, self.keys[index].clone(), &dir, machine, beginning)?;
        self.disks[index] = None;
        self.replicas[index] = Some((replica, engine));
        Ok(())
    }

    pub(crate) fn start(&mut self, index: usize) {
        self.begin(index, Beginning::Usual);
    }

    pub(crate) fn begin(&mut self, index: usize, beginning: Beginning) {
        self.try_begin(index, beginning).unwrap_or_else(|error| panic!("replica {index}: {error}"));
        let mut client = Client::connect(self.config.replicas[index].clients, PATIENCE).expect("it listens");
        let mut sender = client.sender().expect("a descriptor");
        sender.send(&Request::Follow(self.audit.next(Index(index as u16)))).expect("it reads");
        self.senders[index] = Some(sender);
        let replies = self.replies.0.clone();
        thread::spawn(move || {
            while let Ok(reply) = client.receive() {
                if replies.send((index, reply)).is_err() {
                    return;
                }
            }
        });
    }

    /// Ends a replica; its engine loses what was not synced.
    pub(crate) fn stop(&mut self, index: usize) {
        let (replica, engine) = self.replicas[index].take().expect("it runs");
        self.senders[index] = None;
        replica.stop().unwrap_or_else(|error| panic!("replica {index}: {error}"));
        self.disks[index] = Some(engine.unplug());
    }

    /// Keys of a network from a seed.
    pub(crate) fn keys_of(config: &NetConfig, seed: u8) -> Vec<ReplicaKeys> {
        keys(config, seed)
    }

    /// Sends a value to all replicas that run.
    pub(crate) fn send_value(&mut self, value: &Bytes) {
        for sender in self.senders.iter_mut().flatten() {
            let _ = sender.send(&Request::Submit(vec![value.clone()]));
        }
    }

    /// Another replica takes the place of one that is down, without a state.
    pub(crate) fn replace(&mut self, index: usize) {
        self.disks[index] = Some(Disk::default());
    }

    pub(crate) fn statuses(&self) -> Vec<phalanx_net::Status> {
        self.replicas.iter().flatten().map(|(replica, _)| replica.status()).collect()
    }

    /// Takes folder and state of a replica away that is down.
    pub(crate) fn wipe(&mut self, index: usize) {
        std::fs::remove_dir_all(&self.config.replicas[index].dir).expect("a folder");
        self.disks[index] = Some(Disk::default());
    }

    /// Gives a replica that is down the state of another one, which goes on.
    pub(crate) fn borrow_state(&mut self, index: usize, from: usize) {
        let (_, engine) = self.replicas[from].as_ref().expect("it runs");
        self.disks[index] = Some(engine.unplug());
    }

    /// Takes a replica that has ended by itself away, and returns the reason.
    pub(crate) fn failed(&mut self, index: usize) -> ReplicaError {
        let (replica, engine) = self.replicas[index].take().expect("it was started");
        self.senders[index] = None;
        let reason = replica.stop().expect_err("it has ended by itself");
        self.disks[index] = Some(engine.unplug());
        reason
    }

    /// Counts transactions of another way in as sent, and returns them.
    pub(crate) fn others(&mut self, count: u64) -> Vec<Bytes> {
        let txs = (self.sent..self.sent + count).map(|tx| model_tx(1, &tx.to_be_bytes())).collect();
        self.sent += count;
        txs
    }

    /// Sends new transactions to all replicas that run, as a client does that got no answer.
    pub(crate) fn submit(&mut self, count: u64) {
        let txs = self.others(count);
        for sender in self.senders.iter_mut().flatten() {
            // A connection that has just ended takes nothing.
            let _ = sender.send(&Request::Submit(txs.clone()));
        }
    }

    /// Hash of the transaction with this number.
    pub(crate) fn hash(&self, tx: u64) -> B256 {
        phalanx_engine_api::transaction_hash(&model_tx(1, &tx.to_be_bytes()))
    }

    /// Public key of any f+1 replicas.
    pub(crate) fn group_key(&self) -> [u8; 96] {
        let ReplicaKeys::Groups(keys) = &self.keys[0] else { panic!("keys without groups") };
        let key = keys.public_key(phalanx_bft::Group::State).expect("a key");
        key.as_ref().try_into().expect("96 bytes")
    }

    /// Sends everything again that is not settled.
    pub(crate) fn resubmit(&mut self) {
        let txs: Vec<Bytes> = (0..self.sent)
            .map(|tx| model_tx(1, &tx.to_be_bytes()))
            .filter(|tx| !self.settled.contains(&phalanx_engine_api::transaction_hash(tx)))
            .collect();
        for sender in self.senders.iter_mut().flatten() {
            let _ = sender.send(&Request::Submit(txs.clone()));
        }
    }

    /// Takes notices for a while.
    pub(crate) fn listen(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok((index, reply)) = self.replies.1.recv_timeout(end.saturating_duration_since(Instant::now())) {
            let Reply::Block(notice) = reply else { continue };
            let settled = self.audit.on_notice(Index(index as u16), notice).expect("one result per height");
            self.settled.extend(settled.into_iter().flat_map(|block| block.notice.txs));
        }
    }

    /// Waits until all transactions are settled, and all replicas that run are at one height.
    pub(crate) fn settle(&mut self) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.listen(Duration::from_millis(50));
            let mut heights = self.replicas.iter().flatten().map(|(_, engine)| engine.status().committed.height);
            let first = heights.next().expect("one runs");
            // Blocks also hold changes of members.
            if (0..self.sent).all(|tx| self.settled.contains(&self.hash(tx)))
                && self.audit.settled() == first
                && heights.all(|next| next == first)
            {
                return;
            }
        }
        let status: Vec<_> = self.replicas.iter().flatten().map(|(replica, _)| replica.status()).collect();
        panic!("{} of {} settled at height {}: {status:#?}", self.settled.len(), self.sent, self.audit.settled());
    }

    /// Checks that every replica that runs has the same state.
    pub(crate) fn check(&self) {
        let status = |(_, engine): &(Replica, Arc<ModelEngine>)| engine.status().committed;
        let all: Vec<_> = self.replicas.iter().flatten().map(status).collect();
        assert!(
            all.windows(2).all(|pair| (pair[0].height, pair[0].state_root) == (pair[1].height, pair[1].state_root))
        );
    }

    pub(crate) fn replica(&self, index: usize) -> &Replica {
        &self.replicas[index].as_ref().expect("it runs").0
    }
}
