//! A node from its start to a signal.

use super::args::{NodeArgs, Settings};
use crate::{exit, output, ui};
use phalanx_lab::{machine::memory, ui::Ui};
use phalanx_node::{DevAccount, Node, NodeConfig};
use std::{fmt::Write as _, time::Duration};

/// Interval at which signals are looked for.
const INTERVAL: Duration = Duration::from_millis(100);

impl NodeArgs {
    pub(in crate::cmd) fn run(&self) -> anyhow::Result<u8> {
        // This process serves for months, and not one measurement.
        memory::give_back();
        let Settings { mut config, accounts, temporary } = self.settings()?;
        self.service.start_log()?;
        let ui = ui::open();
        while let Err(error) = self.serve(&config, &accounts, &ui) {
            if !self.consensus.goes_on(&mut config, error, &ui)? {
                break;
            }
        }
        drop(temporary);
        Ok(exit::OK)
    }

    /// Runs a node until it is to stop.
    fn serve(&self, config: &NodeConfig, accounts: &[DevAccount], ui: &Ui) -> anyhow::Result<()> {
        let node = Node::start(config)?;
        for cut in node.cuts() {
            let (path, at, bytes) = (cut.path.display(), cut.at, cut.bytes);
            tracing::warn!("{path} was cut off at byte {at}: {bytes} bytes belonged to no committed block");
        }
        output::print(&banner(&node, config.genesis.config.chain_id, accounts, self.development.balance()))?;
        while !ui.stopped() {
            node.wait(INTERVAL)?;
        }
        tracing::info!("stopping");
        node.stop();
        Ok(())
    }
}

/// Text that a user needs to connect.
fn banner(node: &Node, chain: u64, accounts: &[DevAccount], ether: u64) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    for (place, DevAccount { address, key }) in accounts.iter().enumerate() {
        let _ = writeln!(text, "({place}) {address}  key {key}");
    }
    if !accounts.is_empty() {
        let _ = writeln!(
            text,
            "each account had {ether} ETH at first; who knows the words has these keys: use them here alone"
        );
    }
    if node.is_open() {
        let _ = writeln!(text, "chain {chain} at block {}", node.height());
    } else {
        let _ = writeln!(text, "chain {chain} is joined by a snapshot: what follows answers once it is there");
    }
    if let Some(address) = node.metrics_address() {
        let _ = writeln!(text, "metrics at http://{address}/metrics, health at http://{address}/health");
    }
    if let Some(address) = node.abci_address() {
        let _ = writeln!(text, "ABCI for CometBFT at tcp://{address}");
    }
    if let Some(address) = node.engine_api_address() {
        let _ = writeln!(text, "Engine API for a consensus client at http://{address}");
    }
    for address in node.ingress() {
        let _ = writeln!(text, "transactions in frames at {address}");
    }
    let _ = writeln!(text, "JSON-RPC at http://{} and ws://{}", node.address(), node.address());
    text
}
