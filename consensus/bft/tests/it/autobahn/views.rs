//! Views that replicas reach at different times, through loss and restarts, and complaints that come in floods.

use super::{
    World,
    attacks::{config, leader_of, world},
    signed,
};
use phalanx_bft::{
    Index, Protocol as _,
    autobahn::{Complaint, Config, Mark, Msg, Tc, Timeout},
    lanes::{Cut, Tip, cut_digest},
};
use phalanx_world::Conditions;

/// A timeout certificate of view 0 of slot 1, in which no replica has voted.
fn ticket(of: &[usize]) -> Tc {
    let body = Timeout { slot: 1, view: 0, qc: Mark::default(), prop: Mark::default() };
    Tc { timeouts: of.iter().map(|node| signed(*node, body)).collect(), qc: Vec::new() }
}

/// The leader of view 0 is silent; `alone` alone gets the certificate of view 0, and no message of it arrives for a time.
fn split(alone: u64) -> (World, usize, Vec<usize>) {
    let config = config();
    let silent = leader_of(&config, 1);
    let alone = usize::from(config.leader(1, alone).0);
    let mut world = World::new(Conditions { silent: [Index(silent as u16)].into(), ..Conditions::new(config) });
    let others: Vec<usize> = (0..4).filter(|node| *node != silent).collect();
    world.links.cut = [alone].into();
    let tc = ticket(&[others[0], others[1], others[2]]);
    assert!(world.deliver(silent, alone, Msg::Tc(tc)));
    assert_eq!(world.up(alone).view_of(1), 1);
    let rest = others.iter().copied().filter(|node| *node != alone).collect();
    (world, alone, rest)
}

/// A leader that restarts after its vote, and before its proposal has reached another replica, proposes again: the ticket is logged.
#[test]
fn a_restarted_leader_proposes_again() {
    let (mut world, leader, rest) = split(1);
    world.request_at(0, 7, vec![rest[0]]);
    world.run(20_000);
    world.crash(leader, 1_000);
    world.run(30_000);
    assert_eq!(world.up(leader).view_of(1), 1, "{}", world.describe());
    world.links.cut.clear();
    world.run(1_000_000);
    assert_eq!(world.ledger.violation, None);
    for node in rest.into_iter().chain([leader]) {
        assert_eq!(world.up(node).decision(1).map(|qc| qc.view), Some(1), "{}", world.describe());
        assert_eq!(world.transactions(node).len(), 1, "{}", world.describe());
    }
}

/// A replica that is alone in a view shows the others how it got there. Two complaints about each of two views would never be enough.
#[test]
fn a_replica_that_is_ahead_takes_the_others_along() {
    for restarts in [false, true] {
        let (mut world, ahead, rest) = split(2);
        world.request_at(0, 7, vec![rest[0]]);
        // It complains about view 1 before anything of it arrives.
        world.run(450_000);
        if restarts {
            world.crash(ahead, 1_000);
            world.run(460_000);
        }
        assert!(rest.iter().all(|node| world.up(*node).view_of(1) == 0), "{}", world.describe());
        world.links.cut.clear();
        world.run(5_000_000);
        assert_eq!(world.ledger.violation, None);
        for node in rest.into_iter().chain([ahead]) {
            assert_eq!(world.transactions(node).len(), 1, "restarts {restarts}: {}", world.describe());
        }
    }
}

/// A faulty replica complains about every slot and view that there may be: few complaints are verified, and few are retained.
#[test]
fn a_flood_of_complaints_fills_no_memory() {
    let config = Config { timeout: 3_600_000_000, resend: 1_000_000, ..config() };
    let (parallel, window) = (config.parallel, 2 * config.interval);
    let mut world = world(config, 3);
    let complaint = |slot: u64, view: u64| {
        let cut: Cut = vec![Tip { position: slot + 1_000 * view, digest: cut_digest(&[]) }; 4];
        let prop = Mark { view, digest: cut_digest(&cut) };
        let timeout = signed(3, Timeout { slot, view, qc: Mark::default(), prop });
        Msg::Timeout(Complaint { timeout, qc: Vec::new(), cut, lead: Vec::new() })
    };
    let mut wanted = 0;
    for view in 0..20 {
        for slot in 1..=window {
            wanted += usize::from(world.deliver(3, 0, complaint(slot, view)));
        }
    }
    let (.., cuts) = world.up(0).size();
    assert!(wanted <= 32 * parallel as usize, "{wanted} of {} complaints are verified", 20 * window);
    assert!(cuts <= 2 * parallel as usize * 20, "{cuts} cuts");
    // The next period has room again, for slots that are near the newest one alone.
    world.run(world.now() + 17_000_000);
    let wants = |slot, view| world.up(0).wants(Index(3), &complaint(slot, view));
    assert!(wants(window, 100) && !wants(1, 100));
}
