//! A node whose blocks a scripted CometBFT orders, against a sequential engine and stock revm; kills in the middle of calls.

use crate::{
    answers::{COUNTER, build},
    kit::{CHAIN, Call, Client, FUNDED, Reference, address, config, deploy, genesis, signed},
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes};
use phalanx::{
    Engine, Executor, Service, ServiceConfig,
    api::{
        BlockEnv, Candidate, CommitMeta, EngineEvent, ExecId, ExecutionEngine as _, Payload, Priority, Ticket,
        TxPolicy, ViewAt,
    },
    chain::ChainSpec,
};
use phalanx_abci::{
    Header as Ordered,
    conformance::{Broken, Comet, Link as _, Proposal, TcpLink, asked, validator},
    proto::{self, RequestQuery, ResponseQuery, request::Value as Asked, response::Value as Answer},
};
use phalanx_node::{BlockSource, CometConfig, Node, NodeConfig, NodeError, Production};
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Name of the chain: its number is at the end.
const NAME: &str = "phalanx-4242";

/// Milliseconds at which the chain begins.
const START_MS: u64 = 1_790_000_000_250;

/// Folder of the node, in the environment of a process that is to be killed.
const FOLDER: &str = "PHALANX_KILLED_VALIDATOR";

fn settings(folder: &Path) -> NodeConfig {
    let mut settings = config(folder, Production::Off);
    settings.beneficiary = Address::ZERO;
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    // No CometBFT serves RPC here: transactions wait for this node's own proposals.
    let rpc = SocketAddr::from(([127, 0, 0, 1], 1));
    settings.source = BlockSource::Comet(CometConfig { abci: local, rpc, ..CometConfig::default() });
    settings
}

/// The chain that CometBFT has decided, executed by a sequential engine.
struct Sequential {
    service: Service,
    ticket: u64,
    parent: Header,
    parent_id: ExecId,
}

impl Sequential {
    fn new() -> Self {
        let spec = ChainSpec::from_genesis(&genesis()).expect("a chain");
        let mut engine =
            Engine::builder().with_chain(spec).with_executor(Executor::Sequential).build().expect("an engine");
        let parent = engine.begin(&genesis()).expect("a genesis");
        let settings = ServiceConfig::default().with_policy(TxPolicy::SkipInvalid);
        let service = Service::open(engine, settings).expect("a service");
        Self { service, ticket: 0, parent, parent_id: ExecId::GENESIS }
    }

    /// Executes and commits a block, whose fees the node's header names, and gives its state root and its hash.
    fn block(&mut self, block: &phalanx_abci::conformance::Block, header: &Header) -> (B256, B256) {
        let ordered = Ordered::of(block.height, block.timestamp_ms, block.proposer, self.parent_id);
        let env = BlockEnv {
            height: block.height,
            timestamp_ms: block.timestamp_ms,
            prevrandao: ordered.prevrandao,
            beneficiary: block.proposer,
            gas_limit: self.parent.gas_limit,
            base_fee: header.base_fee_per_gas.expect("a base fee"),
        };
        let payload = Payload::new(block.txs.clone()).into();
        let candidate = Candidate::new(CHAIN, self.parent_id, env, TxPolicy::SkipInvalid, payload);
        let id = candidate.id();
        self.ticket += 2;
        let mut events = Vec::new();
        self.service.submit(Ticket(self.ticket), candidate, Priority::Decided).expect("room");
        self.service.settle();
        self.service
            .commit(Ticket(self.ticket + 1), id, CommitMeta { cursor: block.height, ..Default::default() })
            .expect("rooted");
        self.service.settle();
        while self.service.poll(64, &mut events) > 0 {}
        assert!(events.iter().any(|event| matches!(event, EngineEvent::Committed { .. })), "{events:?}");
        (self.parent, self.parent_id) = (header.clone(), id);
        let hash = self.service.block_hash(ViewAt::Committed).expect("committed");
        (self.service.status().committed.state_root, hash)
    }
}

/// Compares every block of the node with the sequential engine, and the accounts at the end with stock revm.
fn compare(comet: &Comet, client: &Client) {
    let (mut sequential, mut reference) = (Sequential::new(), Reference::new(&genesis()));
    assert_eq!(client.quantity("eth_blockNumber", json!([])), comet.blocks().len() as u128);
    for (block, app_hash) in comet.blocks().iter().zip(comet.app_hashes()) {
        let height = format!("{:#x}", block.height);
        let answer = client.get("eth_getBlockByNumber", json!([height, false]));
        let answered: alloy_rpc_types_eth::Block = serde_json::from_value(answer.clone()).expect("alloy reads it");
        let header = answered.header.inner;
        let fee = reference.chain.child_header(
            &sequential.parent,
            &phalanx::chain::Attributes {
                timestamp: header.timestamp.max(sequential.parent.timestamp + 1),
                ..Default::default()
            },
        );
        assert_eq!(fee.expect("a child").base_fee_per_gas, header.base_fee_per_gas, "block {height}");
        let (root, hash) = sequential.block(block, &header);
        assert_eq!((root, root, hash), (app_hash, header.state_root, answered.header.hash), "block {height}");
        assert_eq!(
            (header.timestamp, header.beneficiary),
            (block.timestamp_ms / 1000, block.proposer),
            "block {height}"
        );
        let raw =
            |hash| serde_json::from_value(client.get("eth_getRawTransactionByHash", json!([hash]))).expect("bytes");
        let executed: Vec<Bytes> = answered.transactions.hashes().map(raw).collect();
        let results = reference.block(&header, answered.header.hash, &executed);
        let used: u64 =
            results.iter().map(phalanx::revm::context_interface::result::ExecutionResult::tx_gas_used).sum();
        assert_eq!(used, header.gas_used, "block {height}");
    }
    for account in 0..FUNDED {
        let info = reference.account(address(account));
        let nonce = client.quantity("eth_getTransactionCount", json!([address(account)]));
        let balance = client.quantity("eth_getBalance", json!([address(account)]));
        assert_eq!((nonce, balance), (info.nonce.into(), info.balance.to()), "account {account}");
    }
}

#[test]
fn decided_blocks_have_the_roots_of_a_sequential_engine_and_the_accounts_of_stock_revm() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut comet = Comet::new(NAME, START_MS);
    for start in 0..3_u64 {
        let node = Node::start(&settings(folder.path())).expect("a node");
        let client = Client::new(node.address());
        let mut link = TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection");
        comet.handshake(&mut link).expect("sound");
        let from = 3 * start;
        let pay = |account, nonce| signed(2, &Call::to(account, nonce, address(account + 1), 7), vec![]);
        for nonce in from..from + 3 {
            client.send(&signed(2, &Call::to(0, nonce, address(1), 1), vec![]));
        }
        comet.height(&mut link, &[Proposal::Own]).expect("sound");
        assert_eq!(comet.blocks().last().expect("a block").txs.len(), 3, "what JSON-RPC admits is proposed");
        // Foreign proposals: a gap of nonces, a repeat, and a contract that logs.
        let mixed = vec![pay(2, 2 * start), pay(2, 2 * start + 5), pay(2, 2 * start)];
        comet.height(&mut link, &[Proposal::Other(mixed), Proposal::Other(vec![pay(2, 2 * start)])]).expect("sound");
        comet
            .height(&mut link, &[Proposal::Unseen(vec![pay(2, 2 * start + 1), deploy(4, start, &COUNTER)])])
            .expect("sound");
        client.send(&pay(6, start));
        comet.height(&mut link, &[Proposal::Own, Proposal::Own, Proposal::Other(Vec::new())]).expect("sound");
        comet.height(&mut link, &[Proposal::Own]).expect("sound");
        assert_eq!(
            comet.blocks().last().expect("a block").txs,
            [pay(6, start)],
            "a lost proposal loses no transaction"
        );
        assert_eq!(node.height(), comet.blocks().len() as u64);
        compare(&comet, &client);
        node.stop();
    }
}

#[test]
fn queries_read_accounts_and_slots_at_kept_heights_with_proofs_under_the_app_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(&settings(folder.path())).expect("a node");
    let mut comet = Comet::new(NAME, START_MS);
    let mut link = TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection");
    comet.handshake(&mut link).expect("sound");
    let counter = address(4).create(0);
    let count = |nonce| signed(2, &Call::to(1, nonce, counter, 0), vec![]);
    comet.height(&mut link, &[Proposal::Other(vec![deploy(4, 0, &COUNTER)])]).expect("sound");
    for nonce in 0..3 {
        comet.height(&mut link, &[Proposal::Other(vec![count(nonce)])]).expect("sound");
    }
    let roots = comet.app_hashes();
    let mut query = |path: &str, data: &[u8], height: i64| {
        let (path, data) = (path.to_owned(), data.to_vec().into());
        let query = RequestQuery { path, data, height, prove: true };
        match link.call(asked(Asked::Query(query))).expect("an answer").value {
            Some(Answer::Query(answer)) => answer,
            other => panic!("{other:?}"),
        }
    };
    let params = phalanx::merkle::Params::default();
    let proof = |answer: &ResponseQuery| answer.proof_ops.as_ref().expect("a proof").ops[0].data.clone();
    for (height, nonce) in [(1, 0_u64), (2, 1), (3, 2), (4, 3), (0, 3)] {
        let root = roots[usize::try_from(if height == 0 { 4 } else { height }).expect("small") - 1];
        let answer = query("/account", address(1).as_slice(), height);
        assert_eq!((answer.code, &answer.value[..8]), (0, &nonce.to_be_bytes()[..]), "height {height}");
        let proven = phalanx::verify_account(&params, root, address(1), &proof(&answer)).expect("a sound proof");
        assert_eq!(proven.expect("an account").nonce, nonce, "height {height}");
        let slot = [counter.as_slice(), &[0; 32]].concat();
        let answer = query("/storage", &slot, height);
        assert_eq!(answer.value, B256::from(alloy_primitives::U256::from(nonce)).to_vec(), "height {height}");
        let proven = phalanx::verify_slot(&params, root, counter, B256::ZERO, &proof(&answer)).expect("a sound proof");
        assert_eq!(proven, B256::from(alloy_primitives::U256::from(nonce)), "height {height}");
    }
    let slot = [0; 52];
    for (path, data, height) in [
        ("/account", &slot[..19], 0),
        ("/account", &slot[..21], 0),
        ("/storage", &slot[..20], 0),
        ("/storage", &slot[..51], 0),
        ("/nothing", &slot[..20], 0),
        ("/account", &slot[..20], 5),
        ("/account", &slot[..20], i64::MAX),
    ] {
        let answer = query(path, data, height);
        assert!(answer.code == 1 && !answer.log.is_empty() && answer.value.is_empty(), "{path} {height}: {answer:?}");
    }
    node.stop();
}

#[test]
fn a_halt_keeps_a_report_and_ends_the_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(&settings(folder.path())).expect("a node");
    let mut link = TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection");
    Comet::new(NAME, START_MS).handshake(&mut link).expect("sound");
    let tx = signed(2, &Call::to(0, 0, address(1), 1), vec![]);
    let block = phalanx_abci::conformance::Block::new(1, 0, START_MS, vec![tx.clone()]);
    link.call(block.finalize()).expect("sound");
    link.call(asked(Asked::Commit(proto::RequestCommit {}))).expect("sound");
    let votes = (0..4).map(|place| proto::ExtendedVoteInfo {
        validator: Some(proto::Validator { address: validator(place).to_vec().into(), power: 10 }),
        vote_extension: vec![if place == 0 { 0 } else { 9 }; 32].into(),
        block_id_flag: 2,
        ..Default::default()
    });
    let prepare = asked(Asked::PrepareProposal(proto::RequestPrepareProposal {
        local_last_commit: Some(proto::ExtendedCommitInfo { round: 0, votes: votes.collect() }),
        height: 2,
        ..Default::default()
    }));
    assert!(matches!(link.call(prepare), Err(Broken::Lost(_))));
    let ended = node.wait(Duration::from_secs(600)).expect_err("the node has ended");
    assert!(matches!(ended, NodeError::Halted(phalanx_abci::Halt::Divergence(_))), "{ended}");
    assert_eq!(node.height(), 1);
    let report = std::fs::read_to_string(folder.path().join("halt-1.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["block"]["transactions"], json!([tx]));
    assert_eq!((&report["height"], &report["power"], &report["total"]), (&json!(1), &json!(30), &json!(40)));
    assert_eq!(report["theirs"], json!(B256::repeat_byte(9)));
    node.stop();
    for _ in 0..2 {
        let refused = Node::start(&settings(folder.path())).expect_err("the report is still there");
        assert!(matches!(&refused, NodeError::Divergent { path } if path.ends_with("halt-1.json")), "{refused}");
    }
    std::fs::remove_file(folder.path().join("halt-1.json")).expect("removed");
    Node::start(&settings(folder.path())).expect("the operator has removed the report").stop();
}

#[test]
fn settings_that_contradict_cometbft_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let changes: [fn(&mut NodeConfig); 3] = [
        |settings| settings.production = Production::Instant,
        |settings| settings.gas_limit = Some(1),
        |settings| settings.beneficiary = Address::repeat_byte(1),
    ];
    for change in changes {
        let mut settings = settings(folder.path());
        change(&mut settings);
        assert!(matches!(Node::start(&settings), Err(NodeError::Setting(why)) if why.contains("CometBFT")));
    }
}

/// Runs a node until it is killed, after it has printed its addresses.
fn serve(folder: &Path) -> ! {
    let mut settings = settings(folder);
    settings.segment_bytes = 8_000;
    let node = Node::start(&settings).expect("a node");
    println!("\nat {} {}", node.abci_address().expect("ABCI"), node.address());
    std::io::stdout().flush().expect("printed");
    loop {
        node.wait(Duration::from_secs(1)).expect("it goes on");
    }
}

/// A node in a process of its own.
struct Process {
    child: Arc<Mutex<Child>>,
    abci: SocketAddr,
    client: Client,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "ordered::kills_in_the_middle_of_calls_lose_nothing", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.map_while(Result::ok).find(|line| line.starts_with("at ")).expect("the node starts");
        let mut words = line.split(' ').skip(1).map(|word| word.parse().expect("an address"));
        let (abci, rpc) = (words.next().expect("ABCI"), words.next().expect("RPC"));
        let child = Arc::new(Mutex::new(child));
        Self { child, abci, client: Client::new(rpc) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().expect("no panic");
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn kills_in_the_middle_of_calls_lose_nothing() {
    if let Ok(folder) = std::env::var(FOLDER) {
        serve(Path::new(&folder));
    }
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (kills, seed) = (number("PHALANX_KILLS", 6), number("PHALANX_SEED", 44));
    println!("{kills} kills, PHALANX_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let mut comet = Comet::new(NAME, START_MS);
    let (mut nonce, mut kill) = (0, 0);
    let mut process = Process::start(folder.path());
    loop {
        let is_last = kill == kills;
        let delay = Duration::from_micros(rng.random_range(0..150_000));
        let child = Arc::clone(&process.child);
        let killer = (!is_last).then(|| {
            std::thread::spawn(move || {
                std::thread::sleep(delay);
                child.lock().expect("no panic").kill().expect("it is ours");
            })
        });
        let mut go_on = || -> Result<(), Broken> {
            let lost = |error: std::io::Error| Broken::Lost(error.to_string());
            let mut link = TcpLink::connect(process.abci).map_err(lost)?;
            comet.handshake(&mut link)?;
            for _ in 0..if is_last { 3 } else { u64::MAX } {
                let txs: Vec<_> = (nonce..nonce + 5)
                    .map(|nonce| signed(2, &Call::to(0, nonce, address(1 + nonce % 8), 1), vec![]))
                    .collect();
                let height = comet.blocks().len();
                let done = comet.height(&mut link, &[Proposal::Own, Proposal::Other(txs)]);
                // A saved block is decided, and a death after it changes nothing.
                nonce += 5 * (comet.blocks().len() - height) as u64;
                done?;
            }
            Ok(())
        };
        match go_on() {
            Ok(()) => break,
            Err(Broken::Lost(_)) if !is_last => {}
            Err(broken) => panic!("PHALANX_SEED={seed}, kill {kill}: {broken}"),
        }
        killer.into_iter().for_each(|killer| killer.join().expect("no panic"));
        kill += 1;
        process = Process::start(folder.path());
    }
    assert!(nonce >= 15, "PHALANX_SEED={seed}: {nonce} transactions");
    assert_eq!(process.client.quantity("eth_getTransactionCount", json!([address(0)])), u128::from(nonce));
    println!("{} blocks", comet.blocks().len());
    compare(&comet, &process.client);
}

#[test]
fn answers_about_ordered_blocks_are_those_of_a_producer() {
    // The scripted CometBFT proposes what JSON-RPC has admitted, as long as the chain is asked for.
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(&settings(folder.path())).expect("a node");
    let (client, abci) = (Client::new(node.address()), node.abci_address().expect("ABCI"));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let ordering = std::thread::spawn(move || {
        let mut comet = Comet::new(NAME, START_MS);
        let mut link = TcpLink::connect(abci).expect("a connection");
        comet.handshake(&mut link).expect("sound");
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            comet.height(&mut link, &[Proposal::Own]).expect("sound");
        }
        comet
    });
    build(&client);
    drop(stop);
    let comet = ordering.join().expect("no panic");
    compare(&comet, &client);
    node.stop();
}
