//! The pools that transactions are offered to: that of the service, and that of a node that this one follows.

use super::fate::{Fate, Unadmitted};
use crate::{
    chain::Chain,
    exit::Exit,
    raw,
    upstream::{Upstream, UpstreamError},
};
use alloy_primitives::{B256, Bytes};
use phalanx::{Recovered, SendError, api::Failure, pool::Admission};
use std::sync::Arc;

/// A pool, as the queue sees it.
pub(super) trait Pool: Send + Sync + 'static {
    /// True if recovery or admission waits for anything but the processor and the lock of the pool.
    fn waits(&self) -> bool;

    type Recovered;

    /// Recovers senders. Runs on many threads at once.
    fn recover(&self, txs: &[&Bytes]) -> Self::Recovered;

    /// Admits what was recovered from `txs`. Runs on one thread at a time, in order.
    fn admit(&self, txs: &[&Bytes], recovered: Self::Recovered) -> Vec<Fate>;

    /// Does [`Self::admit`], unless that would wait for the lock of the pool.
    ///
    /// # Errors
    /// The recovered transactions, if the lock is not free.
    fn try_admit(&self, txs: &[&Bytes], recovered: Self::Recovered) -> Result<Vec<Fate>, Self::Recovered>;
}

/// Pool of the service, and the way out of it.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) chain: Arc<Chain>,
    pub(super) exit: Exit,
}

impl Door {
    /// Announces and passes on what the pool has admitted.
    fn fates(&self, txs: &[&Bytes], admissions: Result<Vec<Result<Admission, SendError>>, Failure>) -> Vec<Fate> {
        let admissions = match admissions {
            Ok(admissions) => admissions,
            Err(failure) => {
                return txs.iter().map(|_| Err(Unadmitted::Unsent(failure.clone().into()))).collect();
            }
        };
        let (mut passed, mut fates) = (Vec::with_capacity(txs.len()), Vec::with_capacity(txs.len()));
        for (admission, tx) in admissions.into_iter().zip(txs) {
            fates.push(match admission {
                Ok(Admission::Admitted { tx: of, .. })
                    if !of.tx().blob_hashes.is_empty() && !self.exit.takes_blobs() =>
                {
                    self.chain.service.forget(of.hash());
                    Err(Unadmitted::Unsent(SendError::Blobs))
                }
                Ok(Admission::Admitted { tx: admitted, .. }) => {
                    let hash = *admitted.hash();
                    self.chain.announce(admitted);
                    passed.push(*tx);
                    Ok(hash)
                }
                Ok(Admission::Refused(refusal)) => Err(Unadmitted::Refused(refusal)),
                Err(error) => Err(Unadmitted::Unsent(error)),
            });
        }
        self.exit.pass(&passed);
        fates
    }
}

impl Pool for Door {
    type Recovered = Recovered;

    /// A remote state is read for senders.
    fn waits(&self) -> bool {
        self.chain.remote.is_some()
    }

    fn recover(&self, txs: &[&Bytes]) -> Recovered {
        self.chain.service.recover(txs)
    }

    fn admit(&self, txs: &[&Bytes], recovered: Recovered) -> Vec<Fate> {
        self.fates(txs, self.chain.service.admit(recovered))
    }

    fn try_admit(&self, txs: &[&Bytes], recovered: Recovered) -> Result<Vec<Fate>, Recovered> {
        Ok(self.fates(txs, self.chain.service.try_admit(recovered)?))
    }
}

/// The node that this one follows takes transactions instead of the pool, and names each by its hash.
impl Pool for Upstream {
    type Recovered = ();

    fn waits(&self) -> bool {
        true
    }

    fn recover(&self, _: &[&Bytes]) {}

    fn admit(&self, txs: &[&Bytes], (): ()) -> Vec<Fate> {
        let fate = |(said, tx): (Result<B256, UpstreamError>, &&Bytes)| {
            let said = said.map_err(Unadmitted::Upstream)?;
            raw::hash_of(tx).filter(|hash| *hash == said).ok_or(Unadmitted::Misnamed(said))
        };
        self.send(txs).into_iter().zip(txs).map(fate).collect()
    }

    fn try_admit(&self, _: &[&Bytes], (): ()) -> Result<Vec<Fate>, ()> {
        Err(())
    }
}
