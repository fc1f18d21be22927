//! Transactions for the pool, or for the node that this one follows: many at once, where they come together.

use super::{
    api::Api,
    args::{self, Args},
    error::{RpcError, refused, unoffered, unsent},
    registry::{Method, Registry},
};
use crate::{chain::Awaiting, intake::Unadmitted, raw};
use ::phalanx::{
    SendError,
    api::{Failure, RetryCause},
};
use alloy_primitives::{B256, Bytes, hex};
use jsonrpsee::types::Params;
use tokio::time::timeout;

/// A transaction that is offered: its hash, or the error of its call.
pub(super) type Sent = Result<B256, RpcError>;

pub(super) fn register(registry: &mut Registry) {
    registry.add("eth_sendRawTransaction", Method::Send);
}

/// Reads the transaction of a call.
///
/// # Errors
/// The arguments are not one transaction, or its type is none that a node takes.
pub(super) fn read(params: &Params<'_>) -> Result<Bytes, RpcError> {
    check(plain(params).map_or_else(|| Args::read(params, 1)?.required(0, args::bytes), Ok)?)
}

/// Checks the type of a transaction.
pub(super) fn check(bytes: Bytes) -> Result<Bytes, RpcError> {
    match bytes.first() {
        None => Err(RpcError::server("typed transaction too short")),
        Some(first) if *first < 0xc0 && *first > 4 => Err(RpcError::server("transaction type not supported")),
        Some(_) => Ok(bytes),
    }
}

/// Arguments in the form in which libraries send them. Everything else is read with care, for the error that it deserves.
fn plain(params: &Params<'_>) -> Option<Bytes> {
    let (text,) = serde_json::from_str::<(&str,)>(params.as_str()?).ok()?;
    let digits = text.strip_prefix("0x")?;
    // The reader takes a prefix of its own.
    let has_another = matches!(digits.as_bytes().get(1), Some(b'x' | b'X'));
    hex::decode(digits).ok().filter(|_| !has_another).map(Bytes::from)
}

/// Offers transactions, in order, and returns what became of each. Where a block is made for every transaction, those that can
/// run have a receipt then: libraries ask for it once, and some never again.
pub(super) async fn all(api: &Api, txs: Vec<Bytes>) -> Vec<Sent> {
    let awaiting = awaiting(api, &txs);
    let sent = admitted(api, txs).await;
    included(api, awaiting, &sent).await;
    sent
}

/// Notes that the blocks of transactions are waited for, where a block is made for every transaction. They are offered next.
pub(super) fn awaiting(api: &Api, txs: &[Bytes]) -> Vec<Option<Awaiting>> {
    let note = |tx: &Bytes| raw::hash_of(tx).and_then(|hash| api.chain.await_tx(hash));
    api.exit.rounds().map_or_else(Vec::new, |_| txs.iter().map(note).collect())
}

/// Waits for the blocks of the admitted ones among noted transactions, as long as they can run.
pub(super) async fn included(api: &Api, awaiting: Vec<Option<Awaiting>>, sent: &[Sent]) {
    let Some(rounds) = api.exit.rounds() else { return };
    let placed = async {
        for (awaiting, _) in awaiting.into_iter().zip(sent).filter(|(_, sent)| sent.is_ok()) {
            match awaiting {
                Some(mut awaiting) => _ = awaiting.placed().await,
                // There was no room for the note: the end of the round tells as well.
                None => core::future::pending().await,
            }
        }
    };
    let both = async {
        tokio::select! {
            () = placed => {}
            () = rounds.follow() => {}
        }
    };
    // Without an answer in time the block store or the disk fails: the hashes are true all the same.
    let _ = timeout(api.limits.max_wait, both).await;
}

/// Offers transactions like [`all`], and waits for no block.
pub(super) async fn admitted(api: &Api, txs: Vec<Bytes>) -> Vec<Sent> {
    let count = txs.len();
    let fates = match api.intake.offer(txs).await {
        Ok(fates) => fates.all().await,
        Err(full) => Err(full),
    };
    match fates {
        Ok(fates) => fates.into_iter().map(|fate| fate.map_err(|why| unadmitted(api, why))).collect(),
        Err(why) => vec![Err(unoffered(why)); count],
    }
}

fn unadmitted(api: &Api, why: Unadmitted) -> RpcError {
    match why {
        Unadmitted::Unsent(SendError::State(Failure::Retry(RetryCause::Remote))) => {
            let said = api.chain.remote.as_ref().and_then(|remote| remote.last_failure());
            RpcError::server(said.unwrap_or_else(|| RetryCause::Remote.to_string()))
        }
        Unadmitted::Unsent(error) => unsent(&error),
        Unadmitted::Refused(refusal) => refused(&refusal),
        Unadmitted::Upstream(error) => error.into(),
        Unadmitted::Misnamed(said) => {
            RpcError::server(format!("the upstream node names the transaction {said}, not by its hash"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_reads_what_the_careful_one_reads() {
        let careful = |text| Args::read(&Params::new(Some(text)), 1)?.required(0, args::bytes);
        for text in [
            "[\"0x02ab\"]",
            "[\"0x\"]",
            "[\"0x02AB\"]",
            "[\"0X02ab\"]",
            "[\"02ab\"]",
            "[\"0x0x02ab\"]",
            "[\"0x0X02\"]",
            "[\"0x2ab\"]",
            "[\"0xzz\"]",
            "[\"0x02\",1]",
            "[\"\\u0030x02ab\"]",
            "[1]",
            "[]",
            "{}",
            "[null]",
        ] {
            let short = plain(&Params::new(Some(text)));
            assert!(short.is_none_or(|bytes| Ok(bytes) == careful(text)), "{text}");
        }
        assert!(plain(&Params::new(Some("[\"0x02ab\"]"))).is_some());
    }
}
