//! Edits of the operator of a chain for development, as a step of a block before its transactions.

use super::Engine;
use crate::{
    bal::Footprint,
    exec::overlay::Overlay,
    model::{Edit, Edited, Error},
};
use alloy_primitives::{Address, KECCAK256_EMPTY};
use revm::{
    Database as _,
    state::{Account, Bytecode, EvmState, EvmStorageSlot, TransactionId},
};
use std::sync::Arc;

impl Engine {
    /// Sets the edits of the next blocks, until others are set.
    pub(crate) fn set_edits(&mut self, edits: Arc<[Edit]>) {
        self.edits = edits;
    }
}

/// Applies edits in order. The last one of a value counts.
pub(super) fn apply(edits: &[Edit], overlay: &mut Overlay<'_>, footprint: &mut Footprint) -> Result<(), Error> {
    let mut state = EvmState::default();
    for Edit { account: address, value } in edits {
        let account = match state.get_mut(address) {
            Some(account) => account,
            None => {
                let loaded = loaded(overlay, *address)?;
                state.entry(*address).or_insert(loaded)
            }
        };
        match value {
            Edited::Balance(balance) => account.info.balance = *balance,
            Edited::Nonce(nonce) => account.info.nonce = *nonce,
            Edited::Code(code) => {
                // A block with other code has no frame.
                let code = Bytecode::new_raw_checked(code.clone()).unwrap_or_default();
                account.info.code_hash = if code.is_empty() { KECCAK256_EMPTY } else { code.hash_slow() };
                account.info.code = Some(code);
            }
            Edited::Slot(slot, word) => {
                let before = match account.storage.get(slot) {
                    Some(held) => held.original_value,
                    None => overlay.storage(*address, *slot)?,
                };
                account.storage.insert(*slot, EvmStorageSlot::new_changed(before, *word, TransactionId::ZERO));
            }
        }
    }
    for account in state.values_mut() {
        let had = account.original_info();
        let may_hold_storage = had.nonce > 0 || had.code_hash != KECCAK256_EMPTY || !account.storage.is_empty();
        if may_hold_storage && account.is_empty() {
            account.info.nonce = 1;
        }
        account.mark_touch();
    }
    footprint.add(&state, overlay.rules());
    overlay.commit(&state);
    Ok(())
}

fn loaded(overlay: &mut Overlay<'_>, address: Address) -> Result<Account, Error> {
    let info = overlay.basic(address)?;
    Ok(info.map_or_else(|| Account::new_not_existing(TransactionId::ZERO), Account::from))
}
