//! Values of accounts that are set, each by a block of edits.

use super::common::{add, number, order, short};
use crate::{
    orders::Order,
    rpc::{
        api::Api,
        args::{self},
        error::RpcError,
        registry::Registry,
    },
};
use ::phalanx::{Edit, Edited, revm::state::Bytecode};
use alloy_primitives::{Address, Bytes};

pub(super) fn register(registry: &mut Registry) {
    add(registry, &["anvil_setBalance", "hardhat_setBalance"], 2, |api, args| {
        let balance = args.required(1, number)?;
        set(api, args.required(0, args::address)?, Edited::Balance(balance))
    });
    add(registry, &["anvil_addBalance"], 2, |api, args| {
        let account = args.required(0, args::address)?;
        let state = api.chain.state(api.chain.height())?;
        let held = state.account(&account).map_err(crate::chain::StateUnread::from)?.unwrap_or_default().balance;
        set(api, account, Edited::Balance(held.saturating_add(args.required(1, number)?)))
    });
    add(registry, &["anvil_setNonce", "hardhat_setNonce"], 2, |api, args| {
        let nonce = args.required(1, short)?;
        set(api, args.required(0, args::address)?, Edited::Nonce(nonce))
    });
    add(registry, &["anvil_setCode", "hardhat_setCode"], 2, |api, args| {
        let (account, code) = (args.required(0, args::address)?, args.required(1, args::bytes)?);
        check_code(&account, &code)?;
        set(api, account, Edited::Code(code))
    });
    add(registry, &["anvil_setStorageAt", "hardhat_setStorageAt"], 3, |api, args| {
        let (slot, word) = (args.required(1, args::slot)?, args.required(2, number)?);
        set(api, args.required(0, args::address)?, Edited::Slot(slot, word))
    });
}

fn set(api: &Api, account: Address, value: Edited) -> Result<bool, RpcError> {
    order(api, Order::Edit(vec![Edit { account, value }])).map(|_| true)
}

/// Checks that an account may have a code.
pub(super) fn check_code(account: &Address, code: &Bytes) -> Result<(), RpcError> {
    let checked = Bytecode::new_raw_checked(code.clone());
    checked.map(drop).map_err(|error| RpcError::invalid(format!("code of {account}: {error}")))
}
