//! Transactions of a load, made and signed in chunks, between which the user can stop.

use crate::ui::Ui;
use anyhow::Context as _;
use phalanx::revm::{context::TxEnv, primitives::Bytes};
use phalanx_workloads::Workload;

/// Transactions between two looks at the user's wish to stop: hundredths of a second.
const MADE: usize = 1 << 16;
/// Transactions that are signed between two looks: 30 µs of a core each.
const SIGNED: usize = 1 << 13;

/// The first `count` transactions of a load.
///
/// # Errors
/// If the user stops it.
pub fn transactions(workload: &dyn Workload, count: u64, ui: &Ui) -> anyhow::Result<Vec<TxEnv>> {
    let bar = ui.bar("making transactions", count);
    let count = usize::try_from(count).context("a load of more transactions than memory")?;
    let mut stream = workload.transactions();
    let mut txs = Vec::with_capacity(count.min(usize::try_from(stream.remaining()).unwrap_or(usize::MAX)));
    while txs.len() < count {
        ui.go_on()?;
        let chunk = MADE.min(count - txs.len());
        if stream.fill(&mut txs, chunk) < chunk {
            break;
        }
        bar.set_position(txs.len() as u64);
    }
    bar.finish_and_clear();
    Ok(txs)
}

/// Signed bytes of each transaction.
///
/// # Errors
/// If the load has no keys, or the user stops it.
pub(crate) fn sign(workload: &dyn Workload, txs: &[TxEnv], ui: &Ui) -> anyhow::Result<Vec<Bytes>> {
    let bar = ui.bar("signing", txs.len() as u64);
    let mut signed = Vec::with_capacity(txs.len());
    for chunk in txs.chunks(SIGNED) {
        ui.go_on()?;
        signed.extend(workload.accounts().sign(chunk).context("signing")?);
        bar.set_position(signed.len() as u64);
    }
    bar.finish_and_clear();
    Ok(signed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::LoadConfig, error::Interrupted, ui::Stop};
    use std::sync::Arc;

    #[test]
    fn chunks_make_the_same_transactions_and_end_when_the_user_stops() {
        let txs = MADE as u64 + 10;
        let load = LoadConfig { accounts: 100, txs, ..LoadConfig::default() };
        let workload = load.workload(phalanx_workloads::TransferLoad { signatures: true, ..load.transfers() }, &|_| ());
        let workload = workload.expect("a load");
        let mut once = Vec::new();
        workload.transactions().fill(&mut once, txs as usize);
        let ui = Ui::silent();
        assert_eq!(transactions(&*workload, txs, &ui).expect("transactions"), once);
        assert_eq!(transactions(&*workload, u64::from(u32::MAX), &ui).expect("all there are").len(), once.len());
        let few = &once[..SIGNED + 1];
        assert_eq!(sign(&*workload, few, &ui).expect("signed"), workload.accounts().sign(few).expect("signed"));

        let stop = Arc::new(Stop::default());
        let stopped = Ui::new(false, Arc::clone(&stop));
        assert!(stop.ask());
        assert!(transactions(&*workload, txs, &stopped).expect_err("stopped").is::<Interrupted>());
        assert!(sign(&*workload, few, &stopped).expect_err("stopped").is::<Interrupted>());
    }
}
