//! Kinds of access, and the conflict rule.

/// Access of a transaction to one key.
///
/// The three kinds form a two-bit lattice. Bit 0 observes, bit 1 changes without observing, and a write does both. The join of
/// two accesses is `|`, and two accesses conflict exactly when their join is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Access {
    /// Observes the value.
    Read = 0b01,
    /// Adds to the value without observing it; additions commute.
    Credit = 0b10,
    /// Replaces the value, or observes and changes it.
    Write = 0b11,
}

impl Access {
    /// Returns true if the order of two accesses to one key can matter: for all pairs but two reads and two credits.
    #[inline]
    pub const fn conflicts(self, other: Self) -> bool {
        (self as u8 | other as u8) == Self::Write as u8
    }

    /// Returns the access that stands for both when one transaction makes them.
    #[inline]
    pub const fn join(self, other: Self) -> Self {
        if self as u8 == other as u8 { self } else { Self::Write }
    }

    /// Returns true if a predicted access of kind `self` permits an access of kind `actual`.
    #[inline]
    pub const fn covers(self, actual: Self) -> bool {
        (self as u8 & actual as u8) == actual as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{self, Credit, Read, Write};

    const ALL: [Access; 3] = [Read, Credit, Write];

    #[test]
    fn only_two_reads_and_two_credits_commute() {
        for a in ALL {
            for b in ALL {
                let commute = a == b && a != Write;
                assert_eq!(a.conflicts(b), !commute, "{a:?} {b:?}");
                assert_eq!(a.conflicts(b), b.conflicts(a));
                assert_eq!(a.conflicts(b), a.join(b) == Write);
            }
        }
    }

    #[test]
    fn a_join_covers_both_and_a_write_covers_all() {
        for a in ALL {
            for b in ALL {
                assert!(a.join(b).covers(a) && a.join(b).covers(b));
                assert_eq!(a.covers(b), a == b || a == Write);
            }
        }
    }
}
