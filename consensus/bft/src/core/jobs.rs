//! Cryptographic work that the host owes a protocol, by number.

use super::protocol::{Crypto, Out, Outs, Protocol};
use std::collections::BTreeMap;

/// Jobs without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Jobs<J> {
    owed: BTreeMap<u64, J>,
    next: u64,
}

impl<J> Default for Jobs<J> {
    fn default() -> Self {
        Self { owed: BTreeMap::new(), next: 0 }
    }
}

impl<J> Jobs<J> {
    /// Has the host do a job. Numbers grow, also behind jobs that are forgotten.
    pub(crate) fn begin<P: Protocol>(&mut self, job: J, crypto: Crypto, out: &mut Outs<P>) {
        let number = self.next;
        self.next += 1;
        self.owed.insert(number, job);
        out.push(Out::Work { job: number, crypto });
    }

    /// The job that an answer belongs to, `None` if it is forgotten.
    pub(crate) fn end(&mut self, number: u64) -> Option<J> {
        self.owed.remove(&number)
    }

    /// Forgets the jobs that `keeps` refuses.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&J) -> bool) {
        self.owed.retain(|_, job| keeps(job));
    }

    /// Returns true if the host owes such a job.
    pub(crate) fn any(&self, is: impl Fn(&J) -> bool) -> bool {
        self.owed.values().any(is)
    }
}
