//! Opening a replica from its files, and starting its threads.

use super::{
    Beginning, Clock, Replica, Shared, Stop,
    error::ReplicaError,
    keep::Folder,
    keys::ReplicaKeys,
    machine::{Admission, Machine, Networked},
    passage,
    status::Status,
    worker::Worker,
};
use crate::{
    client::{self, Clients},
    config::{MOST_ITEMS, NetConfig, NetConfigError},
    log::{Begins, Log, Owner, Ownership},
    peer::{self, Check, Inputs, LinkControl, Output},
    snapshot::Offers,
    wire::{Identity, Refusals, instance},
};
use alloy_primitives::{B256, Bytes, bytes::Buf as _};
use parking_lot::Mutex;
use phalanx_adapter::{Handshake, Node, OpenError};
use phalanx_bft::Index;
use phalanx_engine_api::{ExecutionEngine, Waker};
use phalanx_host::{Host, SignedChange};
use phalanx_keys::fresh_seed;
use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Attempts to bring engine and log together, a tenth of a second apart: what an engine refuses for a moment passes.
const ATTEMPTS: usize = 50;

/// Starts a replica of protocol `P`.
pub(super) fn start<P: Networked, E: ExecutionEngine + 'static>(
    config: &NetConfig,
    protocol: P::Config,
    keys: &ReplicaKeys,
    dir: &Path,
    mut machine: Machine<E>,
    (clock, beginning): (Clock, Beginning),
) -> Result<Replica, ReplicaError> {
    let (me, n) = (keys.single().index(), config.replicas.len());
    keys.check(config)?;
    let member = config.member(me.0)?;
    let identity = Identity::new(keys.single().clone(), config.authentication)?;
    let folder = Folder::open(dir)?;
    if Folder::is_joining(dir) || beginning == Beginning::Snapshot {
        return Err(ReplicaError::Behind { height: 0 });
    }
    folder.check_place(beginning != Beginning::Usual)?;
    let kept = passage::refuse_over(config, &folder)?;
    let boundary = passage::beginning(config, keys, &folder)?.map(|(boundary, _)| boundary);
    let bell = Arc::clone(&machine.doorbell.0);
    let owner = Owner::new(config, me);
    let belongs = Ownership {
        owner: owner.as_ref(),
        // A state that has moved on was not begun now.
        begins: match &owner {
            _ if beginning == Beginning::Silent => Begins::Silent,
            Some(owner) if folder.has_token(owner)? && machine.engine.status().committed.height == 0 => Begins::First,
            _ => Begins::Continued,
        },
        boundary: boundary.as_ref(),
    };
    // A new member need not be silent if it takes the state before it votes.
    if boundary.is_some() && belongs.begins == Begins::First && machine.snapshots.is_some() && config.snapshot_every > 0
    {
        return Err(ReplicaError::Behind { height: 0 });
    }
    let (path, ring) = (folder.log(), Arc::clone(&bell));
    let (log, records) = Log::<P::Record>::open(&path, belongs, config.durability, ring, config.log_bytes)?;
    folder.take_token()?;
    let scheme = keys.scheme(&identity)?;
    let mut host_config = config.host(clock.epoch_ms).map_err(NetConfigError::from)?;
    host_config.rules.timestamp_ms = machine.genesis.timestamp_ms;
    host_config.content = machine.content.clone();
    // Others answer a silent replica's question of this start, and of no earlier one.
    host_config.start = B256::new(fresh_seed()?).as_slice().get_u64();
    let protocol = Arc::new(protocol);
    let engine = Arc::clone(&machine.engine);
    // The records are read once; an attempt that the engine refuses for a moment needs them again.
    let mut attempt = 0;
    let (node, handshake) = loop {
        let (host_config, protocol) = (host_config.clone(), Arc::clone(&protocol));
        let host = Host::<P>::new(me, host_config, protocol, Arc::clone(&scheme), records.clone());
        let host = host.map_err(NetConfigError::from)?;
        match Node::open(Arc::clone(&engine), host, clock.now()) {
            Err(OpenError::Retry { .. }) if attempt < ATTEMPTS => {
                attempt += 1;
                thread::sleep(Duration::from_millis(100));
            }
            opened => break opened?,
        }
    };
    drop(records);
    if let Handshake::Sync { .. } = handshake {
        return Err(ReplicaError::Behind { height: engine.status().committed.height });
    }
    machine.embedder.resumed(engine.status().committed.height).map_err(ReplicaError::Embedder)?;
    let listen =
        |address: SocketAddr| TcpListener::bind(address).map_err(|source| ReplicaError::Listen { address, source });
    let (peers, clients_at) = (listen(member.peers)?, listen(member.clients)?);
    let local = |listener: &TcpListener, address: SocketAddr| listener.local_addr().unwrap_or(address);
    let listeners = [local(&peers, member.peers), local(&clients_at, member.clients)];
    let refusals = Arc::new(Refusals::default());
    let others = (0..n as u16).map(Index).filter(|peer| *peer != me);
    let outputs = others.map(|peer| (peer, Arc::new(Output::new(LinkControl::new(config.link(me, peer)))))).collect();
    let offers = Offers::new(machine.snapshots.take(), config.snapshot_every);
    let shared = Arc::new(Shared {
        me,
        bell: Arc::clone(&bell),
        stopped: AtomicBool::new(false),
        outputs,
        clients: Arc::new(Clients::new(Arc::clone(&bell), Arc::clone(&refusals), offers)),
        refusals: Arc::clone(&refusals),
        status: Mutex::new(Status { epoch: config.epoch, silent: node.peek().is_silent(), ..Status::default() }),
        passed: Mutex::default(),
    });
    shared.clients.boundaries.lock().extend(kept.into_iter().map(|kept| (kept.change.epoch, kept)));
    let (admit, clients) = (Arc::clone(&machine.admit), Arc::clone(&shared.clients));
    let (quorums, domain, members) = (host_config.quorums, host_config.domain, Arc::clone(&scheme));
    let judge = move |tx: &[u8]| match SignedChange::check(tx, quorums, domain, &*members) {
        Ok(_) => Admission::Ordered,
        Err(_) => Admission::Refused,
    };
    let check = move |txs: &[Bytes]| {
        let mut fates = Vec::with_capacity(txs.len());
        for txs in txs.chunk_by(|one, next| !SignedChange::is_claimed(one) && !SignedChange::is_claimed(next)) {
            match txs {
                [change] if SignedChange::is_claimed(change) => fates.push(judge(change)),
                _ => {
                    // A fate that is missing must not shift those of the next ones.
                    let end = fates.len() + txs.len();
                    fates.extend(admit(txs));
                    fates.resize(end, Admission::Refused);
                }
            }
        }
        let refused = fates.iter().filter(|fate| **fate == Admission::Refused).count();
        clients.refused_txs.fetch_add(refused as u64, Relaxed);
        fates.into_iter().map(|fate| fate == Admission::Ordered).collect()
    };
    let check: Check = Arc::new(check);
    let inputs = Arc::new(Inputs::<P::Msg>::new(n, Arc::clone(&bell), refusals, Arc::clone(&check)));
    let genesis = machine.genesis.digest;
    machine.engine.set_waker(Waker::new(move || bell.ring()));
    let by_worker = (config.batch_threads == 0).then(|| Arc::clone(&check));
    let around = (Arc::clone(&shared), Arc::clone(&inputs));
    let worker = Worker::new(node, (machine.step, machine.embedder), by_worker, log, clock, around, folder);
    let stop = Arc::clone(&inputs);
    let mut replica = Replica {
        shared: Arc::clone(&shared),
        listeners,
        worker: None,
        threads: Vec::new(),
        stop_inputs: Stop(Box::new(move || stop.stop())),
    };
    replica.worker = Some(spawn("worker", move || worker.run())?);
    let (name, most) = (instance(config, &[keys.public(), genesis]), (config.most_frame(), MOST_ITEMS));
    for (peer, output) in &shared.outputs {
        let (output, identity, shared) = (Arc::clone(output), identity.clone(), Arc::clone(&shared));
        let address = config.member(peer.0)?.peers;
        let seed = config.links.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(me.0) << 16 ^ u64::from(peer.0);
        let route = (*peer, seed);
        let send = move || peer::send(&output, address, &identity, &name, route, &shared.refusals);
        replica.threads.push(spawn("replica-output", send)?);
    }
    replica.threads.push(spawn("replica-accept", move || peer::listen(&peers, &inputs, &identity, name, most))?);
    for _ in 0..config.batch_threads {
        let (clients, check) = (Arc::clone(&shared.clients), Arc::clone(&check));
        replica.threads.push(spawn("batch", move || clients.check(&*check))?);
    }
    let (looks, network) = (Arc::clone(&shared), config.clone());
    replica.threads.push(spawn("epoch", move || passage::look(&looks, &network, &host_config, &scheme))?);
    let clients = Arc::clone(&shared.clients);
    replica.threads.push(spawn("client-accept", move || client::serve(&clients_at, &clients))?);
    Ok(replica)
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ReplicaError> {
    thread::Builder::new().name(name.into()).spawn(run).map_err(ReplicaError::Thread)
}
