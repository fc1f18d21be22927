//! Short forms of transactions, by which the few that concern some senders are found among many without reading all of them.

use alloy_primitives::Address;
use revm::context::TxEnv;

/// Number of bits of a filter, as a power of two: 8 KiB, which stay in the first-level cache.
const FILTER_BITS: u32 = 16;

/// Short form of a transaction: 31 bits of its sender's address, and whether it holds authorizations (EIP-7702).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief(u32);

impl Brief {
    /// Returns the short form of `tx`.
    pub fn of(tx: &TxEnv) -> Self {
        Self(fold(&tx.caller) << 1 | u32::from(!tx.authorization_list.is_empty()))
    }

    /// True if the transaction holds authorizations.
    const fn authorizes(self) -> bool {
        self.0 & 1 == 1
    }

    /// Place of the sender in a filter.
    const fn place(self) -> u32 {
        self.0 >> (u32::BITS - FILTER_BITS)
    }
}

/// Folds an address into 31 bits, the upper ones of which depend on all of it.
fn fold(address: &Address) -> u32 {
    const MIX: u32 = 0x9e37_79b1;
    address.0.as_chunks::<4>().0.iter().fold(0, |sum: u32, part| (sum ^ u32::from_le_bytes(*part)).wrapping_mul(MIX))
        >> 1
}

/// Filter for some senders. It passes all of their transactions, all that hold authorizations, and few others.
#[derive(Debug)]
pub struct SenderFilter(Box<[u64]>);

impl SenderFilter {
    pub(super) fn new<'a>(senders: impl Iterator<Item = &'a Address>) -> Self {
        let mut bits = vec![0; 1 << (FILTER_BITS - u64::BITS.ilog2())].into_boxed_slice();
        for sender in senders {
            let place = Brief(fold(sender) << 1).place();
            bits[(place / u64::BITS) as usize] |= 1 << (place % u64::BITS);
        }
        Self(bits)
    }

    /// True if the transaction may concern the senders. O(1).
    #[inline]
    pub fn passes(&self, brief: Brief) -> bool {
        let place = brief.place();
        brief.authorizes() || self.0[(place / u64::BITS) as usize] >> (place % u64::BITS) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, keccak256};
    use revm::context::either::Either;

    fn from(number: u64) -> TxEnv {
        TxEnv {
            caller: Address::from_word(keccak256(B256::left_padding_from(&number.to_be_bytes()))),
            ..TxEnv::default()
        }
    }

    #[test]
    fn a_filter_passes_its_senders_and_few_others() {
        let held: Vec<Address> = (0..500).map(|number| from(number).caller).collect();
        let filter = SenderFilter::new(held.iter());
        assert!((0..500).all(|number| filter.passes(Brief::of(&from(number)))));
        let others = (500..20_500).filter(|number| filter.passes(Brief::of(&from(*number)))).count();
        assert!(others < 400, "{others} of 20,000");
        // Addresses that differ in their first bytes alone, or in their last.
        for at in [0, 19] {
            let differing = (1..=255u8).filter(|byte| {
                let mut caller = held[0];
                caller.0[at] ^= byte;
                filter.passes(Brief::of(&TxEnv { caller, ..TxEnv::default() }))
            });
            assert!(differing.count() < 40);
        }
    }

    #[test]
    fn a_filter_passes_what_holds_authorizations() {
        let filter = SenderFilter::new(core::iter::empty());
        let mut tx = from(7);
        assert!(!filter.passes(Brief::of(&tx)));
        tx.authorization_list.push(Either::Left(
            revm::context_interface::transaction::SignedAuthorization::new_unchecked(
                revm::context_interface::transaction::Authorization {
                    chain_id: Default::default(),
                    address: Address::ZERO,
                    nonce: 0,
                },
                0,
                Default::default(),
                Default::default(),
            ),
        ));
        assert!(filter.passes(Brief::of(&tx)));
    }
}
