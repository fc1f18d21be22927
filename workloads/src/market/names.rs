//! Tokens and pools, by number and by address.

use alloy_primitives::{Address, address};

use crate::{config::MAX_POOLS, token::PhalanxToken};

/// A token: zero is the hub, `p + 1` that of pool `p`. Also its rank among tokens, less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TokenId(pub(crate) u32);

impl TokenId {
    pub(crate) const HUB: Self = Self(0);

    pub(crate) const fn of_pool(pool: u32) -> Self {
        Self(pool + 1)
    }
}

/// Prefix of the addresses of tokens, in 16 bytes; the number follows. Pools have a prefix of their own.
pub(super) const TOKENS: Address = address!("0x7048a1a0000000000000000000000c0100000000");
const POOLS: Address = address!("0x7048a1a0000000000000000000000b0000000000");

const fn numbered(family: Address, number: u32) -> Address {
    let mut address = family;
    let [a, b, c, d] = number.to_be_bytes();
    let bytes = &mut address.0.0;
    (bytes[16], bytes[17], bytes[18], bytes[19]) = (a, b, c, d);
    address
}

pub(super) fn number(family: Address, address: &Address) -> Option<u32> {
    let digits = address.strip_prefix(&family[..16])?;
    Some(u32::from_be_bytes(digits.try_into().ok()?))
}

pub(crate) const fn token_address(token: TokenId) -> Address {
    numbered(TOKENS, token.0)
}

pub(crate) const fn pool_address(pool: u32) -> Address {
    numbered(POOLS, pool)
}

pub(crate) fn pool_at(address: &Address) -> Option<u32> {
    number(POOLS, address).filter(|pool| *pool < MAX_POOLS)
}

/// Name of a load's contract, as `pool 28` or `token 29`; `None` for any other address.
pub fn contract_name(address: &Address) -> Option<String> {
    if *address == PhalanxToken::ADDRESS {
        return Some("the ERC20 token".into());
    }
    let token = |token| if token == TokenId::HUB.0 { "the hub token".into() } else { format!("token {token}") };
    let pool = || Some(format!("pool {}", pool_at(address)?));
    number(TOKENS, address).map(token).or_else(pool)
}

/// True if a market may have a contract at this address.
pub(crate) fn is_contract(address: &Address) -> bool {
    number(TOKENS, address).or_else(|| number(POOLS, address)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_have_names_and_accounts_have_none() {
        let name = |address| contract_name(&address).unwrap_or_default();
        assert_eq!(name(pool_address(28)), "pool 28");
        assert_eq!(name(token_address(TokenId::of_pool(28))), "token 29");
        assert_eq!(name(token_address(TokenId::HUB)), "the hub token");
        assert_eq!(name(PhalanxToken::ADDRESS), "the ERC20 token");
        assert_eq!(contract_name(&Address::ZERO), None);
    }
}
