//! Configuration of a network in its folder, and the keys of a run's.

use super::{
    args::NetArgs,
    file::{EngineSection, MemberFile, NetworkFile, read},
};
use alloy_primitives::{B256, keccak256};
use anyhow::Context as _;
use phalanx::{alloy::genesis::Genesis, chain::ChainSpec};
use phalanx_bft::{Group, Index};
use phalanx_keys::{BlsFile, KeyFile, PublicKeys, deal as dealt, deal_bls, fresh_seed};
use phalanx_lab::error::Usage;
use phalanx_net::{Links, Member, NetConfig, ProtocolName, leave_token};
use phalanx_workloads::TransferLoad;
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    os::{fd::IntoRawFd as _, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Chain id of the network.
pub(super) const CHAIN: u64 = 1;

impl NetArgs {
    /// Writes configuration and keys.
    pub(super) fn write(&self, dir: &Path) -> anyhow::Result<(PathBuf, NetworkFile)> {
        let delay_us = self.rtt.delays(self.n)?;
        let members = self.member.iter().enumerate().map(|(index, path)| MemberFile::read(path, index));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let addresses = match members.is_empty() {
            true => free_addresses(2 * self.n)?,
            false => members.iter().flat_map(|member| [member.peers, member.clients]).collect(),
        };
        let replicas = addresses.chunks(2).zip(0..).map(|(of, index)| member(index, of[0], of[1])).collect();
        // Keys are from the operating system: equal seeds would be equal networks, known to everyone.
        let (seed, instance) = match self.load.test_keys {
            true => {
                let mut seed = [0; 32];
                seed[..8].copy_from_slice(&self.load.seed.to_be_bytes());
                (seed, keccak256(seed))
            }
            false => (fresh_seed()?, B256::new(fresh_seed()?)),
        };
        let mut network = NetConfig::new(self.protocol, CHAIN, instance, replicas);
        network.authentication = self.authentication;
        network.durability = self.durability;
        network.batch_threads = self.batch_threads;
        network.batch_txs = self.batch;
        network.interval = self.interval;
        network.timeout_us = self.timeout_ms.saturating_mul(1_000);
        (network.retention, network.snapshot_every) = (self.retention, self.snapshot_every);
        network.log_bytes = self.log_kib.saturating_mul(1 << 10);
        let bandwidth = self.mbits.map_or(0, |mbits| mbits * 125_000);
        network.links = Links { delay_us, bandwidth, loss_per_mille: self.loss, seed: self.load.seed };
        let engine = match &self.genesis {
            Some(path) => {
                be_of(&mut network, &read_genesis(path)?)?;
                None
            }
            None => {
                let TransferLoad { fees, coinbase, .. } = TransferLoad::default();
                (network.base_fee, network.beneficiary) = (fees.base_fee, coinbase);
                Some(self.engine())
            }
        };
        network.check().map_err(|error| Usage(error.to_string()))?;
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let members: Vec<PublicKeys> = members.into_iter().map(|member| member.keys).collect();
        let (path, file) = (dir.join("network.json"), NetworkFile { network, engine, members });
        // Members make their keys themselves, from this file.
        if file.roster()?.is_none() {
            deal(&file.network, &seed, dir)?;
        }
        file.write(&path)?;
        Ok((path, file))
    }

    /// Engine of the laboratory's replicas.
    fn engine(&self) -> EngineSection {
        let (accounts, txs) = (self.load.clients.max(2), self.most_txs().clamp(1, u32::MAX.into()));
        EngineSection { accounts, txs, seed: self.load.seed, threads: 1, execution: self.execution }
    }
}

/// A replica of a network in a folder.
pub(crate) fn member(index: usize, peers: SocketAddr, clients: SocketAddr) -> Member {
    Member { peers, clients, keys: format!("keys-{index}.json").into(), dir: format!("replica-{index}").into() }
}

/// Sets chain id, gas limit and base fee of a network of nodes: those of their genesis.
pub(crate) fn be_of(network: &mut NetConfig, genesis: &Genesis) -> Result<(), Usage> {
    let chain = ChainSpec::from_genesis(genesis).map_err(|error| Usage(error.to_string()))?;
    let header = chain.genesis_header(genesis, B256::ZERO);
    network.chain = chain.chain_id();
    network.gas_limit = header.gas_limit;
    network.base_fee = header.base_fee_per_gas.unwrap_or_default();
    Ok(())
}

fn read_genesis(path: &Path) -> Result<Genesis, Usage> {
    let wrong = |why: &dyn core::fmt::Display| Usage(format!("{}: {why}", path.display()));
    serde_json::from_slice(&read(path)?).map_err(|error| wrong(&error))
}

/// Deals the keys of all replicas from a secret seed, and leaves the tokens of their first starts.
pub(crate) fn deal(network: &NetConfig, seed: &[u8; 32], dir: &Path) -> anyhow::Result<()> {
    let (n, faults) = (network.replicas.len(), network.faults.into());
    let keys: Result<Vec<String>, _> = match network.protocol {
        ProtocolName::Sbft => deal_bls(n, faults, seed).map(|files| files.iter().map(BlsFile::to_json).collect()),
        ProtocolName::Pbft | ProtocolName::Autobahn => {
            dealt(n, seed).map(|files| files.iter().map(KeyFile::to_json).collect())
        }
    };
    let keys = keys.map_err(|error| Usage(error.to_string()))?;
    for (index, (member, keys)) in (0..).map(Index).zip(network.replicas.iter().zip(keys)) {
        let path = dir.join(&member.keys);
        write_secret(&path, keys.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        leave_token(network, index, &dir.join(&member.dir))?;
    }
    Ok(())
}

/// Writes a file that its owner alone may read.
fn write_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Free addresses on loopback, which this process keeps until it ends: no other run takes a replica's while it is down. Their ports lie
/// below those of outgoing connections, which could take it as well.
pub(crate) fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    const PORTS: core::ops::Range<u32> = 11_000..32_000;
    // Runs that begin at the same time look in different places.
    let length = PORTS.end - PORTS.start;
    let first = std::process::id().wrapping_mul(331) % length;
    let ports = PORTS.map(|at| PORTS.start + (at + first) % length);
    let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16)));
    let free: Vec<SocketAddr> = addresses.filter(|address| keep(*address).is_ok()).take(count).collect();
    anyhow::ensure!(free.len() == count, "there are {} free ports on loopback, and {count} are needed", free.len());
    Ok(free)
}

/// Keeps an address that no socket has. Those that permit others there can listen: every listener of a replica does.
fn keep(address: SocketAddr) -> std::io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&address.into())?;
    socket.set_reuse_address(true)?;
    // Open until the process ends.
    let _ = socket.into_raw_fd();
    Ok(())
}

/// Public key of f+1 replicas, from the first replica's file.
pub(super) fn group_key(dir: &Path, file: &NetworkFile) -> anyhow::Result<[u8; 96]> {
    let path = dir.join(&file.network.replicas.first().context("no replica")?.keys);
    let keys = BlsFile::parse(&fs::read(&path).with_context(|| format!("reading {}", path.display()))?)?;
    let key = keys.public_key(Group::State).context("no public key of f+1 replicas")?;
    Ok(key.as_ref().try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn kept_addresses_are_given_once_and_can_be_listened_at_again_and_again() {
        let [first, second] = [0, 0].map(|_| free_addresses(3).expect("addresses"));
        assert!(first.iter().all(|address| !second.contains(address)));
        for address in first.iter().chain(&second) {
            for _ in 0..2 {
                drop(TcpListener::bind(address).expect("a listener"));
            }
            assert!(keep(*address).is_err(), "{address}");
        }
    }
}
