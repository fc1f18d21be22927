//! The genesis of a market: balances, allowances, tokens and pools.

use alloy_primitives::{Address, Bytes, U256};
use rayon::prelude::*;

use super::{
    names::{TokenId, pool_address, token_address},
    world::Market,
};
use crate::{
    genesis::{Genesis, GenesisAccount, Wanted},
    pool::PhalanxPool,
    token::PhalanxToken,
};

/// A token and a storage entry of its contract.
type Entry = (TokenId, (U256, U256));

impl Market {
    pub(crate) fn genesis_part(&self, wanted: &Wanted<'_>) -> Genesis {
        let mut accounts = self.base.funded(wanted);
        let mut storage: Vec<Vec<_>> =
            self.tokens().map(|token| PhalanxToken::metadata(self.supply(token)).into()).collect();
        for pool in 0..self.pools.count {
            for token in [TokenId::HUB, TokenId::of_pool(pool)] {
                let slot = PhalanxToken::balance_slot(pool_address(pool));
                storage[token.0 as usize].push((slot, U256::from(self.reserve)));
            }
        }
        let is_wanted = |(token, (slot, _)): &Entry| wanted(&token_address(*token), Some(slot));
        let holdings: Vec<Entry> = (0..self.base.accounts.len() as u32)
            .into_par_iter()
            .flat_map_iter(|position| self.of(position).filter(is_wanted))
            .collect();
        for (token, entry) in holdings {
            storage[token.0 as usize].push(entry);
        }
        let contract = |address: Address, code: Bytes, mut storage: Vec<(U256, U256)>| {
            storage.retain(|(slot, _)| wanted(&address, Some(slot)));
            let is_there = wanted(&address, None) || !storage.is_empty();
            is_there.then(|| GenesisAccount { address, nonce: 1, code: Some(code), storage, ..Default::default() })
        };
        let tokens = self.tokens().zip(storage);
        accounts.extend(
            tokens.filter_map(|(token, storage)| contract(token_address(token), PhalanxToken::runtime(), storage)),
        );
        accounts.extend(
            (0..self.pools.count).filter_map(|pool| {
                contract(pool_address(pool), PhalanxPool::runtime(), self.pool_storage(pool).into())
            }),
        );
        Genesis { accounts }
    }

    pub(crate) fn pool_storage(&self, pool: u32) -> [(U256, U256); 4] {
        let tokens = [TokenId::HUB, TokenId::of_pool(pool)].map(token_address);
        PhalanxPool::storage(tokens, [self.reserve; 2])
    }

    /// Balances of an account, and its unlimited allowances to the pools it trades in.
    fn of(&self, position: u32) -> impl Iterator<Item = Entry> {
        let holder = self.base.accounts.address(position as usize);
        let home = self.homes.of(position);
        let hot = (self.pools.hot_share > 0.0 && home != 0).then_some(0);
        let pools = [Some(home), hot].into_iter().flatten();

        let balance = (PhalanxToken::balance_slot(holder), U256::from(self.holding));
        let held = core::iter::once(TokenId::HUB).chain(pools.clone().map(TokenId::of_pool));
        let approved = pools.flat_map(|pool| [(pool, TokenId::HUB), (pool, TokenId::of_pool(pool))]);
        held.map(move |token| (token, balance)).chain(
            approved.map(move |(pool, token)| {
                (token, (PhalanxToken::allowance_slot(holder, pool_address(pool)), U256::MAX))
            }),
        )
    }
}
