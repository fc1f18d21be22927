//! Constants of each protocol in a setting, which is checked.

use super::setting::{Order, Setting};
use phalanx_bft::{
    Domain, Quorums, autobahn,
    baseline::{Form, HotStuffConfig},
    pbft, sbft,
};

/// Maximum length of a batch: no setting reaches it.
const BATCH_BYTES: usize = 1 << 26;

pub(super) fn autobahn(setting: &Setting, quorums: Quorums) -> autobahn::Config {
    autobahn::Config {
        tips: setting.tips,
        spread: setting.spread,
        fast: setting.fast_ms.map(|ms| ms * 1_000),
        parallel: setting.parallel,
        timeout: setting.timeout_ms * 1_000,
        batch_bytes: BATCH_BYTES,
        block_bytes: BATCH_BYTES,
        // Batches are names here: this many stand for 8 MiB.
        sync_bytes: 6_000,
        ahead: 1 << 16,
        resend: setting.resend_ms * 1_000,
        ..autobahn::Config::new(quorums, Domain::default())
    }
}

pub(super) fn hotstuff(setting: &Setting, quorums: Quorums) -> HotStuffConfig {
    HotStuffConfig {
        quorums,
        form: if setting.order == Order::BatchedHotStuff { Form::Batched } else { Form::Plain },
        timeout: setting.timeout_ms * 1_000,
        doubles: true,
        // In tens of transactions, as batches are here.
        block_txs: setting.block_batches * setting.batch_txs as usize / 10,
        block_batches: setting.block_batches,
        batch_bytes: BATCH_BYTES,
    }
}

pub(super) fn pbft(setting: &Setting, quorums: Quorums) -> pbft::Config {
    let timeout = setting.timeout_ms * 1_000;
    pbft::Config { timeout, batch_bytes: BATCH_BYTES, ..pbft::Config::new(quorums, Domain::default()) }
}

pub(super) fn sbft(setting: &Setting, quorums: Quorums) -> sbft::Config {
    let timeout = setting.timeout_ms * 1_000;
    sbft::Config { timeout, batch_bytes: BATCH_BYTES, ..sbft::Config::new(quorums, Domain::default()) }
}
