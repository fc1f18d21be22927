//! A validator: a node with a replica in it, or with a CometBFT that is started once the node listens. A process that ends is started
//! again.

use super::{
    comet::Program,
    layout::{Layout, Order, Place, Seat},
};
use crate::{cmd::process::Process, exit};
use anyhow::Context as _;
use phalanx_lab::error::Different;
use std::{
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

/// Number of starts in a row without a time of peace after which a validator is given up.
const STARTS: u32 = 20;

/// Time that a process runs before its next end counts as the first.
const PEACE: Duration = Duration::from_secs(10);

/// Time that a node may take before it listens: it may read a long chain.
const PATIENCE: Duration = Duration::from_secs(120);

/// Kind of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Comet,
    Node,
}

/// A validator whose processes are started when they are missing.
#[derive(Debug)]
pub(super) struct Validator {
    place: Place,
    node: Option<Process>,
    comet: Option<Process>,
    /// True once the node listens.
    listens: bool,
    started: Instant,
    /// Starts since the last time of peace.
    starts: u32,
    /// True if the node takes a snapshot first.
    joins: bool,
}

impl Validator {
    pub(super) fn new(place: Place) -> Self {
        Self { place, node: None, comet: None, listens: false, started: Instant::now(), starts: 0, joins: false }
    }

    /// A node that joins by state sync.
    pub(super) fn joining(place: Place) -> Self {
        Self { joins: true, ..Self::new(place) }
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// True if all its processes run, as far as is known.
    pub(super) const fn is_whole(&self) -> bool {
        let has_order = match self.place.seat {
            Seat::Comet { .. } => self.comet.is_some(),
            Seat::Replica { .. } => self.listens,
        };
        self.node.is_some() && has_order
    }

    /// Starts what has ended. Never waits.
    ///
    /// # Errors
    /// If a process does not stay, or has found a difference: then a restart would hide it.
    pub(super) fn tend(&mut self, layout: &Layout, order: &Order) -> anyhow::Result<()> {
        if let Some(mut node) = self.node.take_if(|node| !node.runs()) {
            if node.code() == Some(exit::DIVERGENCE.into()) {
                return Err(Different(format!("a node has halted: {}", node.last_words())).into());
            }
            // CometBFT ends by itself when its application is gone, but takes its time.
            self.comet = None;
            self.note(&mut node)?;
        }
        if let Some(mut comet) = self.comet.take_if(|comet| !comet.runs()) {
            self.note(&mut comet)?;
        }
        if self.node.is_none() {
            self.node = Some(self.start_node(layout)?);
            (self.listens, self.started) = (false, Instant::now());
        } else if !self.listens {
            let address = match self.place.seat {
                Seat::Comet { abci, .. } => abci,
                Seat::Replica { .. } => self.place.rpc,
            };
            self.listens = TcpStream::connect(address).is_ok();
            if !self.listens && self.started.elapsed() > PATIENCE {
                let why = self.node.as_mut().map(Process::last_words).unwrap_or_default();
                anyhow::bail!("a node does not listen {why}");
            }
        } else if let Order::Comet(program) = order
            && self.comet.is_none()
        {
            self.comet = Some(self.start_comet(program)?);
            self.started = Instant::now();
        }
        Ok(())
    }

    /// Ends a process by kill -9. Returns false if it does not run.
    pub(super) fn kill(&mut self, kind: Kind) -> bool {
        let process = match kind {
            Kind::Comet => &mut self.comet,
            Kind::Node => &mut self.node,
        };
        // It stays in its place, so that it is tended as one that has ended by itself.
        self.starts = 0;
        process.as_mut().is_some_and(|process| {
            let runs = process.runs();
            process.kill();
            runs
        })
    }

    /// Asks CometBFT to end: a node without it makes no blocks.
    pub(super) fn ask_comet_to_end(&self) {
        self.comet.iter().for_each(Process::ask_to_end);
    }

    /// Waits for CometBFT, and asks the node to end.
    pub(super) fn ask_node_to_end(&mut self) {
        if let Some(comet) = self.comet.take() {
            comet.end();
        }
        self.node.iter().for_each(Process::ask_to_end);
    }

    /// Waits for the node.
    pub(super) fn end(mut self) {
        if let Some(node) = self.node.take() {
            node.end();
        }
    }

    /// Counts an end.
    fn note(&mut self, ended: &mut Process) -> anyhow::Result<()> {
        self.starts = if self.started.elapsed() > PEACE { 1 } else { self.starts + 1 };
        anyhow::ensure!(self.starts <= STARTS, "a process does not stay: {}", ended.last_words());
        Ok(())
    }

    fn start_node(&self, layout: &Layout) -> anyhow::Result<Process> {
        let Place { home, data, rpc, seat } = &self.place;
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.arg("node").arg("--genesis").arg(&layout.genesis).arg("--datadir").arg(data);
        match seat {
            Seat::Comet { abci, rpc, .. } => {
                command.args(["--consensus", "cometbft", "--abci", &abci.to_string(), "--comet-rpc", &rpc.to_string()]);
                command.args(["--snapshot-every", &layout.snapshot_every.to_string()]);
            }
            Seat::Replica { protocol, network, index } => {
                command.args(["--consensus", &format!("{protocol:?}").to_lowercase(), "--index", &index.to_string()]);
                command.arg("--network").arg(network);
            }
        }
        command.args(["--rpc", &rpc.to_string(), "--rpc-api", "eth,net,web3,txpool,debug,phalanx", "--rpc-cors", "*"]);
        command.args(["--threads", &layout.threads.to_string()]);
        if self.joins {
            command.arg("--state-sync");
        }
        Process::start(&mut command, home.join("phalanx.log"))
    }

    fn start_comet(&self, program: &Program) -> anyhow::Result<Process> {
        let mut command = Command::new(program.path());
        command.arg("start").arg("--home").arg(&self.place.home);
        Process::start(&mut command, self.place.home.join("cometbft.log"))
    }
}
