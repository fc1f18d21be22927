//! A node whose replica has ended and can go on: by a snapshot, or in the next epoch.

use super::consensus::ConsensusArgs;
use crate::cmd::net::OwnReplica;
use alloy_primitives::B256;
use phalanx_lab::{error::Usage, ui::Ui};
use phalanx_node::{
    BlockSource, NodeConfig, NodeError, ReplicaConfig,
    net::{Beginning, ReplicaError, find_beginning},
};

impl ConsensusArgs {
    /// Prepares another start of a node that has ended with this error. Returns false if the node is not to start again, and the error if
    /// nothing mends it.
    pub(super) fn goes_on(&self, config: &mut NodeConfig, error: anyhow::Error, ui: &Ui) -> anyhow::Result<bool> {
        let offers = config.offers_snapshots();
        let BlockSource::Replica(replica) = &mut config.source else { return Err(error) };
        let Some(why) = error.downcast_ref::<NodeError>() else { return Err(error) };
        if why.is_behind() && offers {
            // A replica that lacks what no other one retains joins again, where others can offer a snapshot.
            replica.beginning = Beginning::Snapshot;
            return Ok(true);
        }
        if let NodeError::Replica(ReplicaError::NoBoundary { .. }) = why {
            let ReplicaConfig { network, keys, folder, .. } = &**replica;
            return Ok(find_beginning(network, keys, folder, &mut || !ui.stopped())?);
        }
        let Some((epoch, network)) = why.next_epoch() else { return Err(error) };
        tracing::info!(epoch, "the members change");
        // A replica that has run has the rest in its log.
        let has_run = matches!(why, NodeError::Epoch { .. });
        let beginning = if has_run { Beginning::Usual } else { replica.beginning };
        match self.in_epoch(epoch, network, beginning)? {
            Some(next) => **replica = next,
            None => {
                tracing::warn!(epoch, "this node is no member of the epoch: there are no more blocks, and it ends");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Replica of this node in a later epoch, whose network has this digest; `None` if it is no member there.
    fn in_epoch(&self, epoch: u64, network: B256, beginning: Beginning) -> Result<Option<ReplicaConfig>, Usage> {
        let (Some(path), Some(index)) = (&self.network, self.index) else { return Ok(None) };
        let next = OwnReplica::read(path, index)?.in_epoch(epoch, network)?;
        let config =
            |OwnReplica { file, keys, folder, .. }| ReplicaConfig { network: file.network, keys, folder, beginning };
        Ok(next.map(config))
    }
}
