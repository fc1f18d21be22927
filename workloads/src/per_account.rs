//! A value per account, held for the accounts that have one if the load is large.

use std::collections::BTreeMap;

/// Number of accounts up to which every account has a place. Larger loads keep places of the accounts that take part, and their
/// genesis is made in parts.
pub(crate) const DENSE: usize = 1 << 22;

/// Values by position of the account; the others are default.
#[derive(Clone, Debug)]
pub(crate) enum PerAccount<T> {
    /// All accounts of a small load.
    All(Vec<T>),
    /// Accounts of a large load that differ from the default.
    Some(BTreeMap<u32, T>),
}

impl<T: Default + Clone> PerAccount<T> {
    /// Bytes per account of a small load.
    pub(crate) const BYTES: usize = size_of::<T>();

    pub(crate) fn new(accounts: usize) -> Self {
        if accounts <= DENSE { Self::All(vec![T::default(); accounts]) } else { Self::Some(BTreeMap::new()) }
    }

    #[inline]
    pub(crate) fn at(&mut self, position: u32) -> &mut T {
        match self {
            Self::All(values) => &mut values[position as usize],
            Self::Some(values) => values.entry(position).or_default(),
        }
    }

    /// Positions with a place, ascending, and their values.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (u32, &T)> + '_> {
        match self {
            Self::All(values) => Box::new((0..).zip(values)),
            Self::Some(values) => Box::new(values.iter().map(|(position, value)| (*position, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_load_keeps_what_differs() {
        let (mut small, mut large) = (PerAccount::<u32>::new(5), PerAccount::<u32>::new(DENSE + 1));
        for values in [&mut small, &mut large] {
            *values.at(3) += 7;
            *values.at(1) += 1;
            *values.at(3) += 1;
        }
        assert_eq!(small.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0, 1, 0, 8, 0]);
        assert_eq!(large.iter().collect::<Vec<_>>(), [(1, &1), (3, &8)]);
    }
}
