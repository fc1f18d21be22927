//! Shrinks a failing case to the smallest that still fails.

use crate::kit::{Case, Way};

/// Number of runs per candidate: races do not show every time.
const TRIES: usize = 4;

fn failure(case: &Case, ways: &[Way]) -> Option<String> {
    (0..TRIES).find_map(|_| {
        let checked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| case.check(ways)));
        checked.map_or_else(|_| Some("panicked".into()), Result::err)
    })
}

/// Removes blocks, transactions and accounts as long as the rest fails.
pub(super) fn smallest(mut case: Case, ways: &[Way], mut what: String) -> (Case, String) {
    let mut try_one = |case: &mut Case, change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        // Another kind of failure would mislead.
        let alike = |why: &String| why.starts_with("Way") == what.starts_with("Way");
        if let Some(why) = failure(&smaller, ways).filter(alike) {
            (*case, what) = (smaller, why);
            return true;
        }
        false
    };
    while case.blocks.len() > 1 && try_one(&mut case, &|case| _ = case.blocks.pop()) {}
    for block in 0..case.blocks.len() {
        for tx in (0..case.blocks[block].txs.len()).rev() {
            try_one(&mut case, &|case| _ = case.blocks[block].txs.remove(tx));
        }
        try_one(&mut case, &|case| case.blocks[block].withdrawals = None);
    }
    for account in (0..case.genesis.len()).rev() {
        try_one(&mut case, &|case| _ = case.genesis.remove(account));
    }
    (case, what)
}
