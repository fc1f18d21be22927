//! Points of a figure, simulated side by side: each is a pure function of its setting.

use phalanx_lab::{parallel, report::text::counted, ui::Ui};

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
    parallel::all((ui, &what), usize::MAX, items, name, run)
}
