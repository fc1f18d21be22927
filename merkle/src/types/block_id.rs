/// Names a block among all that a store ever held, siblings included; it stays the same when the store is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(crate) u64);
