//! Snapshots of states, readable from any thread beside the engine's work.

use super::{
    Service,
    kept::Kept,
    reads::{corrupt, read, shown, stored},
};
use crate::state::{
    StateError,
    encoding::{decode_slot, slot_key},
};
use alloy_primitives::{Address, B256, U256};
use phalanx_engine_api::{AccountView, Failure, ReadState, StateView, ViewAt};
use std::sync::Arc;

#[derive(Debug)]
struct Snapshot {
    height: u64,
    root: B256,
    view: phalanx_merkle::Snapshot,
}

impl ReadState for Service {
    /// Takes a snapshot. A committed state is readable while a rewind can reach it, a speculative one until it loses.
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure> {
        let Kept { view, .. } = self.kept(at)?;
        let reader = read(&view)?;
        let (height, root) = (reader.height().unwrap_or_default(), B256::new(reader.root()));
        drop(reader);
        Ok(Arc::new(Snapshot { height, root, view }))
    }
}

impl StateView for Snapshot {
    fn height(&self) -> u64 {
        self.height
    }

    fn root(&self) -> B256 {
        self.root
    }

    fn account(&self, address: Address) -> Result<Option<AccountView>, Failure> {
        Ok(stored(&read(&self.view)?, &address)?.as_ref().and_then(shown))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, Failure> {
        let reader = read(&self.view)?;
        let incarnation = stored(&reader, &address)?.map_or(0, |account| account.incarnation);
        let name = slot_key(&address, &U256::from_be_bytes(slot.0), incarnation);
        let Some(bytes) = reader.get(name.as_slice()) else { return Ok(B256::ZERO) };
        let word = decode_slot(bytes).ok_or_else(|| corrupt(StateError(format!("slot {slot} of {address}"))))?;
        Ok(B256::from(word))
    }
}
