//! Points of a figure, simulated side by side: each is a pure function of its setting.

use phalanx_lab::{report::text::counted, ui::Ui};
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Simulates every item on all cores and returns the results in the order of the items. Says how many are done.
///
/// # Errors
/// With the first failure, in the order of the items.
pub(super) fn all<T: Sync, R: Send>(
    ui: &Ui,
    items: &[T],
    name: impl Fn(&T) -> String + Sync,
    run: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let what = format!("simulating {}", counted(items.len(), "point"));
    let (bar, done) = (ui.bar(&what, items.len() as u64), AtomicUsize::new(0));
    let one = |item: &T| {
        let result = run(item);
        ui.say(&format!("{} of {}: {}", done.fetch_add(1, Relaxed) + 1, items.len(), name(item)));
        bar.inc(1);
        result
    };
    let results: Vec<anyhow::Result<R>> = items.par_iter().map(one).collect();
    bar.finish_and_clear();
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui;

    #[test]
    fn results_keep_their_order_and_the_first_failure_counts() {
        let items: Vec<u64> = (0..100).collect();
        let squares = all(&ui::immediate(), &items, u64::to_string, |item| Ok(item * item)).expect("results");
        assert!(squares.iter().zip(&items).all(|(square, item)| *square == item * item));
        let odd = |item: &u64| if item % 2 == 1 { anyhow::bail!("{item}") } else { Ok(*item) };
        assert_eq!(all(&ui::immediate(), &items, u64::to_string, odd).expect_err("a failure").to_string(), "1");
    }
}
