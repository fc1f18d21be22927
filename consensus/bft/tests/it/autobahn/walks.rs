//! Random schedules through three views over both paths, where there are too many states to visit all.

use super::exhaustive::Search;
use phalanx_bft::autobahn::Mutation;
use phalanx_world::walk;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Schedules with the Byzantine replica at each place in turn, from nothing and from a fast decision. Returns those through three
/// views, those with a decision, and the first that breaks.
fn walks(count: u64, mutation: Option<Mutation>) -> (u64, u64, Option<u64>) {
    let seed = std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(43);
    let (mut through, mut decided) = (0, 0);
    for number in 0..count {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ number << 16);
        let search = Search::new(4, 1, (number % 4) as u16, 2, mutation);
        let search = if number / 4 % 2 == 0 { search } else { search.after_a_fast_decision() };
        let (state, decides, broken) = walk(&search, &mut rng);
        if broken {
            return (through, decided, Some(number));
        }
        let view = state.replicas.values().map(|replica| replica.view()).max();
        (through, decided) = (through + u64::from(view >= Some(2)), decided + u64::from(decides));
    }
    println!("seed {seed}: {count} schedules, {through} through three views, {decided} with a decision");
    (through, decided, None)
}

/// `PHALANX_WALKS` is the number of schedules.
#[test]
fn schedules_through_three_views_over_both_paths_decide_one_value() {
    let count = std::env::var("PHALANX_WALKS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let (through, decided, broken) = walks(count, None);
    assert_eq!(broken, None, "two values may be decided");
    assert!(through > count / 2 && decided > count / 4, "{through} through three views, {decided} with a decision");
}

#[test]
fn schedules_notice_broken_rules() {
    for mutation in [Mutation::ExactPairs, Mutation::ForgetQc, Mutation::VoteAfterComplaint] {
        let (.., broken) = walks(20_000, Some(mutation));
        println!("{mutation:?}: {broken:?}");
        assert!(broken.is_some(), "{mutation:?} is not noticed");
    }
}
