//! `replica`: one replica of a network, from its configuration file.

use super::{
    engine,
    file::{Execution, NetworkFile, OwnReplica, beginning},
    snapshot,
};
use crate::{exit, output, ui};
use clap::Args;
use phalanx_bft::Index;
use phalanx_lab::ui::Ui;
use phalanx_net::{Beginning, Cut, Replica, ReplicaError, find_beginning, is_joining};
use serde_json::json;
use std::{
    io::BufRead as _,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    thread,
    time::Duration,
};

#[derive(Debug, Args)]
pub(crate) struct ReplicaArgs {
    /// Configuration of the network, as `phalanx net --dir DIR` writes it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Index of the replica, from 0
    #[arg(long)]
    index: u16,
    /// Rejoin without the newest log, with an empty folder or an older copy: the replica is silent until it cannot contradict what it may
    /// have said. At most as many at a time as may be faulty
    #[arg(long, conflicts_with = "moved")]
    rejoin: bool,
    /// Trust a folder that was moved or restored to be the replica's newest one
    #[arg(long)]
    moved: bool,
    /// Join by a snapshot of the other replicas' state, whatever the folder holds; the replica is silent at first, as with --rejoin. One
    /// that lacks blocks that no other replica retains does so by itself
    #[arg(long, conflicts_with_all = ["rejoin", "moved"])]
    join: bool,
    /// Read commands from stdin, a line each: `cut holds|loses INDEX...`, `heal`, `status`, `stop`. The end of stdin stops the
    /// replica
    #[arg(long)]
    control: bool,
}

/// A command on stdin.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Cut(Cut, Vec<Index>),
    Heal,
    Status,
    Stop,
}

impl Command {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let command = match words.next()? {
            "cut" => {
                let cut = match words.next()? {
                    "holds" => Cut::Holds,
                    "loses" => Cut::Loses,
                    _ => return None,
                };
                let peers = words.by_ref().map(|word| word.parse().map(Index)).collect::<Result<_, _>>();
                Self::Cut(cut, peers.ok()?)
            }
            "heal" => Self::Heal,
            "status" => Self::Status,
            "stop" => Self::Stop,
            _ => return None,
        };
        words.next().is_none().then_some(command)
    }
}

impl ReplicaArgs {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        let mut own = OwnReplica::read(&self.config, self.index)?;
        let ui = ui::open();
        let mut beginning = beginning(self.rejoin, self.moved, self.join);
        let commands = self.control.then(commands);
        let stops = || ui.stopped() || wants_stop(commands.as_ref());
        loop {
            let OwnReplica { file, keys, folder, .. } = &own;
            let joins = beginning == Beginning::Snapshot || is_joining(folder);
            let ended = match if joins { snapshot::join(file, keys, folder, stops) } else { Ok(true) } {
                Ok(false) => return Ok(exit::OK),
                Ok(true) => {
                    beginning = if joins { Beginning::Usual } else { beginning };
                    serve(&own, &mut beginning, (&ui, commands.as_ref()))
                }
                Err(error) => Err(error),
            };
            let error = match ended {
                Err(error) => error,
                served => return served,
            };
            match error.downcast_ref() {
                Some(ReplicaError::Behind { .. }) if has_snapshots(file) => {
                    eprintln!("phalanx: {error}");
                    beginning = Beginning::Snapshot;
                }
                Some(ReplicaError::NoBoundary { .. }) => {
                    if !find_beginning(&file.network, keys, folder, &mut || !stops())? {
                        return Ok(exit::OK);
                    }
                }
                Some(&ReplicaError::Ended { epoch, height, network }) => match own.in_epoch(epoch, network)? {
                    Some(next) => {
                        eprintln!("phalanx: epoch {epoch} begins above height {height}");
                        own = next;
                    }
                    None => {
                        eprintln!(
                            "phalanx: epoch {epoch} begins above height {height}, and this replica is no member of it"
                        );
                        return Ok(exit::OK);
                    }
                },
                _ => return Err(error),
            }
        }
    }
}

/// Runs a replica until it is stopped, or ends.
fn serve(
    OwnReplica { file, keys, folder, index, .. }: &OwnReplica,
    beginning: &mut Beginning,
    (ui, commands): (&Ui, Option<&Receiver<Command>>),
) -> anyhow::Result<u8> {
    let replica = engine::start(&file.network, file.engine()?, keys.clone(), folder, *beginning)?;
    // The log has the rest.
    *beginning = Beginning::Usual;
    output::print(&format!("{}\n", json!({ "ready": index })))?;
    while !ui.stopped() && !replica.has_ended() {
        match next(commands) {
            Some(Command::Cut(cut, peers)) => replica.cut(&peers, cut),
            Some(Command::Heal) => replica.cut(&[], Cut::Loses),
            Some(Command::Status) => print(&replica)?,
            Some(Command::Stop) => break,
            None => {}
        }
    }
    let ended = replica.has_ended();
    print(&replica)?;
    replica.stop()?;
    Ok(if ended { exit::INTERNAL } else { exit::OK })
}

/// True if the replicas of a network offer snapshots: those that execute on their workers make none.
fn has_snapshots(file: &NetworkFile) -> bool {
    file.network.snapshot_every > 0 && file.engine().is_ok_and(|engine| engine.execution == Execution::Decoupled)
}

/// True once a command says so. A replica that joins heeds no other one.
fn wants_stop(commands: Option<&Receiver<Command>>) -> bool {
    commands.is_some_and(|commands| match commands.try_recv() {
        Ok(command) => command == Command::Stop,
        Err(TryRecvError::Disconnected) => true,
        Err(TryRecvError::Empty) => false,
    })
}

fn print(replica: &Replica) -> anyhow::Result<()> {
    output::print(&format!("{}\n", json!({ "status": replica.status() })))
}

/// Commands of stdin, read by a thread.
fn commands() -> Receiver<Command> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match Command::parse(&line) {
                Some(command) => {
                    if sender.send(command).is_err() {
                        return;
                    }
                }
                None => eprintln!("phalanx: {line:?} is none of cut, heal, status, stop"),
            }
        }
    });
    receiver
}

/// The next command, if one comes within a moment. The end of stdin is a command to stop.
fn next(commands: Option<&Receiver<Command>>) -> Option<Command> {
    const MOMENT: Duration = Duration::from_millis(20);
    let Some(commands) = commands else {
        thread::sleep(MOMENT);
        return None;
    };
    match commands.recv_timeout(MOMENT) {
        Ok(command) => Some(command),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Command::Stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words_and_nothing_else() {
        let cut = |cut, peers: &[u16]| Some(Command::Cut(cut, peers.iter().map(|peer| Index(*peer)).collect()));
        assert_eq!(Command::parse("cut holds 0 2"), cut(Cut::Holds, &[0, 2]));
        assert_eq!(Command::parse(" cut loses 1 "), cut(Cut::Loses, &[1]));
        assert_eq!(Command::parse("heal"), Some(Command::Heal));
        for wrong in ["", "cut", "cut some 1", "cut holds x", "cut holds 99999", "stop now", "STOP"] {
            assert_eq!(Command::parse(wrong), None, "{wrong:?}");
        }
    }
}
