//! Shared by all protocols: replicas and quorums, batches, messages, the contract with the host, vote counting.

mod batch;
mod budget;
mod clock;
mod codec;
mod complaints;
mod group;
mod jobs;
mod message;
mod patience;
mod protocol;
mod replica;
mod state_vote;
mod tally;

pub use batch::{Batch, NULL};
pub use budget::Budgets;
pub(crate) use budget::SMALL;
pub(crate) use clock::{Clock, Timers, switch};
pub(crate) use codec::{at_most, tagged};
pub use group::Group;
pub(crate) use jobs::Jobs;
pub(crate) use message::short;
pub use message::{Checked, Claim, Domain, Message, Signed, Statement};
#[cfg(feature = "mutations")]
pub use patience::Impatience;
pub(crate) use patience::Patient;
pub use protocol::{Base, ConfigError, Crypto, Input, Micros, Out, Outs, Protocol, Reach, Slot, To, View, Want};
pub use replica::{Index, MAX_REPLICAS, QuorumError, Quorums, ReplicaSet};
pub use state_vote::{Lean, StateVotes};
pub use tally::Tally;
