//! Checks a state against the transactions of a book, in whatever order they ran.

use alloy_primitives::{Address, U256};
use revm::primitives::eip2780::TX_BASE_COST;

use super::{
    book::{Book, Sender, Span, Trades},
    names::{TokenId, pool_address, token_address},
};
use crate::{
    base::TRANSFER_GAS,
    check::{AccountState, CheckError, StateReader},
    pool::PhalanxPool,
    token::PhalanxToken,
};

impl Book<'_> {
    /// Exact: nonces, the sum of all fees, every token's supply over all holders, balances that no swap moved, reserves
    /// equal to the pools' balances, swaps per pool, allowances, deployed tokens. Bounded, since they depend on the
    /// order: a single sender's fees, proceeds of swaps, and each pool's reserves, whose product has not fallen.
    pub(crate) fn check(&self, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError> {
        self.check_senders(gas_used, state)?;
        let mut held = vec![U256::ZERO; self.market.pools.count as usize + 1];
        self.check_holders(&mut held, state)?;
        for (pool, trades) in (0..).zip(&self.trades) {
            check_pool(self, pool, trades, &mut held, state)?;
        }
        for (token, held) in self.market.tokens().zip(held) {
            let (address, expected) = (token_address(token), self.market.supply(token));
            if held != expected {
                return Err(CheckError::TokenSum { token: address, expected, found: held });
            }
            check_contract(address, &PhalanxToken::metadata(expected), state)?;
        }
        self.check_approvals(state)?;
        self.check_created(state)
    }

    fn check_senders(&self, gas_used: u64, state: &dyn StateReader) -> Result<(), CheckError> {
        let base = &self.market.base;
        let price = base.load.fees.effective();
        // What fails at once pays for no transfer (EIP-2780).
        let cheapest = if base.load.state_gas { TX_BASE_COST } else { TRANSFER_GAS };
        let mut paid = U256::ZERO;
        for (address, sender) in base.accounts.addresses().zip(&self.senders) {
            let account = state.account(address).map_err(CheckError::Read)?;
            let Sender { change, sent, gas } = *sender;
            let expected = u64::from(sent);
            if account.nonce != expected {
                return Err(CheckError::Nonce { address, expected, found: account.nonce });
            }
            // Genesis funds cover every debit and every limit, see `Base::funds`.
            let unpaid = U256::from(base.funds.saturating_add_signed(change));
            let least = unpaid - U256::from(u128::from(gas) * price);
            let most = unpaid - U256::from(u128::from(sent) * u128::from(cheapest) * price);
            let found = account.balance;
            if found < least || found > most {
                return Err(CheckError::BalanceOutside { address, least, most, found });
            }
            paid += unpaid - found;
        }
        let expected = U256::from(u128::from(gas_used) * price);
        if paid == expected { Ok(()) } else { Err(CheckError::FeesPaid { expected, found: paid }) }
    }

    /// Adds the accounts' balances of each token to `held`.
    fn check_holders(&self, held: &mut [U256], state: &dyn StateReader) -> Result<(), CheckError> {
        let market = self.market;
        let mut look = |token: TokenId, position: u32| {
            let span = self.moved.get(&(token, position)).copied().unwrap_or_default();
            let before = if market.holds(position, token) { market.holding } else { 0 };
            let holder = market.base.accounts.address(position as usize);
            held[token.0 as usize] += check_balance(token, holder, before, span, state)?;
            Ok(())
        };
        for position in 0..market.base.accounts.len() as u32 {
            let home = market.homes.of(position);
            look(TokenId::HUB, position)?;
            look(TokenId::of_pool(home), position)?;
            if home != 0 && market.pools.hot_share > 0.0 {
                look(TokenId::of_pool(0), position)?;
            }
        }
        self.moved
            .keys()
            .filter(|(token, position)| !market.holds(*position, *token))
            .try_for_each(|(token, position)| look(*token, *position))
    }

    fn check_approvals(&self, state: &dyn StateReader) -> Result<(), CheckError> {
        let accounts = &self.market.base.accounts;
        for ((token, owner, spender), (_, amount)) in &self.approved {
            let [owner, spender] = [owner, spender].map(|position| accounts.address(*position as usize));
            let (token, expected) = (token_address(*token), *amount);
            let slot = PhalanxToken::allowance_slot(owner, spender);
            let found = state.storage(token, slot).map_err(CheckError::Read)?;
            if found != U256::from(expected) {
                return Err(CheckError::Allowance { token, owner, spender, expected, found });
            }
        }
        Ok(())
    }

    fn check_created(&self, state: &dyn StateReader) -> Result<(), CheckError> {
        for (creator, nonce, supply) in &self.created {
            let creator = self.market.base.accounts.address(*creator as usize);
            let (address, supply) = (creator.create((*nonce).into()), U256::from(*supply));
            let [total, name, symbol] = PhalanxToken::metadata(supply);
            check_contract(address, &[total, name, symbol, (PhalanxToken::balance_slot(creator), supply)], state)?;
        }
        Ok(())
    }
}

fn check_pool(
    book: &Book<'_>,
    pool: u32,
    trades: &Trades,
    held: &mut [U256],
    state: &dyn StateReader,
) -> Result<(), CheckError> {
    let market = book.market;
    let address = pool_address(pool);
    let fixed = market.pool_storage(pool).into_iter().filter(|(slot, _)| *slot != PhalanxPool::RESERVES_SLOT);
    check_contract(address, &fixed.collect::<Vec<_>>(), state)?;

    let packed = state.storage(address, PhalanxPool::RESERVES_SLOT).map_err(CheckError::Read)?;
    let (reserves, swaps) = PhalanxPool::reserves(packed);
    if swaps != trades.swaps {
        return Err(CheckError::Swaps { pool: address, expected: trades.swaps, found: swaps });
    }
    let tokens = [TokenId::HUB, TokenId::of_pool(pool)];
    for ((token, reserve), span) in tokens.into_iter().zip(reserves).zip(trades.reserves) {
        let found = check_balance(token, address, market.reserve, span, state)?;
        if found != reserve {
            return Err(CheckError::Reserve { pool: address, expected: found, found: reserve });
        }
        held[token.0 as usize] += found;
    }
    let (least, found) = (U256::from(market.reserve).pow(U256::from(2)), reserves[0] * reserves[1]);
    if found < least { Err(CheckError::Product { pool: address, least, found }) } else { Ok(()) }
}

/// Checks a token balance that was `before` and has changed within `span`.
fn check_balance(
    token: TokenId,
    holder: Address,
    before: u128,
    span: Span,
    state: &dyn StateReader,
) -> Result<U256, CheckError> {
    let token = token_address(token);
    // Only the books of another load go below zero, and then differ.
    let [least, most] = [span.least, span.most].map(|change| U256::from(before.saturating_add_signed(change)));
    let found = state.storage(token, PhalanxToken::balance_slot(holder)).map_err(CheckError::Read)?;
    let nearest = found.clamp(least, most);
    if found == nearest { Ok(found) } else { Err(CheckError::TokenBalanceOutside { token, holder, nearest, found }) }
}

/// Checks that a contract holds no ether, created no contract, and has these values in its storage.
fn check_contract(address: Address, storage: &[(U256, U256)], state: &dyn StateReader) -> Result<(), CheckError> {
    let AccountState { balance, nonce } = state.account(address).map_err(CheckError::Read)?;
    if !balance.is_zero() {
        return Err(CheckError::Balance { address, expected: U256::ZERO, found: balance });
    }
    if nonce != 1 {
        return Err(CheckError::Nonce { address, expected: 1, found: nonce });
    }
    for (slot, expected) in storage {
        let found = state.storage(address, *slot).map_err(CheckError::Read)?;
        if found != *expected {
            return Err(CheckError::ContractSlot { address, slot: *slot, expected: *expected, found });
        }
    }
    Ok(())
}
