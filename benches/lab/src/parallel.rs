//! Work side by side: items that are pure functions of their settings.

use crate::{machine::host, ui::Ui};
use anyhow::Context as _;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs every item, on as many cores as there are and on `most` at once, and returns the results in the order of the items. Says
/// `what` is done, and how many are.
///
/// # Errors
/// With the first failure, in the order of the items; if the user stops it, or the system starts no threads.
pub fn all<T: Sync, R: Send>(
    (ui, what): (&Ui, &str),
    most: usize,
    items: &[T],
    name: impl Fn(&T) -> String + Sync,
    run: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let (bar, done) = (ui.bar(what, items.len() as u64), AtomicUsize::new(0));
    let one = |item: &T| {
        ui.go_on()?;
        let result = run(item);
        ui.say(&format!("{} of {}: {}", done.fetch_add(1, Relaxed) + 1, items.len(), name(item)));
        bar.inc(1);
        result
    };
    let threads = host::cores().min(most).clamp(1, items.len().max(1));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("starting threads")?;
    // One item at a time: they differ in length.
    let results: Vec<anyhow::Result<R>> = pool.install(|| items.par_iter().with_max_len(1).map(one).collect());
    bar.finish_and_clear();
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Interrupted, ui::Stop};
    use std::sync::Arc;

    #[test]
    fn results_keep_their_order_and_the_first_failure_counts() {
        let items: Vec<u64> = (0..100).collect();
        for most in [0, 1, 3, usize::MAX] {
            let at = (&Ui::silent(), "squaring");
            let squares = all(at, most, &items, u64::to_string, |item| Ok(item * item)).expect("results");
            assert!(squares.iter().zip(&items).all(|(square, item)| *square == item * item));
            let odd = |item: &u64| if item % 2 == 1 { anyhow::bail!("{item}") } else { Ok(*item) };
            assert_eq!(all(at, most, &items, u64::to_string, odd).expect_err("a failure").to_string(), "1");
            assert!(all(at, most, &[], u64::to_string, odd).expect("nothing").is_empty());
        }
    }

    #[test]
    fn no_item_begins_once_the_user_has_stopped() {
        let stop = Arc::new(Stop::default());
        let ui = Ui::new(false, Arc::clone(&stop)).hushed();
        let begun = AtomicUsize::new(0);
        let run = |_: &u64| {
            begun.fetch_add(1, Relaxed);
            stop.ask();
            Ok(())
        };
        let items: Vec<u64> = (0..1000).collect();
        let ended = all((&ui, "working"), 2, &items, u64::to_string, run).expect_err("stopped");
        assert!(ended.is::<Interrupted>() && begun.load(Relaxed) <= 2, "{begun:?}");
    }
}
