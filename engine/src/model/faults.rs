//! Faults that are seeded on purpose, so that it is known which kinds the fuzzer finds. Without the feature
//! `seeded-faults` no fault can be seeded, and the compiler removes every place that asks for one.

/// A fault of one kind, in the room that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "seeded-faults"), expect(unreachable_pub, reason = "public where faults can be seeded"))]
pub enum Fault {
    /// The fast path leaves the sender's nonce.
    FastPathNonce = 1,
    /// A trace goes on where a guard says that the call goes another way.
    TraceGuard,
    /// A trace refunds what a reverting call has cleared.
    TraceRefund,
    /// Rewards that were paid to a reader of the balance are paid again.
    RewardTwice,
    /// A beneficiary that a transaction has destroyed is paid all the same.
    RewardAfterDestruction,
    /// A destroyed account keeps its storage.
    StorageAfterDestruction,
    /// Block-STM hides the nonce of an account that delegates (EIP-7702).
    MaskedDelegation,
    /// A transfer runs no code of an account that it may credit.
    CreditToCode,
    /// An access list shows each transaction the changes of its own index.
    ListIndexShift,
    /// A change that the hints do not permit is lost instead of an escape.
    LostWrite,
    /// A result is kept though it saw a value that an earlier escape has changed.
    SettledDrift,
    /// The block's changes before its transactions win over the transactions'.
    OlderValueWins,
    /// A fork does not know what its own block did to accounts.
    ForkIndex,
    /// After a rewind the accounts of the dropped blocks are known on.
    RewoundIndex,
    /// BLOCKHASH is that of the next block.
    BlockHashWindow,
    /// A transaction may have one unit of gas more than the block has left.
    BlockGas,
}

#[cfg(feature = "seeded-faults")]
mod seeded {
    use super::Fault;
    use core::sync::atomic::{AtomicU8, Ordering};

    static SEEDED: AtomicU8 = AtomicU8::new(0);

    impl Fault {
        /// Every fault.
        pub const ALL: [Self; 16] = [
            Self::FastPathNonce,
            Self::TraceGuard,
            Self::TraceRefund,
            Self::RewardTwice,
            Self::RewardAfterDestruction,
            Self::StorageAfterDestruction,
            Self::MaskedDelegation,
            Self::CreditToCode,
            Self::ListIndexShift,
            Self::LostWrite,
            Self::SettledDrift,
            Self::OlderValueWins,
            Self::ForkIndex,
            Self::RewoundIndex,
            Self::BlockHashWindow,
            Self::BlockGas,
        ];

        /// Seeds a fault in all engines of the process, in the place of the one before, or none.
        pub fn seed(fault: Option<Self>) {
            SEEDED.store(fault.map_or(0, |fault| fault as u8), Ordering::Relaxed);
        }

        #[inline]
        pub(crate) fn is_seeded(self) -> bool {
            SEEDED.load(Ordering::Relaxed) == self as u8
        }
    }
}

#[cfg(not(feature = "seeded-faults"))]
impl Fault {
    #[inline(always)]
    pub(crate) const fn is_seeded(self) -> bool {
        false
    }
}
