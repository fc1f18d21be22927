//! The ledger of a market: per-account sums, and bounds where the result depends on the order.

use std::collections::HashMap;

use revm::context::TxEnv;

use super::{
    names::TokenId,
    step::{Action, Fate, Step},
    world::Market,
};
use crate::config::TransferLoad;

/// Sum of the executed transactions of a market, in any order.
#[derive(Clone)]
pub(crate) struct Book<'a> {
    pub(super) market: &'a Market,
    /// Senders by position.
    pub(super) senders: Vec<Sender>,
    /// Changes by token and position of the holder.
    pub(super) moved: HashMap<(TokenId, u32), Span>,
    /// Nonce and amount of the last approval by token, owner and spender. An owner's nonces keep their order, so the
    /// highest nonce wins.
    pub(super) approved: HashMap<(TokenId, u32, u32), (u32, u64)>,
    /// Creator, nonce of the creation, and supply.
    pub(super) created: Vec<(u32, u32, u64)>,
    pub(super) trades: Vec<Trades>,
    pub(super) reverted: u64,
}

/// An account as a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// Ether received less ether sent, without fees.
    pub(super) change: i128,
    /// Number of transactions sent.
    pub(super) sent: u32,
    /// Sum of their gas limits. Fewer than 2^32, each below 2^30.
    pub(super) gas: u64,
}

/// Bounds of the change of a balance. The proceeds of a sale depend on the order of sales.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) least: i128,
    pub(super) most: i128,
}

/// Swaps of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trades {
    pub(super) swaps: u32,
    /// Change of each reserve, the hub first.
    pub(super) reserves: [Span; 2],
}

impl Span {
    /// Adds an amount between `least` and `most`; subtracts if negative.
    const fn add(&mut self, least: i128, most: i128) {
        self.least += least;
        self.most += most;
    }
}

impl<'a> Book<'a> {
    pub(crate) const BYTES_PER_ACCOUNT: usize = size_of::<Sender>();

    /// A swap moves two balances, an approval an allowance; a table is at worst filled to 7/16.
    pub(crate) const BYTES_PER_TX: usize = 2 * size_of::<((TokenId, u32), Span)>() * 16 / 7;

    pub(crate) fn new(market: &'a Market) -> Self {
        Self {
            market,
            senders: vec![Sender::default(); market.base.accounts.len()],
            moved: HashMap::new(),
            approved: HashMap::new(),
            created: Vec::new(),
            trades: vec![Trades::default(); market.pools.count as usize],
            reverted: 0,
        }
    }

    pub(crate) fn add(&mut self, step: &Step) {
        let Step { from, nonce, action } = *step;
        let sender = &mut self.senders[from as usize];
        sender.sent += 1;
        sender.gas += action.gas_limit(&self.market.base.load);
        match action {
            Action::Pay { to, wei } => {
                sender.change -= i128::from(wei);
                self.senders[to as usize].change += i128::from(wei);
            }
            Action::Transfer { token, to, amount } => {
                let amount = i128::from(amount);
                self.holder(token, from).add(-amount, -amount);
                self.holder(token, to).add(amount, amount);
            }
            Action::Sell { pool, side, amount, fate: Fate::Succeeds } => {
                let (least, most) = self.market.proceeds(amount);
                // Below the reserves, which are below 2^71.
                let (least, most) = (least.saturating_to::<i128>(), most.saturating_to::<i128>());
                let amount = i128::from(amount);
                self.holder(side.token(pool), from).add(-amount, -amount);
                self.holder(side.other().token(pool), from).add(least, most);
                let trades = &mut self.trades[pool as usize];
                trades.swaps += 1;
                trades.reserves[side as usize].add(amount, amount);
                trades.reserves[side.other() as usize].add(-most, -least);
            }
            Action::Approve { token, spender, amount } => {
                let last = self.approved.entry((token, from, spender)).or_default();
                *last = (*last).max((nonce, amount));
            }
            Action::Create { supply } => self.created.push((from, nonce, supply)),
            Action::Overdraw { .. } | Action::Sell { .. } => self.reverted += 1,
        }
    }

    /// The step that `tx` stands for, if this market can have made it.
    pub(crate) fn read(&self, tx: &TxEnv) -> Option<Step> {
        self.market.decode(tx)
    }

    pub(crate) const fn load(&self) -> &TransferLoad {
        &self.market.base.load
    }

    /// True if the book belongs to `market`, or to an equal one.
    pub(crate) fn is_of(&self, market: &Market) -> bool {
        let parts = |market: &Market| (market.base.load.clone(), market.pools, market.mix);
        core::ptr::eq(self.market, market) || parts(self.market) == parts(market)
    }

    fn holder(&mut self, token: TokenId, position: u32) -> &mut Span {
        self.moved.entry((token, position)).or_default()
    }

    pub(crate) const fn reverted(&self) -> u64 {
        self.reverted
    }
}
