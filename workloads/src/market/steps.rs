//! The stream of a market's steps, drawn from its seed.

use super::{
    mix::Kind,
    names::TokenId,
    step::{Action, Fate, SALE, Side, Step},
    world::Market,
};
use crate::{
    base::MAX_VALUE,
    per_account::PerAccount,
    rng::{Rng, mix},
};

/// Steps of a market's load, from the first. Holds four bytes per account, for the nonces.
#[derive(Clone)]
pub(crate) struct Steps<'a> {
    market: &'a Market,
    rng: Rng,
    nonces: PerAccount<u32>,
    remaining: u64,
}

impl<'a> Steps<'a> {
    pub(crate) const BYTES_PER_ACCOUNT: usize = PerAccount::<u32>::BYTES;

    pub(crate) fn new(market: &'a Market) -> Self {
        let load = &market.base.load;
        Self {
            market,
            // A stream of its own, apart from those of addresses, homes and transfers.
            rng: Rng::new(mix(load.seed, 0x6d6b_7478)),
            nonces: PerAccount::new(market.base.accounts.len()),
            remaining: load.txs,
        }
    }

    pub(crate) const fn market(&self) -> &'a Market {
        self.market
    }

    pub(crate) const fn remaining(&self) -> u64 {
        self.remaining
    }

    fn action(&mut self, from: u32, to: u32) -> Action {
        match self.market.mix.draw(&mut self.rng) {
            Kind::Native => Action::Pay { to, wei: self.small() },
            Kind::Erc20 => Action::Transfer { token: self.token(from), to, amount: self.small() },
            Kind::Swap => self.sell(from, Fate::Succeeds),
            Kind::Approve => Action::Approve { token: self.token(from), spender: to, amount: self.small() },
            Kind::Create => Action::Create { supply: self.small() },
            Kind::Revert => match self.rng.below(3) {
                0 => Action::Overdraw { token: self.token(from), to },
                1 => self.sell(from, Fate::TooLate),
                _ => self.sell(from, Fate::TooDear),
            },
        }
    }

    const fn small(&mut self) -> u64 {
        1 + self.rng.below(MAX_VALUE)
    }

    fn token(&mut self, holder: u32) -> TokenId {
        let homes = &self.market.homes;
        if homes.draws_hub(&mut self.rng) { TokenId::HUB } else { TokenId::of_pool(homes.of(holder)) }
    }

    fn sell(&mut self, trader: u32, fate: Fate) -> Action {
        let hot = u128::from(self.rng.word()) < self.market.hot_threshold;
        let pool = if hot { 0 } else { self.market.homes.of(trader) };
        let side = if self.rng.below(2) == 0 { Side::Hub } else { Side::Own };
        let amount = SALE.start() + self.rng.below(SALE.end() - SALE.start() + 1);
        Action::Sell { pool, side, amount, fate }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    #[inline]
    fn next(&mut self) -> Option<Step> {
        self.remaining = self.remaining.checked_sub(1)?;
        let (from, to) = self.market.base.skew.draw(&mut self.rng);
        let action = self.action(from, to);
        // A load has at most 2^32 - 1 transactions, so a counter cannot wrap.
        let counter = self.nonces.at(from);
        let nonce = *counter;
        *counter += 1;
        Some(Step { from, nonce, action })
    }
}
