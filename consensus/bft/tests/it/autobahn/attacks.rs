//! Attacks and bounds, one each: forks, floods, unavailable data, cuts that lie, partitions under load, replicas far behind.

use super::{World, signed};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Batch, Domain, Index, Micros, Quorums, Statement as _,
    autobahn::{
        Ack, Autobahn, Commit, Config, CutOf, Msg, Mutation, Phase, PrepVote, Prepare, Qc, Record, Status, Sync, Tips,
    },
    lanes::{Ballot, Car, Certificate, Cut, Header, LaneVote, Tip, cut_digest},
};
use phalanx_world::Conditions;
use rand::{Rng as _, SeedableRng as _};

pub(super) fn config() -> Config {
    Config {
        coverage: 1,
        resend: 20_000,
        timeout: 100_000,
        ..Config::new(Quorums::new(4, 1).expect("a legal size"), Domain::default())
    }
}

pub(super) fn world(config: Config, traitor: usize) -> World {
    World::new(Conditions { silent: [Index(traitor as u16)].into(), ..Conditions::new(config) })
}

fn batch(number: u64) -> Batch {
    Batch::new(1, Address::ZERO, vec![Bytes::from(number.to_be_bytes().to_vec())])
}

/// A car of a lane, signed by its owner, with votes of the named replicas on the one before.
pub(super) fn car(owner: usize, before: Tip, number: u64, voters: &[usize]) -> Car {
    let batch = batch(number);
    let lane = Index(owner as u16);
    let body = Header { lane, position: before.position + 1, parent: before.digest, batch: batch.digest() };
    Car { header: signed(owner, body), batch, proof: ballots(lane, before, voters) }
}

pub(super) fn ballots(lane: Index, tip: Tip, voters: &[usize]) -> Vec<Ballot> {
    let ballot = |voter: &usize| {
        let signed = signed(*voter, LaneVote { lane, tip });
        Ballot { signer: signed.signer, signature: signed.signature }
    };
    if tip.position == 0 { Vec::new() } else { voters.iter().map(ballot).collect() }
}

pub(super) fn prepare(leader: usize, slot: u64, cut: Cut) -> Msg {
    let vote = signed(leader, PrepVote { slot, view: 0, digest: cut_digest(&cut) });
    Msg::Prepare(Prepare { vote, cut, proofs: Vec::new(), commit: Vec::new(), tc: Vec::new() })
}

pub(super) fn leader_of(config: &Config, slot: u64) -> usize {
    usize::from(config.leader(slot, 0).0)
}

/// An owner that signs two cars for one position has one of them at most in the votes of each replica, and goes on with neither.
#[test]
fn a_forked_lane_gets_one_vote_per_position_and_replica() {
    let mut world = world(config(), 3);
    let (a, b) = (car(3, Tip::default(), 1, &[]), car(3, Tip::default(), 2, &[]));
    world.deliver(3, 0, Msg::Car(a.clone()));
    world.deliver(3, 0, Msg::Car(b.clone()));
    world.deliver(3, 1, Msg::Car(b.clone()));
    assert_eq!(world.up(0).lanes().newest(Index(3)), a.tip());
    assert_eq!(world.up(1).lanes().newest(Index(3)), b.tip());
    // Both branches are certified with the owner's own vote; each replica goes on with its own.
    let (next_a, next_b) = (car(3, a.tip(), 3, &[0, 3]), car(3, b.tip(), 4, &[1, 3]));
    world.deliver(3, 0, Msg::Car(next_b));
    assert_eq!(world.up(0).lanes().newest(Index(3)), a.tip(), "the other branch is not voted for");
    world.deliver(3, 0, Msg::Car(next_a.clone()));
    assert_eq!(world.up(0).lanes().newest(Index(3)), next_a.tip());
    world.run(5_000_000);
    assert_eq!(world.ledger.violation, None);
    let heights: Vec<u64> = (0..3).map(|node| world.executed_slot(node)).collect();
    assert!(heights[0] > 0 && heights.iter().all(|height| *height == heights[0]), "{heights:?}");
}

/// A car that waits for an older one gets no vote once another car of its position has it, whenever the older one comes.
#[test]
fn a_car_that_waits_gets_no_second_vote_of_its_position() {
    let mut world = world(config(), 3);
    let first = car(3, Tip::default(), 1, &[]);
    let [a, b] = [2, 3].map(|number| car(3, first.tip(), number, &[1, 3]));
    world.deliver(3, 0, Msg::Car(a));
    world.deliver(3, 0, Msg::Car(first.clone()));
    world.deliver(3, 0, Msg::Car(b.clone()));
    // The answer to the question for the older car makes the replica look at what waits.
    world.deliver(1, 0, Msg::Cars(vec![first]));
    let second = |record: &&Record| matches!(record, Record::LaneVote(vote) if vote.tip.position == 2);
    assert_eq!(world.log(0).iter().filter(second).count(), 1);
    assert_eq!(world.up(0).lanes().newest(Index(3)), b.tip());
}

/// A single uncommitted car bounds the waste: a car without a certificate of the one before is refused, however many come.
#[test]
fn a_flood_of_cars_fills_no_memory() {
    let config = Config { ahead: 8, timeout: 3_600_000_000, tips: Tips::Certified, coverage: 3, ..config() };
    let mut world = world(Config { cover_wait: 3_600_000_000, ..config }, 3);
    let mut before = Tip::default();
    for number in 0..1_000 {
        let lonely = car(3, Tip { position: 40 + number, digest: B256::repeat_byte(1) }, number, &[3]);
        assert!(!world.deliver(3, 0, Msg::Car(lonely)), "one vote certifies nothing");
        let next = car(3, before, number, &[1, 3]);
        before = next.tip();
        world.deliver(3, 0, Msg::Car(next));
    }
    let (cars, ..) = world.up(0).size();
    assert!(cars <= 8, "{cars} cars of a lane that nothing commits");
}

/// Uncommitted cars of a lane are bounded in bytes as well, at the edge: one more does not pass, and a single one of any length does.
#[test]
fn a_flood_of_long_cars_fills_no_memory() {
    const LENGTH: usize = 50_000;
    let quiet =
        Config { timeout: 3_600_000_000, cover_wait: 3_600_000_000, tips: Tips::Certified, coverage: 3, ..config() };
    let stored = |ahead_bytes: usize| {
        let mut world = world(Config { ahead_bytes, ..quiet.clone() }, 3);
        let mut before = Tip::default();
        for number in 0..20 {
            let batch = Batch::new(1, Address::ZERO, vec![vec![number; LENGTH].into()]);
            let mut next = car(3, before, number.into(), &[1, 3]);
            let body = Header { batch: batch.digest(), ..next.header.body };
            (next.header, next.batch) = (signed(3, body), batch);
            before = next.tip();
            world.deliver(3, 0, Msg::Car(next));
        }
        world.up(0).lanes().cars().count()
    };
    let length = Batch::new(1, Address::ZERO, vec![vec![0; LENGTH].into()]).bytes();
    assert_eq!(stored(5 * length), 5);
    assert_eq!(stored(5 * length - 1), 4);
    assert_eq!(stored(64), 1, "a single car of any legal length passes");
}

/// A report names one certificate per lane: more are not even verified.
#[test]
fn a_report_with_two_certificates_of_a_lane_is_dropped() {
    let mut world = world(config(), 3);
    let tip = |position: u64| {
        let tip = Tip { position, digest: B256::repeat_byte(position as u8) };
        Certificate { lane: Index(3), tip, ballots: ballots(Index(3), tip, &[1, 3]) }
    };
    let report = |tips: Vec<Certificate>| Msg::Status(Status { done: 0, stable: 0, tips });
    let (one, two) = (report(vec![tip(7)]), report(vec![tip(7), tip(8)]));
    assert!(world.deliver(3, 0, one) && !world.deliver(3, 0, two));
}

/// A tip that no replica can serve costs its leader the view, and no replica its safety. Returns the votes for it.
fn votes_for_an_unavailable_tip(mutation: Option<Mutation>) -> usize {
    let config = Config { mutation, ..config() };
    let leader = leader_of(&config, 1);
    let mut world = world(config, leader);
    let mut cut = vec![Tip::default(); 4];
    cut[leader] = Tip { position: 1, digest: B256::repeat_byte(9) };
    let others: Vec<usize> = (0..4).filter(|node| *node != leader).collect();
    for node in &others {
        assert!(world.deliver(leader, *node, prepare(leader, 1, cut.clone())));
    }
    let voted = |record: &Record| matches!(record, Record::Voted(vote) if vote.digest == cut_digest(&cut));
    let votes = others.iter().filter(|node| world.log(**node).iter().any(voted)).count();
    if mutation.is_none() {
        world.request_at(0, 7, vec![others[0]]);
        world.run(3_000_000);
        assert_eq!(world.ledger.violation, None);
        for node in others {
            assert_eq!(world.transactions(node).len(), 1, "{}", world.describe());
            assert_eq!(world.up(node).lanes().committed(Index(leader as u16)), Tip::default());
        }
    }
    votes
}

#[test]
fn an_unavailable_tip_is_not_voted_for() {
    assert_eq!(votes_for_an_unavailable_tip(None), 0);
    assert_eq!(votes_for_an_unavailable_tip(Some(Mutation::VoteWithoutData)), 3, "the test notices votes without data");
}

/// Cuts that are too short, old or contradictory, and proposals of other replicas, lead nowhere.
#[test]
fn cuts_that_lie_are_dropped() {
    let config = config();
    let leader = leader_of(&config, 1);
    let other = (leader + 1) % 4;
    let mut world = world(config, leader);
    let tips = |count| vec![Tip::default(); count];
    assert!(!world.deliver(leader, other, prepare(leader, 1, tips(3))), "three lanes of four");
    assert!(!world.deliver(other, (leader + 2) % 4, prepare(other, 1, tips(4))), "not the leader");
    assert!(!world.deliver(leader, other, prepare(leader, 1_000, tips(4))), "beyond the window");
    let Msg::Prepare(mut lie) = prepare(leader, 1, tips(4)) else { unreachable!() };
    lie.cut[0].position = 1;
    assert!(!world.deliver(leader, other, Msg::Prepare(lie)), "a cut that its digest does not name");
    // The first of two proposals counts, an empty cut decides an empty slot.
    assert!(world.deliver(leader, other, prepare(leader, 1, tips(4))));
    let mut second = tips(4);
    second[other] = Tip { position: 1, digest: B256::repeat_byte(1) };
    assert!(world.deliver(leader, other, prepare(leader, 1, second.clone())), "a second proposal is evidence");
    assert!(!world.deliver(leader, other, prepare(leader, 1, second)), "once");
    assert_eq!(world.up(other).view_of(1), 0);
}

/// A certificate for a cut that a replica does not have decides; the cut is fetched.
#[test]
fn a_decision_without_its_cut_fetches_it() {
    let mut world = world(config(), 3);
    let cut = vec![Tip::default(); 4];
    let digest = cut_digest(&cut);
    let vote = |node: usize| {
        let signed = signed(node, Ack { slot: 1, view: 0, digest });
        Ballot { signer: signed.signer, signature: signed.signature }
    };
    let qc = |voters: &[usize]| Qc {
        slot: 1,
        view: 0,
        digest,
        phase: Phase::Confirm,
        ballots: voters.iter().map(|node| vote(*node)).collect(),
    };
    let few = qc(&[0, 3]);
    assert!(!world.deliver(3, 1, Msg::Commit(Commit { qc: few, cut: Cut::new() })), "two votes decide nothing");
    let twice = qc(&[0, 3, 3]);
    assert!(!world.deliver(3, 1, Msg::Commit(Commit { qc: twice, cut: Cut::new() })), "one replica twice");
    let enough = qc(&[0, 2, 3]);
    let logged = |world: &World, node: usize| {
        world.log(node).iter().any(|record| matches!(record, Record::Cut(1, known) if cut_digest(known) == digest))
    };
    for node in [1, 2] {
        assert!(world.deliver(3, node, Msg::Commit(Commit { qc: enough.clone(), cut: Cut::new() })));
        assert_eq!((world.up(node).done(), logged(&world, node)), (0, false));
    }
    // A decision that is told again may bring the cut too.
    assert!(world.deliver(3, 2, Msg::Commit(Commit { qc: enough, cut: cut.clone() })));
    assert!(world.up(2).done() == 1 && logged(&world, 2), "a cut in use is in the log");
    assert!(
        !world.deliver(3, 1, Msg::Cut(CutOf { slot: 1, cut: vec![Tip { position: 1, digest }; 4] })),
        "another cut"
    );
    assert!(world.deliver(3, 1, Msg::Cut(CutOf { slot: 1, cut })));
    assert!(world.up(1).done() == 1 && logged(&world, 1));
}

/// A half/half partition at full load: lanes grow on both sides, nothing is ordered; one slot orders the backlog afterwards.
#[test]
fn a_partition_leaves_no_hangover() {
    let mut world = World::new(Conditions { persist: 100, ..Conditions::new(config()) });
    let cars = 1_500;
    for number in 0..cars {
        world.request_at(number * 10_000 / 4, number, vec![(number % 4) as usize]);
    }
    world.run(500_000);
    world.links.cut = [0, 1].into();
    let before = world.up(0).done();
    world.run(3_500_000);
    assert!(world.up(0).done() <= before + 5, "no quorum, no slot");
    assert!(world.up(0).lanes().certified(Index(1)).position > 200, "lanes grow: {}", world.describe());
    world.links.cut.clear();
    let healed: Micros = world.now();
    let ready = |world: &World| (0..4).all(|node| world.transactions(node).len() as u64 >= (healed - 10_000) / 2_500);
    while !ready(&world) && world.now() < healed + 5_000_000 {
        world.run(world.now() + 1_000);
    }
    let hangover = world.now() - healed;
    println!("hangover {hangover} µs");
    assert!(hangover < 300_000, "{hangover} µs\n{}", world.describe());
    world.run(8_000_000);
    assert!((0..4).all(|node| world.transactions(node).len() as u64 == cars));
    assert_eq!(world.ledger.violation, None);
    let (cars, slots, cuts) = world.up(0).size();
    assert!(slots < 300 && cuts < 600 && cars <= 1_500, "{cars} cars, {slots} slots, {cuts} cuts");
}

/// A replica that is behind by more than others retain fetches the state, and goes on.
#[test]
fn a_replica_far_behind_goes_on_from_a_checkpoint() {
    let mut world = World::new(Conditions::new(Config { interval: 8, ..config() }));
    for number in 0..400 {
        world.request_at(number * 5_000, number, vec![(number % 3) as usize]);
    }
    world.run(10_000);
    world.crash(3, 1_500_000);
    world.run(6_000_000);
    assert_eq!(world.ledger.violation, None);
    let heights: Vec<u64> = (0..4).map(|node| world.executed_slot(node)).collect();
    assert!(heights.iter().all(|height| *height == heights[0]), "{heights:?}\n{}", world.describe());
    assert!(world.up(3).stable().slot > 50);
    assert_eq!(world.transactions(3).len(), 400);
    let (cars, slots, _) = world.up(0).size();
    assert!(cars < 400 && slots < 40, "{cars} cars and {slots} slots are retained");
}

/// A small question gets a bounded answer.
#[test]
fn sync_answers_are_bounded() {
    let config = Config { sync_bytes: 1_000_000, ..config() };
    let mut world = World::new(Conditions::new(config));
    for number in 0..60u64 {
        let tx = [number.to_be_bytes().to_vec(), vec![0; 200_000]].concat();
        let batch = Batch::new(1, Address::ZERO, vec![tx.into()]);
        world.run(world.now() + 20_000);
        world.call(0, |replica: &mut Autobahn, now, out| {
            use phalanx_bft::Protocol as _;
            replica.on_input(now, phalanx_bft::Input::Batch(batch), out);
        });
    }
    world.run(world.now() + 100_000);
    let tip = world.up(1).lanes().newest(Index(0));
    assert_eq!(tip.position, 60);
    let answer = |world: &mut World| {
        use phalanx_bft::{Checked, Out, Protocol as _};
        let message = Msg::Sync(Sync { lane: Index(0), tip, above: 0 });
        let mut out = Vec::new();
        let checked = Checked::new(message, Domain::default(), |_| true).expect("nothing is refused");
        let mut replica = world.up(1).clone();
        replica.on_message(world.now(), Index(3), checked.clone(), &mut out);
        for _ in 0..50 {
            replica.on_message(world.now(), Index(3), checked.clone(), &mut out);
        }
        let sent = out.iter().filter_map(|out| match out {
            Out::Send(_, message @ Msg::Cars(_)) => Some(alloy_rlp::encode(message).len()),
            _ => None,
        });
        sent.collect::<Vec<usize>>()
    };
    let answers = answer(&mut world);
    assert!(answers.iter().all(|bytes| *bytes <= 1_300_000), "{answers:?}");
    assert!(answers.iter().sum::<usize>() < 10 << 20, "{answers:?}");
}

/// Certificates with too few votes, of one replica twice, or for another car, are refused before their signatures are verified.
#[test]
fn certificates_need_distinct_voters() {
    let world = world(config(), 3);
    use phalanx_bft::Protocol as _;
    let tip = Tip { position: 1, digest: B256::repeat_byte(1) };
    let certificate = |voters: &[usize]| {
        Msg::Certificate(Certificate { lane: Index(2), tip, ballots: ballots(Index(2), tip, voters) })
    };
    let wants = |message: Msg| world.up(0).wants(Index(2), &message);
    assert!(wants(certificate(&[1, 2])));
    assert!(!wants(certificate(&[2])) && !wants(certificate(&[2, 2])));
    let vote = LaneVote { lane: Index(2), tip };
    assert_ne!(vote.signed_bytes(Domain::default()), LaneVote { lane: Index(1), tip }.signed_bytes(Domain::default()));
}

/// Bytes of any kind are decoded or refused, never panicked at. `PHALANX_SEED` sets the seed.
#[test]
fn damaged_bytes_are_refused() {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(43);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let world = world(config(), 3);
    let tip = Tip { position: 1, digest: B256::repeat_byte(1) };
    let certificate = Certificate { lane: Index(2), tip, ballots: ballots(Index(2), tip, &[1, 2]) };
    let Msg::Prepare(mut full) = prepare(1, 1, vec![tip; 4]) else { unreachable!() };
    full.proofs.push(certificate.clone());
    let samples = [
        Msg::Car(car(1, tip, 1, &[0, 1])),
        Msg::Cars(vec![car(1, tip, 1, &[0, 1]); 2]),
        Msg::Certificate(certificate),
        Msg::Prepare(full),
    ];
    for message in samples {
        let bytes = alloy_rlp::encode(&message);
        for _ in 0..2_000 {
            let mut damaged = bytes.clone();
            match rng.random_range(0..3) {
                0 => damaged.truncate(rng.random_range(0..bytes.len())),
                1 => damaged[rng.random_range(0..bytes.len())] ^= 1 << rng.random_range(0..8),
                _ => damaged[rng.random_range(0..bytes.len())] = rng.random(),
            }
            let decoded: Result<Msg, _> = alloy_rlp::Decodable::decode(&mut damaged.as_slice());
            if let Ok(decoded) = decoded {
                use phalanx_bft::Protocol as _;
                let _ = world.up(0).wants(Index(1), &decoded);
            }
        }
    }
}
