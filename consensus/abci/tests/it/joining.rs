//! State sync: an application without a chain takes a snapshot from peers, some of which lie, with deaths at every step.

use crate::kit::{CHUNKS, Disk, FORMAT, NAME, START_MS, TestHost, offer, open, piece, tx};
use alloy_primitives::{B256, Bytes};
use parking_lot::Mutex;
use phalanx_abci::{
    App, Applied, Joiner, Offer, Offered,
    conformance::{Broken, Comet, Link, Peer, Proposal, asked, chunk, snapshots},
    proto::{self, Snapshot, request::Value as Asked, response::Value as Answer},
};
use std::{collections::BTreeSet, sync::Arc};

/// Disk of a node that joins. It outlives its processes.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The accepted snapshot, and the chunks that are kept.
    accepted: Option<(Offer, B256, BTreeSet<u32>)>,
    /// The chain, once it was opened.
    chain: Option<Disk>,
    /// Chunks that were kept twice.
    again: u32,
    /// What opening does instead.
    fails: Option<fn() -> Result<TestHost, String>>,
    /// Reasons of ends.
    failed: Vec<String>,
}

/// Node that joins the chain of another disk.
#[derive(Debug)]
struct Model {
    kept: Kept,
    source: Disk,
    /// True if the process has accepted an offer.
    is_open: bool,
}

impl Joiner for Model {
    type Host = TestHost;

    fn joined(&self) -> Option<(u64, B256)> {
        let kept = self.kept.0.lock();
        let (offer, root, chunks) = kept.accepted.as_ref()?;
        (chunks.len() as u32 == CHUNKS).then_some((offer.height, *root))
    }

    fn offer(&mut self, offered: &Offer, root: B256) -> Offered {
        if offered.format != FORMAT {
            return Offered::OtherFormat;
        }
        if *offered != offer(offered.height, &root) {
            return Offered::Lie;
        }
        self.is_open = true;
        let accepted = &mut self.kept.0.lock().accepted;
        if accepted.as_ref().is_none_or(|(known, ..)| known != offered) {
            *accepted = Some((offered.clone(), root, BTreeSet::new()));
        }
        Offered::Accepted
    }

    fn apply(&mut self, number: u32, chunk: &Bytes) -> Applied {
        let kept = &mut *self.kept.0.lock();
        match &mut kept.accepted {
            Some((_, root, _)) if *chunk != piece(root, number) || number >= CHUNKS => Applied::Bad,
            Some((.., chunks)) if self.is_open => {
                kept.again += u32::from(!chunks.insert(number));
                Applied::Kept
            }
            _ => Applied::Unable,
        }
    }

    fn failed(&mut self, why: &str) {
        self.kept.0.lock().failed.push(why.to_owned());
    }

    fn open(&mut self) -> Result<TestHost, String> {
        if let Some(fails) = self.kept.0.lock().fails {
            return fails();
        }
        let joined = self.joined();
        let mut kept = self.kept.0.lock();
        let disk = joined.map_or_else(Disk::new, |(height, _)| self.source.from(height));
        kept.chain = Some(disk.clone());
        Ok(TestHost::open(&disk))
    }
}

/// The application of a process that starts on this disk.
fn start(kept: &Kept, source: &Disk) -> App<TestHost> {
    match &kept.0.lock().chain {
        Some(chain) => App::new(TestHost::open(chain)),
        None => App::joining(Model { kept: kept.clone(), source: source.clone(), is_open: false }),
    }
}

/// A chain of some heights, with its application.
fn chain(heights: u64) -> (Comet, Disk, App<TestHost>) {
    let (mut comet, disk) = (Comet::new(NAME, START_MS), Disk::new());
    let (mut app, host) = open(&disk);
    host.put(&tx(9)).expect("room");
    comet.handshake(&mut app).expect("sound");
    for height in 0..heights {
        comet.height(&mut app, &[Proposal::Other(vec![tx(height)])]).expect("sound");
    }
    (comet, disk, app)
}

/// A peer that offers what an application has.
fn honest(name: &str, app: &App<TestHost>) -> Peer<'static> {
    let mut app = app.clone();
    Peer {
        name: name.into(),
        snapshots: snapshots(&mut app).expect("a list"),
        chunk: Box::new(move |height, format, number| chunk(&mut app, height, format, number).expect("an answer")),
    }
}

fn ask(app: &mut App<TestHost>, call: Asked) -> Answer {
    Link::call(app, asked(call)).expect("an answer").value.expect("an answer")
}

#[test]
fn either_side_may_die_at_every_step_of_state_sync() {
    let (source, disk, app) = chain(5);
    let (mut steps, mut step) = (1, 0);
    while step <= steps {
        for both in [false, true] {
            let (kept, mut comet) = (Kept::default(), Comet::joining(&source));
            comet.die_at(Some(step));
            let (mut joining, mut deaths) = (start(&kept, &disk), 0);
            loop {
                match go_on(&mut comet, &mut joining, &source, &app) {
                    Ok(()) => break,
                    Err(Broken::Died) => deaths += 1,
                    Err(other) => panic!("step {step}, both {both}: {other}"),
                }
                comet.die_at(None);
                if both {
                    joining = start(&kept, &disk);
                }
            }
            assert_eq!(deaths, u32::from(step > 0), "step {step}, both {both}");
            if step == 0 {
                steps = comet.steps();
                assert!(steps > 6, "{steps}");
            }
            let joined = kept.0.lock().chain.clone().expect("the chain is opened");
            assert_eq!(joined.roots()[..], disk.roots()[4..], "step {step}, both {both}");
            assert_eq!(comet.state(), (5, disk.roots()[5]), "step {step}, both {both}");
        }
        step += 1;
    }
}

/// State sync, or a handshake if there is a state, and then the blocks behind it.
fn go_on(comet: &mut Comet, joining: &mut App<TestHost>, source: &Comet, app: &App<TestHost>) -> Result<(), Broken> {
    if comet.state().0 == 0 {
        let height = comet.sync(joining, source, &mut vec![honest("a", app), honest("b", app)])?;
        assert_eq!(height, 4);
    } else {
        comet.handshake(joining)?;
    }
    comet.catch_up(joining, source)
}

#[test]
fn what_lies_is_dropped_and_nothing_else() {
    let (source, disk, app) = chain(4);
    let root = *disk.roots().last().expect("a root");
    let good = honest("good", &app);
    let best = good.snapshots[0].clone();
    let lying = |name: &str, edit: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = best.clone();
        edit(&mut snapshot);
        Peer { name: name.into(), snapshots: vec![snapshot], chunk: Box::new(|_, _, _| Default::default()) }
    };
    let resign = |snapshot: &mut Snapshot| {
        snapshot.hash = alloy_primitives::keccak256(&snapshot.metadata).to_vec().into();
    };
    // Of equal heights the last one is offered first: the honest node comes behind the others.
    let mut peers = vec![
        good,
        Peer {
            name: "chunks".into(),
            snapshots: vec![best.clone()],
            chunk: Box::new(move |_, _, number| match number {
                1 => piece(&root, 0).0,
                _ => Default::default(),
            }),
        },
        lying("hash", &|snapshot| snapshot.hash = vec![1; 32].into()),
        lying("root", &|snapshot| {
            snapshot.metadata = vec![7; 32].into();
            resign(snapshot);
        }),
        lying("count", &|snapshot| snapshot.chunks = CHUNKS + 1),
        lying("format", &|snapshot| snapshot.format = FORMAT + 1),
        lying("height", &|snapshot| snapshot.height = 3),
        lying("beyond", &|snapshot| snapshot.height = 9),
    ];
    let (kept, mut comet) = (Kept::default(), Comet::joining(&source));
    let mut joining = start(&kept, &disk);
    assert_eq!(comet.sync(&mut joining, &source, &mut peers).expect("one is honest"), 4);
    let left: Vec<&str> = peers.iter().map(|peer| &peer.name[..]).collect();
    assert!(left.contains(&"good") && !left.contains(&"chunks"), "{left:?}");
    assert!(["hash", "root", "count"].iter().all(|liar| !left.contains(liar)), "{left:?}");
    assert_eq!(kept.0.lock().again, 0, "a bad chunk costs itself alone");
    comet.handshake(&mut joining).expect("sound");
    assert!(kept.0.lock().chain.is_none(), "a handshake opens nothing");

    // Without an honest peer there is no end but a clear one.
    let (kept, mut comet) = (Kept::default(), Comet::joining(&source));
    let mut joining = start(&kept, &disk);
    let error = comet.sync(&mut joining, &source, &mut vec![lying("hash", &|snapshot| snapshot.hash.clear())]);
    assert_eq!(error, Err(Broken::Wrong("no snapshot is accepted".into())));
}

#[test]
fn calls_out_of_turn_are_answered_and_change_nothing() {
    use proto::{response_apply_snapshot_chunk::Result as ApplyResult, response_offer_snapshot::Result as OfferResult};
    let (_, disk, mut app) = chain(2);
    let chunk = Asked::ApplySnapshotChunk(proto::RequestApplySnapshotChunk::default());
    let offered = Asked::OfferSnapshot(proto::RequestOfferSnapshot::default());
    // A node with a chain.
    let Answer::OfferSnapshot(answer) = ask(&mut app, offered.clone()) else { panic!("another answer") };
    assert_eq!(answer.result, OfferResult::Abort as i32);
    let Answer::ApplySnapshotChunk(answer) = ask(&mut app, chunk.clone()) else { panic!("another answer") };
    assert_eq!(answer.result, ApplyResult::Abort as i32);
    for (height, format, number) in
        [(0, FORMAT, 0), (9, FORMAT, 0), (2, 0, 0), (2, FORMAT, CHUNKS), (u64::MAX, 7, u32::MAX)]
    {
        assert!(phalanx_abci::conformance::chunk(&mut app, height, format, number).expect("an answer").is_empty());
    }
    // A node without one.
    let kept = Kept::default();
    let mut joining = start(&kept, &disk);
    let Answer::ApplySnapshotChunk(answer) = ask(&mut joining, chunk) else { panic!("another answer") };
    assert_eq!(answer.result, ApplyResult::Abort as i32, "no snapshot is accepted");
    let Answer::OfferSnapshot(answer) = ask(&mut joining, offered) else { panic!("another answer") };
    assert_eq!(answer.result, OfferResult::RejectSender as i32, "an offer of nothing");
    assert_eq!(snapshots(&mut joining), Ok(Vec::new()));
    let Answer::CheckTx(answer) = ask(&mut joining, Asked::CheckTx(proto::RequestCheckTx::default())) else {
        panic!("another answer")
    };
    assert_eq!(answer.code, 1);
    let Answer::Query(answer) = ask(&mut joining, Asked::Query(proto::RequestQuery::default())) else {
        panic!("another answer")
    };
    assert_eq!(answer.code, 1);
    assert!(kept.0.lock().chain.is_none());
    // The chain begins at its genesis if CometBFT says so.
    let mut comet = Comet::new(NAME, START_MS);
    comet.handshake(&mut joining).expect("sound");
    comet.height(&mut joining, &[Proposal::Other(vec![tx(1)])]).expect("sound");
    assert_eq!(kept.0.lock().chain.as_ref().expect("a chain").roots().len(), 2);
}

#[test]
fn a_chain_that_does_not_open_ends_the_node_with_the_reason() {
    for (words, fails) in
        [("no disk", (|| Err("no disk".into())) as fn() -> Result<TestHost, String>), ("a panic", || panic!("a panic"))]
    {
        let (_, disk, _) = chain(1);
        let kept = Kept::default();
        kept.0.lock().fails = Some(fails);
        let app = start(&kept, &disk);
        assert!(!app.is_halted());
        for _ in 0..2 {
            let asked = Asked::Commit(proto::RequestCommit {});
            let answer = app.call(proto::Request { value: Some(asked) });
            assert!(matches!(answer, Err(phalanx_abci::CallError::Halted(_))), "{answer:?}");
        }
        assert!(app.is_halted());
        assert_eq!(kept.0.lock().failed, [words], "told once");
    }
}
