//! Files of a network of replicas: keys, and the network as each replica reaches it.

use super::{
    layout::{Place, Plan, Seat, json_rpc},
    links::Links,
};
use crate::cmd::net::{NetworkFile, be_of, deal, free_addresses, member};
use phalanx::alloy::genesis::Genesis;
use phalanx_keys::fresh_seed;
use phalanx_lab::error::Usage;
use phalanx_node::net::{NetConfig, ProtocolName};
use std::path::{Path, PathBuf};

/// Patience with a primary, in µs: all validators share the cores of one machine.
const TIMEOUT_US: u64 = 2_000_000;

/// Makes a genesis one of replicas, which order a block before they know the gas of its parent.
pub(super) fn fix_base_fee(genesis: &mut Genesis) {
    genesis.config.extra_fields.insert("phalanxFixedBaseFee".into(), true.into());
}

/// Deals the keys of a network, and leaves its folders and its file.
pub(super) fn make(folder: &Path, protocol: ProtocolName, replicas: usize, genesis: &Genesis) -> anyhow::Result<()> {
    let free = free_addresses(2 * replicas)?;
    let members = free.chunks(2).enumerate().map(|(index, of)| member(index, of[0], of[1])).collect();
    let mut network = NetConfig::new(protocol, 0, fresh_seed()?.into(), members);
    network.timeout_us = TIMEOUT_US;
    be_of(&mut network, genesis)?;
    network.check().map_err(|error| Usage(format!("{replicas} validators: {error}")))?;
    deal(&network, &fresh_seed()?, folder)?;
    NetworkFile { network, engine: None, members: Vec::new() }.write(&folder.join("network.json"))
}

/// Places of the replicas, with ports that are free now, and the links between them.
pub(super) fn places(
    folder: &Path,
    homes: Vec<PathBuf>,
    protocol: ProtocolName,
    plan: &Plan,
) -> anyhow::Result<(Vec<Place>, Option<Links>)> {
    let dealt = NetworkFile::read(&folder.join("network.json"))?;
    if dealt.network.protocol != protocol {
        let of = format!("{:?}", dealt.network.protocol).to_lowercase();
        return Err(Usage(format!("{} holds a network of --consensus {of}", folder.display())).into());
    }
    let free = free_addresses(3 * homes.len())?;
    let peers: Vec<_> = free.chunks(3).map(|of| of[0]).collect();
    let links = plan.links.then(|| Links::start(&peers)).transpose()?;
    let mut places = Vec::new();
    for (index, home) in homes.into_iter().enumerate() {
        let mut file = dealt.clone();
        for (other, member) in file.network.replicas.iter_mut().enumerate() {
            (member.peers, member.clients) = (free[3 * other], free[3 * other + 1]);
            if let Some(links) = links.as_ref().filter(|_| other != index) {
                member.peers = links.address(index, other);
            }
        }
        let network = folder.join(format!("network-{index}.json"));
        file.write(&network)?;
        let index = u16::try_from(index)?;
        let rpc = json_rpc(plan.rpc_port, index, free[3 * usize::from(index) + 2])?;
        places.push(Place { data: home.clone(), home, rpc, seat: Seat::Replica { protocol, network, index } });
    }
    Ok((places, links))
}
