//! L2, the ERC20 rule: `transfer`, `transferFrom` and `approve` touch mapping slots that the calldata names.

use crate::{batch::Batch, key::StateKey, preimage::Preimage};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use core::ops::Range;
use phalanx_access::Access;
use phalanx_hash_lanes::keccak256_many;

/// Slots of a token's two mappings (Solidity: the mapping at slot *n* keeps `key` at `keccak256(key ‖ n)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erc20Layout {
    /// Slot number of `mapping(address => uint256) balances`.
    pub balances: u64,
    /// Slot number of `mapping(address => mapping(address => uint256)) allowances`.
    pub allowances: u64,
}

/// A decoded ERC20 call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Transfer { to: Address },
    TransferFrom { from: Address, to: Address },
    Approve { spender: Address },
}

impl Call {
    /// Maximum number of slots that the call touches.
    pub(crate) const fn slots(&self) -> usize {
        match self {
            Self::Transfer { .. } => 2,
            Self::TransferFrom { .. } => 3,
            Self::Approve { .. } => 1,
        }
    }
}

/// Number of slots among which the mappings are searched when a layout is inferred.
const SEARCHED_SLOTS: u64 = 64;

/// Decodes the calldata of one of the three calls. Dirty upper bytes of an address make the call revert, so such a call is
/// left to simulation.
pub(crate) fn decode(data: &Bytes) -> Option<Call> {
    let (selector, arguments) = data.split_first_chunk::<4>()?;
    let address = |index: usize| -> Option<Address> {
        let word = arguments.get(index * 32..index * 32 + 32)?;
        word[..12].iter().all(|b| *b == 0).then(|| Address::from_slice(&word[12..]))
    };
    let words = |n: usize| (arguments.len() >= n * 32).then_some(());
    match selector {
        [0xa9, 0x05, 0x9c, 0xbb] => words(2).and_then(|()| Some(Call::Transfer { to: address(0)? })),
        [0x23, 0xb8, 0x72, 0xdd] => {
            words(3).and_then(|()| Some(Call::TransferFrom { from: address(0)?, to: address(1)? }))
        }
        [0x09, 0x5e, 0xa7, 0xb3] => words(2).and_then(|()| Some(Call::Approve { spender: address(0)? })),
        _ => None,
    }
}

/// Slot of `mapping[key]`, for a mapping at `slot`.
fn mapping(key: B256, slot: B256) -> U256 {
    keccak256(preimage(key, slot)).into()
}

fn preimage(key: B256, slot: B256) -> Preimage {
    let mut preimage = [0; 64];
    preimage[..32].copy_from_slice(key.as_slice());
    preimage[32..].copy_from_slice(slot.as_slice());
    preimage
}

fn number(slot: u64) -> B256 {
    B256::from(U256::from(slot))
}

fn balance(owner: Address, layout: &Erc20Layout) -> U256 {
    mapping(owner.into_word(), number(layout.balances))
}

fn allowance(owner: Address, spender: Address, layout: &Erc20Layout) -> U256 {
    let inner = mapping(owner.into_word(), number(layout.allowances));
    mapping(spender.into_word(), B256::from(inner))
}

/// Slots of many calls, hashed together.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    preimages: Vec<Preimage>,
    hashes: Vec<B256>,
    /// Inner preimages, by the index of a preimage whose second half is their hash; ascending.
    inners: Vec<(usize, Preimage)>,
}

impl Slots {
    pub(crate) fn clear(&mut self) {
        self.preimages.clear();
        self.hashes.clear();
        self.inners.clear();
    }

    /// Requests the slots of a call, and returns their indices after [`Self::hash`].
    pub(crate) fn request(&mut self, caller: Address, call: Call, layout: &Erc20Layout) -> Range<usize> {
        let start = self.preimages.len();
        match call {
            Call::Transfer { to } => self.balances(caller, to, layout),
            Call::TransferFrom { from, to } => {
                self.allowance(from, caller, layout);
                self.balances(from, to, layout);
            }
            Call::Approve { spender } => self.allowance(caller, spender, layout),
        }
        start..self.preimages.len()
    }

    /// Hashes all requested slots.
    pub(crate) fn hash(&mut self) {
        keccak256_many(self.preimages.iter().map(|preimage| &preimage[..]), &mut self.hashes);
    }

    /// Adds the accesses of a call with slots at `range`: the sender pays, the token's code runs, the slots change.
    pub(crate) fn add(&self, batch: &mut Batch, caller: Address, token: Address, range: Range<usize>) {
        batch.add(StateKey::Basic(caller), Access::Write);
        batch.add(StateKey::Basic(token), Access::Read);
        for at in range {
            let inner = self.inners.binary_search_by_key(&at, |(of, _)| *of).ok().map(|found| &self.inners[found].1);
            let key = StateKey::Slot(token, self.hashes[at].into());
            batch.add_slot(key, Access::Write, &self.preimages[at], inner);
        }
    }

    fn balances(&mut self, from: Address, to: Address, layout: &Erc20Layout) {
        let slot = number(layout.balances);
        self.preimages.push(preimage(from.into_word(), slot));
        self.preimages.push(preimage(to.into_word(), slot));
    }

    fn allowance(&mut self, owner: Address, spender: Address, layout: &Erc20Layout) {
        let inner = preimage(owner.into_word(), number(layout.allowances));
        self.inners.push((self.preimages.len(), inner));
        self.preimages.push(preimage(spender.into_word(), keccak256(inner)));
    }
}

/// Infers the layout that explains the slots `touched` by a call of `caller`. `known` is the layout that earlier calls of the
/// same code showed. [`None`] if no standard layout explains them.
pub(crate) fn infer(call: Call, caller: Address, touched: &[U256], known: Option<Erc20Layout>) -> Option<Erc20Layout> {
    let known = known.unwrap_or(Erc20Layout { balances: u64::MAX, allowances: u64::MAX });
    let find = |explains: &dyn Fn(u64) -> bool, held: u64| {
        if held != u64::MAX { Some(held) } else { (0..SEARCHED_SLOTS).find(|n| explains(*n)) }
    };
    let layout = |n: u64| Erc20Layout { balances: n, allowances: n };
    let holds = |slot: U256| touched.contains(&slot);
    let balances = |from: Address, to: Address| {
        find(&|n| holds(balance(from, &layout(n))) && holds(balance(to, &layout(n))), known.balances)
    };
    let allowances =
        |owner: Address, spender: Address| find(&|n| holds(allowance(owner, spender, &layout(n))), known.allowances);
    match call {
        Call::Transfer { to } => Some(Erc20Layout { balances: balances(caller, to)?, ..known }),
        Call::TransferFrom { from, to } => {
            Some(Erc20Layout { balances: balances(from, to)?, allowances: allowances(from, caller)? })
        }
        Call::Approve { spender } => Some(Erc20Layout { allowances: allowances(caller, spender)?, ..known }),
    }
}

impl Erc20Layout {
    /// Returns true if the mappings that `call` needs are known.
    pub(crate) const fn explains(&self, call: &Call) -> bool {
        match call {
            Call::Transfer { .. } => self.balances != u64::MAX,
            Call::TransferFrom { .. } => self.balances != u64::MAX && self.allowances != u64::MAX,
            Call::Approve { .. } => self.allowances != u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calldata(selector: [u8; 4], words: &[B256]) -> Bytes {
        let mut data = selector.to_vec();
        words.iter().for_each(|w| data.extend_from_slice(w.as_slice()));
        data.into()
    }

    #[test]
    fn only_the_three_well_formed_calls_are_decoded() {
        let (a, b) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let (wa, wb, one) = (a.into_word(), b.into_word(), number(1));
        let transfer = [0xa9, 0x05, 0x9c, 0xbb];
        assert_eq!(decode(&calldata(transfer, &[wb, one])), Some(Call::Transfer { to: b }));
        assert_eq!(decode(&calldata(transfer, &[wb])), None, "too short");
        assert_eq!(decode(&calldata(transfer, &[B256::repeat_byte(1), one])), None, "dirty address");
        assert_eq!(
            decode(&calldata([0x23, 0xb8, 0x72, 0xdd], &[wa, wb, one])),
            Some(Call::TransferFrom { from: a, to: b })
        );
        assert_eq!(decode(&calldata([0x09, 0x5e, 0xa7, 0xb3], &[wb, one])), Some(Call::Approve { spender: b }));
        assert_eq!(decode(&Bytes::from_static(&[0xa9])), None);
        assert_eq!(decode(&calldata([1, 2, 3, 4], &[wa, wb, one])), None);
    }

    #[test]
    fn a_layout_is_inferred_from_the_touched_slots() {
        let (a, b) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let layout = Erc20Layout { balances: 9, allowances: 10 };
        let touched = [balance(a, &layout), balance(b, &layout), allowance(a, b, &layout)];
        let first = infer(Call::Transfer { to: b }, a, &touched, None).expect("standard");
        assert_eq!(first.balances, 9);
        assert!(first.explains(&Call::Transfer { to: b }) && !first.explains(&Call::Approve { spender: b }));
        let call = Call::TransferFrom { from: a, to: b };
        // The spender of a's tokens is b.
        assert_eq!(infer(call, b, &touched, Some(first)), Some(layout));
        assert_eq!(infer(Call::Transfer { to: b }, a, &touched[2..], None), None);
    }

    #[test]
    fn each_slot_has_its_preimages_once() {
        let (a, b, token) = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(9));
        let layout = Erc20Layout { balances: 3, allowances: 4 };
        // Payer and payee may be the same account, and so may owner and spender.
        let calls = [
            (a, Call::Transfer { to: b }),
            (a, Call::Transfer { to: a }),
            (b, Call::TransferFrom { from: a, to: a }),
            (a, Call::TransferFrom { from: a, to: b }),
            (a, Call::Approve { spender: b }),
        ];
        let (mut slots, mut batch) = (Slots::default(), Batch::new());
        let ranges = calls.map(|(caller, call)| slots.request(caller, call, &layout));
        slots.hash();
        for ((caller, _), range) in calls.iter().zip(ranges) {
            slots.add(&mut batch, *caller, token, range);
            batch.close(crate::batch::Source::Erc20, &phalanx_access::Salt::new(1));
        }
        let counts = [2, 1, 3, 4, 2];
        for (index, count) in counts.into_iter().enumerate() {
            let known = batch.preimages(index);
            assert_eq!(known.len(), count, "call {index}");
            for (at, (place, preimage)) in known.iter().enumerate() {
                let hash = keccak256(preimage);
                match at.checked_sub(1).map(|before| known[before]).filter(|(of, _)| of == place) {
                    Some((_, outer)) => assert_eq!(outer[32..], hash[..], "call {index}"),
                    None => {
                        let (key, _) = batch.sets().get(index)[*place as usize];
                        assert_eq!(key, StateKey::Slot(token, hash.into()), "call {index}");
                    }
                }
            }
        }
    }
}
