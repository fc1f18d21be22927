//! The next block of a producer before it is made: what its operator has said about time, fees and limits.
//!
//! Without a word of an operator it has the time of the clock, and fees and limits that follow from its parent.

use crate::{environment, store::Head};
use parking_lot::Mutex;
use phalanx::{
    BlockAttributes,
    alloy::primitives::{Address, B256},
    chain::Attributes,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, now.
fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Requests of an operator for the next block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// Seconds by which blocks are ahead of the clock.
    pub(crate) ahead: i64,
    /// Seconds from one block to the next, whatever the clock says.
    pub(crate) step: Option<u64>,
    /// Gas limit of all blocks, reached by the rules of the chain: at once on one for development.
    pub(crate) gas_limit: Option<u64>,
    /// Account that gets the fees.
    pub(crate) beneficiary: Address,
    /// Time of the next block alone, in seconds.
    pub(crate) time: Option<u64>,
    /// Base fee of the next block alone, in wei per gas.
    pub(crate) base_fee: Option<u64>,
    /// `prevRandao` of the next block alone.
    pub(crate) prevrandao: Option<B256>,
}

/// Fields of the next block that its producer chooses.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) attributes: Attributes,
    /// Base fee, if it does not follow from the parent.
    pub(crate) base_fee: Option<u64>,
}

/// The next block, for its producer and for questions about the pending one.
#[derive(Debug)]
pub(crate) struct Next {
    said: Mutex<Said>,
    /// True on a chain for development, where gas limits jump.
    is_development: bool,
}

impl Next {
    pub(crate) const fn new(gas_limit: Option<u64>, beneficiary: Address, is_development: bool) -> Self {
        let said = Said { ahead: 0, step: None, gas_limit, beneficiary, time: None, base_fee: None, prevrandao: None };
        Self { said: Mutex::new(said), is_development }
    }

    /// True on a chain for development.
    pub(crate) const fn is_development(&self) -> bool {
        self.is_development
    }

    pub(crate) fn said(&self) -> Said {
        self.said.lock().clone()
    }

    pub(crate) fn say(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.said.lock());
    }

    /// Moves the clock so that it shows this time now, in seconds.
    pub(crate) fn set_clock(&self, time: u64) {
        self.say(|said| said.ahead = i64::try_from(time).unwrap_or(i64::MAX).saturating_sub_unsigned(clock()));
    }

    /// Time of the clock, moved as its operator has moved it, in seconds.
    pub(crate) fn clock(&self) -> u64 {
        clock().saturating_add_signed(self.said.lock().ahead)
    }

    /// Fields of a child of `parent` that is made now.
    pub(crate) fn plan(&self, parent: &Head) -> Plan {
        let said = self.said();
        let (header, least) = (&parent.header, parent.header.timestamp.saturating_add(1));
        let timestamp = match (said.time, said.step) {
            (Some(time), _) => time,
            (None, Some(step)) => header.timestamp.saturating_add(step),
            (None, None) => clock().saturating_add_signed(said.ahead),
        };
        let gas_limit = said.gas_limit.map(|wanted| match self.is_development {
            true => wanted,
            false => environment::gas_limit(header.gas_limit, wanted),
        });
        let attributes = Attributes {
            timestamp: timestamp.max(least),
            beneficiary: said.beneficiary,
            prevrandao: said.prevrandao.unwrap_or_else(|| environment::randao(parent.exec, header.number + 1)),
            gas_limit,
            ..Attributes::default()
        };
        // Fees go on behind a block of edits as if it were not there.
        let kept = is_of_edits(parent).then_some(header.base_fee_per_gas).flatten();
        Plan { attributes, base_fee: said.base_fee.or(kept) }
    }

    /// Notes that a block with this time was made: what was said for it alone is done, and the clock goes on from a time that was set.
    pub(crate) fn made(&self, timestamp: u64) {
        let mut said = self.said.lock();
        if said.time.is_some() {
            said.ahead = i64::try_from(timestamp).unwrap_or(i64::MAX).saturating_sub_unsigned(clock());
        }
        (said.time, said.base_fee, said.prevrandao) = (None, None, None);
    }

    /// Takes back [`Self::made`] of a block that was not kept: what was said for it alone is for the next try.
    pub(crate) fn unmade(&self, before: &Said) {
        let Said { ahead, time, base_fee, prevrandao, .. } = *before;
        self.say(|said| (said.ahead, said.time, said.base_fee, said.prevrandao) = (ahead, time, base_fee, prevrandao));
    }
}

/// True for a block whose content are edits.
pub(crate) fn is_of_edits(head: &Head) -> bool {
    BlockAttributes::decode(&head.attributes).is_some_and(|attributes| attributes.edits.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::{
        Edit, Edited,
        alloy::{
            consensus::Header,
            primitives::{Bytes, U256},
        },
    };

    fn head(timestamp: u64, attributes: Bytes) -> Head {
        Head {
            exec: B256::repeat_byte(5),
            hash: B256::repeat_byte(6),
            header: Header { number: 6, timestamp, gas_limit: 60_000, base_fee_per_gas: Some(8), ..Header::default() },
            timestamp_ms: 0,
            attributes,
            access_list: Bytes::new(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn times_are_after_the_parents_and_those_of_one_block_are_for_it_alone() {
        let (next, parent) = (Next::new(None, Address::ZERO, true), head(7, Bytes::new()));
        let time = || next.plan(&parent).attributes.timestamp;
        assert!(time() >= clock() - 5);
        let far = 1 << 40;
        next.say(|said| said.time = Some(far));
        assert_eq!(time(), far);
        next.made(far);
        assert!((far..far + 60).contains(&time()), "the clock goes on from there");
        next.say(|said| said.step = Some(3));
        assert_eq!(time(), 10);
        next.say(|said| said.time = Some(1));
        assert_eq!(time(), 8, "whatever is said");
        next.set_clock(100);
        assert!((100..160).contains(&next.clock()));
    }

    #[test]
    fn limits_jump_on_a_chain_for_development_alone_and_fees_pass_blocks_of_edits() {
        let parent = head(7, Bytes::new());
        let limit =
            |is_development| Next::new(Some(90_000), Address::ZERO, is_development).plan(&parent).attributes.gas_limit;
        assert_eq!([limit(true), limit(false)], [Some(90_000), Some(60_057)]);
        let edit = Edit { account: Address::ZERO, value: Edited::Balance(U256::ONE) };
        let edited = BlockAttributes { edits: Some(vec![edit]), ..BlockAttributes::default() }.encode();
        let next = Next::new(None, Address::ZERO, true);
        assert_eq!(next.plan(&parent).base_fee, None);
        assert_eq!(next.plan(&head(7, edited.clone())).base_fee, Some(8));
        next.say(|said| said.base_fee = Some(9));
        assert_eq!(next.plan(&head(7, edited)).base_fee, Some(9));
        next.made(0);
        assert_eq!(next.plan(&parent).base_fee, None);
    }
}
