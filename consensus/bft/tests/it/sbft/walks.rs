//! Random schedules through the states of the search, where there are too many to visit all: six replicas and two view changes.

use super::exhaustive::Search;
use phalanx_bft::{Protocol as _, sbft::Mutation};
use phalanx_world::walk;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Schedules with the Byzantine replica at each place in turn: how many decide, and the first that breaks.
fn walks(n: u16, walks: u64, mutation: Option<Mutation>) -> (u64, u64, Option<u64>) {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(42);
    let (mut decided, mut through) = (0, 0);
    for number in 0..walks {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ number << 16);
        let search = Search::new(n.into(), (number % u64::from(n)) as u16, 2, mutation);
        let (state, decides, broken) = walk(&search, &mut rng);
        if broken {
            return (decided, through, Some(number));
        }
        let view = state.replicas.iter().flatten().map(|replica| replica.view()).max();
        (decided, through) = (decided + u64::from(decides), through + u64::from(view == Some(2)));
    }
    println!("n = {n}, seed {seed}: {walks} schedules, {through} through two view changes, {decided} with a decision");
    (decided, through, None)
}

/// `PHALANX_WALKS` is the number of schedules.
#[test]
fn schedules_of_six_replicas_through_two_view_changes_decide_one_batch() {
    let count = std::env::var("PHALANX_WALKS").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    let (decided, through, broken) = walks(6, count, None);
    assert_eq!(broken, None, "two batches may be decided");
    assert!(decided > 0 && through > count / 2, "{decided} decide, {through} pass two view changes");
}

#[test]
fn schedules_of_six_replicas_notice_broken_rules() {
    for mutation in [Mutation::SlowOnly, Mutation::FastAtSlow] {
        let (.., broken) = walks(6, 2_000, Some(mutation));
        println!("{mutation:?}: {broken:?}");
        assert!(broken.is_some(), "{mutation:?} is not noticed");
    }
}
