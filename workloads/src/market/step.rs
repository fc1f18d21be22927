//! Transactions of a market, as positions and indices, and their encoding.

use alloy_primitives::{Address, Bytes, TxKind, U256};
use revm::context::{TxEnv, transaction::AccessList};

use super::{
    names::{TOKENS, TokenId, number, pool_address, pool_at, token_address},
    world::Market,
};
use crate::{
    base::{MAX_VALUE, TOKEN_TRANSFER_GAS, TRANSFER_GAS},
    config::TransferLoad,
    pool::{PhalanxPool, Swap},
    token::PhalanxToken,
};

/// A transaction, before it is encoded. Accounts are positions in the sorted address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) nonce: u32,
    pub(crate) action: Action,
}

/// Action of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sends ether.
    Pay { to: u32, wei: u64 },
    /// Sends tokens.
    Transfer { token: TokenId, to: u32, amount: u64 },
    /// Sends more tokens than exist, and reverts.
    Overdraw { token: TokenId, to: u32 },
    /// Sells in a pool.
    Sell { pool: u32, side: Side, amount: u64, fate: Fate },
    /// Allows another account to take tokens.
    Approve { token: TokenId, spender: u32, amount: u64 },
    /// Deploys a token.
    Create { supply: u64 },
}

/// Token of a pool that is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The token that all pools share.
    Hub,
    /// The token of this pool alone.
    Own,
}

/// Intended result of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Succeeds,
    /// The deadline is before the first block.
    TooLate,
    /// The minimum is above the best price.
    TooDear,
}

/// Range of amounts that are sold at once. Far above one, so that rounding does not matter.
pub(crate) const SALE: core::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;

/// Deadline after any block that a load can fill: fewer than 2^32 of them, twelve seconds apart.
const DEADLINE: u64 = 12 << 32;

/// Gas limits, with a margin over the gas used.
pub(crate) const SELL_GAS: u64 = 150_000;
const APPROVE_GAS: u64 = 60_000;
const CREATE_GAS: u64 = 800_000;

/// Highest of the gas limits.
pub(crate) const MAX_GAS: u64 = CREATE_GAS;

/// Gas that a call and a creation offer beyond, for state that is paid for by its size: two slots, and an account with code.
const CALL_STATE_GAS: u64 = 250_000;
const CREATE_STATE_GAS: u64 = 6_000_000;

/// Highest of the gas limits of a load.
pub(crate) const fn max_gas(load: &TransferLoad) -> u64 {
    MAX_GAS + if load.state_gas { CREATE_STATE_GAS } else { 0 }
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Hub => Self::Own,
            Self::Own => Self::Hub,
        }
    }

    pub(crate) const fn token(self, pool: u32) -> TokenId {
        match self {
            Self::Hub => TokenId::HUB,
            Self::Own => TokenId::of_pool(pool),
        }
    }
}

impl Action {
    /// True if the transaction is built to fail.
    pub(crate) const fn reverts(&self) -> bool {
        matches!(self, Self::Overdraw { .. } | Self::Sell { fate: Fate::TooLate | Fate::TooDear, .. })
    }

    pub(crate) const fn gas_limit(&self, load: &TransferLoad) -> u64 {
        let (execution, state) = match self {
            Self::Pay { .. } => (TRANSFER_GAS, 0),
            Self::Transfer { .. } | Self::Overdraw { .. } => (TOKEN_TRANSFER_GAS, CALL_STATE_GAS),
            Self::Sell { .. } => (SELL_GAS, CALL_STATE_GAS),
            Self::Approve { .. } => (APPROVE_GAS, CALL_STATE_GAS),
            Self::Create { .. } => (CREATE_GAS, CREATE_STATE_GAS),
        };
        if load.state_gas { execution + state } else { execution }
    }
}

impl Market {
    /// Encodes a step as its transaction.
    #[inline]
    pub(crate) fn encode(&self, step: &Step) -> TxEnv {
        let Step { from, nonce, action } = *step;
        let load = &self.base.load;
        let address = |position: u32| self.base.accounts.address(position as usize);
        let call = |token: TokenId, data: &[u8]| (token_address(token), U256::ZERO, Bytes::copy_from_slice(data));
        let caller = address(from);
        let (target, value, data) = match action {
            Action::Pay { to, wei } => (address(to), U256::from(wei), Bytes::new()),
            Action::Transfer { token, to, amount } => {
                call(token, &PhalanxToken::transfer(address(to), U256::from(amount)))
            }
            Action::Overdraw { token, to } => call(token, &PhalanxToken::transfer(address(to), U256::MAX)),
            Action::Approve { token, spender, amount } => {
                call(token, &PhalanxToken::approve(address(spender), U256::from(amount)))
            }
            Action::Sell { pool, side, amount, fate } => {
                let sold = token_address(side.token(pool));
                let (least, most) = self.proceeds(amount);
                let minimum = if fate == Fate::TooDear { most + U256::ONE } else { least };
                let deadline = U256::from(if fate == Fate::TooLate { 0 } else { DEADLINE });
                let data = PhalanxPool::swap(&Swap { sold, amount: U256::from(amount), minimum, to: caller, deadline });
                (pool_address(pool), U256::ZERO, Bytes::copy_from_slice(&data))
            }
            Action::Create { supply } => (Address::ZERO, U256::ZERO, PhalanxToken::creation(U256::from(supply))),
        };
        let creates = matches!(action, Action::Create { .. });
        TxEnv {
            tx_type: 2,
            caller,
            gas_limit: action.gas_limit(load),
            gas_price: load.fees.max_fee.into(),
            kind: if creates { TxKind::Create } else { TxKind::Call(target) },
            value,
            data,
            nonce: nonce.into(),
            chain_id: Some(load.chain_id),
            access_list: AccessList::default(),
            gas_priority_fee: Some(load.fees.priority_fee.into()),
            blob_hashes: Vec::new(),
            max_fee_per_blob_gas: 0,
            authorization_list: Vec::new(),
        }
    }

    /// Decodes the step of `tx`; `None` if no stream of this market contains it. The decoded step must encode to the
    /// same transaction. O(log accounts).
    pub(crate) fn decode(&self, tx: &TxEnv) -> Option<Step> {
        let position = |address: &Address| Some(self.base.accounts.position(address)? as u32);
        let small = |amount: U256| u64::try_from(amount).ok().filter(|amount| (1..=MAX_VALUE).contains(amount));
        let action = match &tx.kind {
            TxKind::Create => Action::Create { supply: small(PhalanxToken::decode_creation(&tx.data)?)? },
            TxKind::Call(target) => {
                let token = number(TOKENS, target).filter(|id| *id <= self.pools.count).map(TokenId);
                let pool = pool_at(target).filter(|pool| *pool < self.pools.count);
                match (token, pool) {
                    (Some(token), _) => match PhalanxToken::decode_transfer(&tx.data) {
                        Some((to, U256::MAX)) => Action::Overdraw { token, to: position(&to)? },
                        Some((to, amount)) => Action::Transfer { token, to: position(&to)?, amount: small(amount)? },
                        None => {
                            let (spender, amount) = PhalanxToken::decode_approve(&tx.data)?;
                            Action::Approve { token, spender: position(&spender)?, amount: small(amount)? }
                        }
                    },
                    (_, Some(pool)) => {
                        let swap = PhalanxPool::decode_swap(&tx.data)?;
                        let side = [Side::Hub, Side::Own]
                            .into_iter()
                            .find(|side| token_address(side.token(pool)) == swap.sold)?;
                        let amount = u64::try_from(swap.amount).ok().filter(|amount| SALE.contains(amount))?;
                        let fate = if swap.deadline.is_zero() {
                            Fate::TooLate
                        } else if swap.minimum > self.proceeds(amount).1 {
                            Fate::TooDear
                        } else {
                            Fate::Succeeds
                        };
                        Action::Sell { pool, side, amount, fate }
                    }
                    (None, None) => Action::Pay { to: position(target)?, wei: small(tx.value)? },
                }
            }
        };
        let step = Step { from: position(&tx.caller)?, nonce: u32::try_from(tx.nonce).ok()?, action };
        (self.encode(&step) == *tx).then_some(step)
    }
}
