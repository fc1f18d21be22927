//! The genesis of a market: balances, allowances, tokens and pools.

use alloy_primitives::{Address, U256};
use rayon::prelude::*;

use super::{
    names::{TokenId, pool_address, token_address},
    world::Market,
};
use crate::{
    genesis::{Genesis, GenesisAccount},
    pool::PhalanxPool,
    token::PhalanxToken,
};

/// A token and a storage entry of its contract.
type Entry = (TokenId, (U256, U256));

impl Market {
    pub(crate) fn genesis(&self) -> Genesis {
        let balance = U256::from(self.base.funds);
        let account = |address: &Address| GenesisAccount { address: *address, balance, ..Default::default() };
        let mut accounts: Vec<_> = self.base.accounts.addresses().iter().map(account).collect();

        let mut storage: Vec<Vec<_>> =
            self.tokens().map(|token| PhalanxToken::metadata(self.supply(token)).into()).collect();
        for pool in 0..self.pools.count {
            for token in [TokenId::HUB, TokenId::of_pool(pool)] {
                let slot = PhalanxToken::balance_slot(pool_address(pool));
                storage[token.0 as usize].push((slot, U256::from(self.reserve)));
            }
        }
        let holdings: Vec<Entry> =
            (0..self.base.accounts.len() as u32).into_par_iter().flat_map_iter(|position| self.of(position)).collect();
        for (token, entry) in holdings {
            storage[token.0 as usize].push(entry);
        }
        accounts.extend(self.tokens().zip(storage).map(|(token, storage)| GenesisAccount {
            address: token_address(token),
            nonce: 1,
            code: Some(PhalanxToken::runtime()),
            storage,
            ..Default::default()
        }));
        accounts.extend((0..self.pools.count).map(|pool| GenesisAccount {
            address: pool_address(pool),
            nonce: 1,
            code: Some(PhalanxPool::runtime()),
            storage: self.pool_storage(pool).into(),
            ..Default::default()
        }));
        Genesis { accounts }
    }

    pub(crate) fn pool_storage(&self, pool: u32) -> [(U256, U256); 4] {
        let tokens = [TokenId::HUB, TokenId::of_pool(pool)].map(token_address);
        PhalanxPool::storage(tokens, [self.reserve; 2])
    }

    /// Balances of an account, and its unlimited allowances to the pools it trades in.
    fn of(&self, position: u32) -> impl Iterator<Item = Entry> {
        let holder = self.base.accounts.addresses()[position as usize];
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
