//! Lies: one change of a list made false, and the step at which it must be found.

use phalanx_parascheduler::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, StorageChange,
};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use revm::primitives::{Bytes, U256};

/// Kinds of changes of an account.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Balance,
    Nonce,
    Code,
    Slot(usize),
}

/// Kinds of lies about one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    Value,
    Missing,
    /// A change more, at a step without one.
    Extra,
    /// The change at another step without one.
    Moved,
    Doubled,
    Swapped,
}

pub(super) const LIES: [Lie; 6] = [Lie::Value, Lie::Missing, Lie::Extra, Lie::Moved, Lie::Doubled, Lie::Swapped];

/// Outcome that a list must have.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Disorder,
    /// The lowest step that is wrong.
    Step(u64),
}

/// A change of any kind.
pub(super) trait Change: Clone {
    fn at(&mut self) -> &mut BlockAccessIndex;
    fn falsify(&mut self);
}

macro_rules! change {
    ($($type:ident $value:ident $by:expr),*) => {
        $(impl Change for $type {
            fn at(&mut self) -> &mut BlockAccessIndex {
                &mut self.block_access_index
            }
            fn falsify(&mut self) {
                self.$value = $by(&self.$value);
            }
        })*
    };
}

change!(
    BalanceChange post_balance |it: &U256| it ^ U256::ONE,
    NonceChange new_nonce |it: &u64| it ^ 1,
    CodeChange new_code |it: &Bytes| Bytes::from([it.as_ref(), &[0]].concat()),
    StorageChange new_value |it: &U256| it ^ U256::from(1u64 << 40)
);

/// Does `lie` to `changes`. `None` if there is nothing to do it to.
fn tell<T: Change>(changes: &mut Vec<T>, lie: Lie, last: u64, rng: &mut ChaCha8Rng) -> Option<Expected> {
    let place = rng.random_range(0..changes.len());
    let step = changes[place].at().get();
    let to = rng.random_range(0..=last);
    let taken = changes.iter_mut().any(|change| change.at().get() == to);
    let insert = |changes: &mut Vec<T>, mut change: T| {
        *change.at() = BlockAccessIndex::new(to);
        changes.push(change);
        changes.sort_by_key(|change| change.clone().at().get());
    };
    match lie {
        Lie::Value => changes[place].falsify(),
        Lie::Missing => _ = changes.remove(place),
        Lie::Extra | Lie::Moved if taken => return None,
        Lie::Extra => {
            let change = changes[place].clone();
            insert(changes, change);
            return Some(Expected::Step(to));
        }
        Lie::Moved => {
            let change = changes.remove(place);
            insert(changes, change);
            return Some(Expected::Step(step.min(to)));
        }
        Lie::Doubled => {
            let change = changes[place].clone();
            changes.insert(place, change);
            return Some(Expected::Disorder);
        }
        Lie::Swapped if place == 0 => return None,
        Lie::Swapped => {
            changes.swap(place - 1, place);
            return Some(Expected::Disorder);
        }
    }
    Some(Expected::Step(step))
}

/// Makes a random change of the list a lie.
pub(super) fn falsify(list: &mut [AccountChanges], lie: Lie, last: u64, rng: &mut ChaCha8Rng) -> Option<Expected> {
    let mut places = Vec::new();
    for (number, account) in list.iter().enumerate() {
        let kinds = [
            (Kind::Balance, account.balance_changes.is_empty()),
            (Kind::Nonce, account.nonce_changes.is_empty()),
            (Kind::Code, account.code_changes.is_empty()),
        ];
        places.extend(kinds.into_iter().filter(|(_, empty)| !empty).map(|(kind, _)| (number, kind)));
        places.extend((0..account.storage_changes.len()).map(|slot| (number, Kind::Slot(slot))));
    }
    let (number, kind) = *places.get(rng.random_range(0..places.len().max(1)))?;
    let account = &mut list[number];
    let expected = match kind {
        Kind::Balance => tell(&mut account.balance_changes, lie, last, rng),
        Kind::Nonce => tell(&mut account.nonce_changes, lie, last, rng),
        Kind::Code => tell(&mut account.code_changes, lie, last, rng),
        Kind::Slot(slot) => tell(&mut account.storage_changes[slot].changes, lie, last, rng),
    };
    account.storage_changes.retain(|slot| !slot.changes.is_empty());
    expected
}
