//! The network from its start to Ctrl-C.

use super::{
    faults::Faults,
    joiner::Joiner,
    layout::{Layout, Order},
    partitions::Partitions,
    validator::{Kind, Validator},
};
use crate::{exit, output, ui};
use std::{fmt::Write as _, thread, time::Duration};

/// Interval at which processes are looked after.
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs the network until it is asked to end.
pub(super) fn run(
    layout: &Layout,
    order: &Order,
    mut faults: Option<Faults>,
    mut partitions: Option<Partitions>,
) -> anyhow::Result<u8> {
    let ui = ui::open();
    let mut joiner = Joiner::Waiting;
    let mut validators: Vec<_> = layout.places.iter().cloned().map(Validator::new).collect();
    let mut is_shown = false;
    while !ui.stopped() {
        for validator in &mut validators {
            validator.tend(layout, order)?;
        }
        if !is_shown && validators.iter().all(Validator::is_whole) {
            output::print(&banner(layout, &validators))?;
            is_shown = true;
        }
        if is_shown
            && let Some(faults) = &mut faults
            && let Some((kind, place)) = faults.strike(&mut validators)
        {
            let kind = match kind {
                Kind::Comet => "CometBFT",
                Kind::Node => "node",
            };
            output::print(&format!("kill {}: {kind} of validator {place}\n", faults.count()))?;
        }
        if is_shown
            && let (Some(partitions), Some(links)) = (&mut partitions, &layout.links)
            && let Some(words) = partitions.strike(links, &validators)
        {
            output::print(&words)?;
        }
        if is_shown && let Some(words) = joiner.tend(layout, order, &validators)? {
            output::print(&words)?;
        }
        thread::sleep(INTERVAL);
    }
    validators.extend(joiner.into_node());
    validators.iter().for_each(Validator::ask_comet_to_end);
    validators.iter_mut().for_each(Validator::ask_node_to_end);
    validators.into_iter().for_each(Validator::end);
    Ok(exit::OK)
}

/// Text that a user needs to connect.
fn banner(layout: &Layout, validators: &[Validator]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    for (place, account) in layout.accounts.iter().enumerate() {
        let _ = writeln!(text, "({place}) {}  key {}", account.address, account.key);
    }
    if !layout.accounts.is_empty() {
        text.push_str("each account has 10000 ETH; everybody knows these keys: use them here alone\n");
    }
    let _ = writeln!(text, "chain {} of {} validators", layout.chain, validators.len());
    for (number, validator) in validators.iter().enumerate() {
        let place = validator.place();
        let _ = write!(text, "validator {number}: JSON-RPC at http://{} and ws://{}", place.rpc, place.rpc);
        if let Some(comet) = place.comet_rpc() {
            let _ = write!(text, ", CometBFT's RPC at http://{comet}");
        }
        let _ = writeln!(text, ", logs in {}", place.home.display());
    }
    text.push_str("Ctrl-C ends the network\n");
    text
}
