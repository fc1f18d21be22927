//! Random schedules through the states of the search, where there are too many to visit all: six replicas and two view changes.

use super::exhaustive::Search;
use phalanx_bft::{Protocol as _, View, sbft::Mutation};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// End of a schedule: the highest view, and whether a batch may be decided, or two.
struct End {
    view: View,
    decided: bool,
    broken: bool,
}

/// Follows one schedule until nothing is left to do.
fn walk(search: &Search, rng: &mut ChaCha8Rng) -> End {
    let (mut state, mut decided, mut next) = (search.initial(), false, Vec::new());
    loop {
        let able = search.decidable(&state);
        decided |= !able.is_empty();
        search.successors(&state, &mut next);
        if able.len() > 1 || next.is_empty() {
            let view = state.replicas.iter().flatten().map(|replica| replica.view()).max().unwrap_or(0);
            return End { view, decided, broken: able.len() > 1 };
        }
        state = next.swap_remove(rng.random_range(0..next.len()));
        next.clear();
    }
}

/// Schedules with the Byzantine replica at each place in turn: how many decide, and the first that breaks.
fn walks(n: u16, walks: u64, mutation: Option<Mutation>) -> (u64, u64, Option<u64>) {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(42);
    let (mut decided, mut through) = (0, 0);
    for number in 0..walks {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ number << 16);
        let search = Search::new(n.into(), (number % u64::from(n)) as u16, 2, mutation);
        let end = walk(&search, &mut rng);
        if end.broken {
            return (decided, through, Some(number));
        }
        (decided, through) = (decided + u64::from(end.decided), through + u64::from(end.view == 2));
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
