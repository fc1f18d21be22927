//! `members propose`: the network of the next epoch.

use super::{MemberFile, NetworkFile, later};
use crate::{exit, output};
use clap::Args;
use phalanx_keys::PublicKeys;
use phalanx_lab::error::Usage;
use phalanx_net::{Authentication, Before, Member};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct ProposeArgs {
    /// Configuration of the present network
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Member in the place of another one, as `keys new` writes it: INDEX=FILE; repeatable
    #[arg(long, value_name = "INDEX=FILE", value_parser = replacement)]
    replace: Vec<(usize, PathBuf)>,
    /// Member that is added, as `keys new` writes it; repeatable
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// Index of a member that leaves; those behind it move up; repeatable
    #[arg(long, value_name = "INDEX")]
    remove: Vec<usize>,
    /// Maximum number of faulty replicas [default: as many as the number of members permits]
    #[arg(long, value_name = "N")]
    faults: Option<u16>,
}

fn replacement(text: &str) -> Result<(usize, PathBuf), String> {
    let parts = text.split_once('=').and_then(|(index, path)| Some((index.parse().ok()?, path.into())));
    parts.ok_or_else(|| "INDEX=FILE, for example 3=operator-4/public.json".into())
}

/// A member of the next network: keys and addresses, and the folder of one that stays.
struct Seat {
    keys: PublicKeys,
    member: Member,
    stays: bool,
}

impl ProposeArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let file = NetworkFile::read(&self.config)?;
        let epoch = file.network.epoch + 1;
        if file.members.is_empty() {
            let why =
                "its keys were dealt by one command: members of a network change if each makes the own keys (keys new)";
            return Err(Usage(format!("{}: {why}", self.config.display())).into());
        }
        let seats = self.seats(&file)?;
        let mut next = file.clone();
        next.network.epoch = epoch;
        next.network.before = Some(Before { faults: file.network.faults, keys: file.signing_keys() });
        next.network.faults = self.faults.unwrap_or((seats.len().saturating_sub(1) / 3) as u16);
        (next.network.replicas, next.members) = (Vec::new(), Vec::new());
        for (index, Seat { keys, mut member, stays }) in seats.into_iter().enumerate() {
            member.keys = format!("keys-{index}-{epoch}.json").into();
            if !stays {
                member.dir = format!("replica-{index}-{epoch}").into();
            }
            next.network.replicas.push(member);
            next.members.push(keys);
        }
        // Emulated distances are of other members.
        next.network.links.delay_us.clear();
        let path = later(&self.config, file.network.epoch, epoch);
        if path.exists() {
            return Err(Usage(format!("{} is there already", path.display())).into());
        }
        check(&file, &next).map_err(Usage)?;
        next.write(&path)?;
        let (network, digest) = (path.display().to_string(), next.digest());
        output::print(&format!("{}\n", json!({ "epoch": epoch, "network": network, "digest": digest })))?;
        Ok(exit::OK)
    }

    fn seats(&self, file: &NetworkFile) -> Result<Vec<Seat>, Usage> {
        let n = file.members.len();
        let named = self.replace.iter().map(|(index, _)| index).chain(&self.remove);
        if let Some(index) = named.clone().find(|index| **index >= n) {
            return Err(Usage(format!("there is no member {index}: the network has {n}, from 0")));
        }
        if let Some(twice) =
            named.clone().enumerate().find(|(at, index)| named.clone().take(*at).any(|other| other == *index))
        {
            return Err(Usage(format!("member {} is named twice", twice.1)));
        }
        let mut seats = Vec::new();
        let kept = (0..n).filter(|index| !self.remove.contains(index));
        for (index, (keys, member)) in kept.map(|index| (index, (&file.members[index], &file.network.replicas[index])))
        {
            let replaced = self.replace.iter().find(|(of, _)| *of == index);
            seats.push(match replaced {
                Some((_, path)) => seat(path, seats.len(), file)?,
                None => Seat { keys: keys.clone(), member: member.clone(), stays: true },
            });
        }
        for path in &self.add {
            seats.push(seat(path, seats.len(), file)?);
        }
        Ok(seats)
    }
}

/// The member of a file. One that has other addresses and the same keys keeps its folder.
fn seat(path: &Path, index: usize, file: &NetworkFile) -> Result<Seat, Usage> {
    let MemberFile { keys, peers, clients } = MemberFile::read(path, index)?;
    let before = file.members.iter().position(|other| *other == keys);
    let dir = before.map(|at| file.network.replicas[at].dir.clone()).unwrap_or_default();
    Ok(Seat { keys, member: Member { peers, clients, keys: PathBuf::new(), dir }, stays: before.is_some() })
}

/// Checks that one network may come behind another.
pub(super) fn check(file: &NetworkFile, next: &NetworkFile) -> Result<(), String> {
    next.network.check().map_err(|error| error.to_string())?;
    next.roster().map_err(|error| error.to_string())?;
    let before = Before { faults: file.network.faults, keys: file.signing_keys() };
    if next.network.epoch != file.network.epoch + 1 || next.network.before != Some(before) {
        return Err("it does not come behind this network: propose it anew".into());
    }
    let of_chain = |file: &NetworkFile| {
        let network = &file.network;
        (network.instance, network.chain, network.protocol, network.gas_limit, network.base_fee)
    };
    if of_chain(file) != of_chain(next) {
        return Err("name, chain, protocol, gas limit and base fee stay what they are".into());
    }
    // What the members before have signed is verified by the scheme of the file behind.
    let signs = |file: &NetworkFile| file.network.authentication != Authentication::None;
    if signs(file) != signs(next) {
        return Err("a network whose members sign nothing has one epoch".into());
    }
    // New members take the state from those that stay, of whom one has to be correct.
    let stay = next.members.iter().filter(|member| file.members.contains(member)).count();
    let least = usize::from(file.network.faults.max(next.network.faults)) + 1;
    if stay < least {
        return Err(format!("{stay} members stay, and at least {least} have to: change the others one epoch later"));
    }
    Ok(())
}
