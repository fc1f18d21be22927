//! Calls that may read the disk, on a thread that may wait: a call by itself, or those of a batch that follow each other.

use super::{
    answer::{self, Answer, Out},
    api::Api,
    args::Args,
    error::RpcError,
    registry::Run,
    remote,
};
use crate::edge::Account;
use jsonrpsee::types::Params;
use serde_json::value::RawValue;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

/// A call that is read, and holds everything that its answer needs.
pub(super) struct Read {
    pub(super) name: &'static str,
    pub(super) most: usize,
    pub(super) run: Run,
    pub(super) params: Params<'static>,
    pub(super) id: Box<RawValue>,
}

/// Error of a method that panicked, which is a bug of the node: the client gets this, and the node goes on.
pub(super) fn panicked() -> RpcError {
    RpcError::internal("the method panicked; see the node's log")
}

impl Read {
    /// Runs the method, and writes its answer into an empty one.
    pub(super) fn answer(&self, api: &Api, mut out: Out) -> Result<Answer, RpcError> {
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let args = Args::read(&self.params, self.most)?;
            match remote::answer(api, self.name, &args)? {
                Some(found) => out.result(&self.id, &found)?,
                None => (self.run)(api, &args, &self.id, &mut out)?,
            }
            Ok(out.finish())
        }));
        answered.unwrap_or_else(|_| Err(panicked()))
    }
}

/// Client of calls, which may end its connection before they end.
#[derive(Debug, Default)]
pub(super) struct Waiter(Arc<AtomicBool>);

/// View of a [`Waiter`]: true once it is dropped.
#[derive(Debug)]
pub(super) struct Watch(Arc<AtomicBool>);

impl Waiter {
    pub(super) fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.0))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs calls in order, and appends their answers to those of a batch, until these have no room. Ends before the next one if the
/// client's connection has ended.
pub(super) fn append(
    api: &Api,
    reads: &[Read],
    account: &Arc<Account>,
    watch: &Watch,
    all: &mut Out,
) -> Result<(), RpcError> {
    for read in reads {
        if watch.0.load(Relaxed) {
            return Err(RpcError::internal("the connection has ended"));
        }
        let since = Instant::now();
        let answer = read.answer(api, Out::new(account, api.limits.max_response as usize));
        api.metrics.rpc.request(read.name, answer.is_err(), since.elapsed());
        all.append_next(answer.unwrap_or_else(|error| answer::refused(account, &read.id, error)).as_ref())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_is_dropped_tells_its_thread() {
        let waiter = Waiter::default();
        let watch = waiter.watch();
        let future = async move {
            core::future::pending::<()>().await;
            drop(waiter);
        };
        assert!(!watch.0.load(Relaxed));
        drop(future);
        assert!(watch.0.load(Relaxed));
    }
}
