//! Groups of replicas that sign together: threshold signatures under one public key each.

use super::replica::Index;
use alloy_rlp::{BufMut, Decodable, Encodable, Error};

/// Indices from this one on name groups. No replica has one of them.
const FIRST: u16 = 0xff00;

/// Replicas that sign together. A signature of a group has the length of a single one and is verified under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Group {
    /// All n replicas, by adding up their shares of [`Group::Fast`].
    All = 0,
    /// Any 3f+c+1 replicas: σ.
    Fast = 1,
    /// Any 2f+c+1 replicas: τ.
    Slow = 2,
    /// Any f+1 replicas: π.
    State = 3,
}

impl Group {
    /// Every group, in ascending order.
    pub const ALL: [Self; 4] = [Self::All, Self::Fast, Self::Slow, Self::State];

    /// Signer of a [`Claim`](super::Claim) that a group makes.
    #[must_use]
    pub const fn signer(self) -> Index {
        Index(FIRST + self as u16)
    }

    /// The group that an index names, `None` for a replica's index.
    #[must_use]
    pub fn from_signer(signer: Index) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.signer() == signer)
    }

    /// The group whose keys make the shares.
    #[must_use]
    pub const fn shares(self) -> Self {
        match self {
            Self::All => Self::Fast,
            group => group,
        }
    }
}

impl Encodable for Group {
    fn encode(&self, out: &mut dyn BufMut) {
        (*self as u8).encode(out);
    }

    fn length(&self) -> usize {
        (*self as u8).length()
    }
}

impl Decodable for Group {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let number = u8::decode(bytes)?;
        Self::ALL.into_iter().find(|group| *group as u8 == number).ok_or(Error::Custom("unknown group of signers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::MAX_REPLICAS;

    #[test]
    fn groups_are_no_replicas_and_survive_encoding() {
        for group in Group::ALL {
            assert!(usize::from(group.signer().0) >= MAX_REPLICAS);
            assert_eq!(Group::from_signer(group.signer()), Some(group));
            assert_eq!(Group::decode(&mut alloy_rlp::encode(group).as_slice()), Ok(group));
        }
        assert_eq!(Group::from_signer(Index(3)), None);
        assert!(Group::decode(&mut [4_u8].as_slice()).is_err());
    }
}
