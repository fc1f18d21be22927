//! First record of a log: the network and the replica that it belongs to. Without it, a replica whose folder is another's would vote
//! against what it has said.

use crate::config::NetConfig;
use alloy_primitives::Bytes;
use phalanx_bft::Index;

/// First bytes of the record in the first epoch, and in later ones.
const TAG: &[u8; 8] = b"PHXLOG_1";
const LATER: &[u8; 8] = b"PHXLOG_2";
/// Length of tag and name.
const NAMED: usize = 8 + 32;

/// Owner of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(Bytes);

impl Owner {
    /// The replica of a network; `None` if the network has no name. Logs of such a network have no owner.
    pub(crate) fn new(config: &NetConfig, me: Index) -> Option<Self> {
        let named = !config.instance.is_zero();
        let (name, epoch, me) = (config.instance.as_slice(), config.epoch.to_be_bytes(), me.0.to_be_bytes());
        named.then(|| match config.epoch {
            0 => Self([TAG, name, &me].concat().into()),
            _ => Self([LATER, name, &epoch, &me].concat().into()),
        })
    }

    /// Returns true if a record is that of a member of the same network in an earlier epoch.
    pub(crate) fn follows(&self, record: &[u8]) -> bool {
        let (Some(own), Some(other)) = (Epoch::of(&self.0), Epoch::of(record)) else { return false };
        own.name == other.name && other.number < own.number
    }

    /// The record.
    pub(crate) fn record(&self) -> Bytes {
        self.0.clone()
    }
}

/// Network and epoch of a record.
struct Epoch<'a> {
    name: &'a [u8],
    number: u64,
}

impl<'a> Epoch<'a> {
    fn of(record: &'a [u8]) -> Option<Self> {
        let (named, rest) = record.split_at_checked(NAMED)?;
        let (tag, name) = named.split_at(TAG.len());
        let number = match (tag == TAG, tag == LATER, rest.len()) {
            (true, _, 2) => 0,
            (_, true, 10) => u64::from_be_bytes(*rest.first_chunk()?),
            _ => return None,
        };
        Some(Self { name, number })
    }
}
