//! Bounds of frames: long enough for everything that a correct replica sends, and no longer.

use super::{NetConfig, ProtocolName};
use phalanx_bft::ConfigError;

/// Items of a frame, at most. Each takes some 64 bytes once it is decoded.
pub(crate) const MOST_ITEMS: usize = 2 << 20;

/// Answers with decided blocks, or with cars, in bytes: 4 MiB, and the fields around them.
const ANSWER_BYTES: usize = 8 << 20;
/// Fields of a statement that opens a view, and its signature, per replica, in bytes.
const STATEMENT_BYTES: usize = 64 << 10;

/// Transactions of the batches in a window of slots, in bytes, at most.
const MOST_WINDOW_BYTES: usize = 4 << 30;

/// Bytes and items of what a replica reports of a slot when a view ends.
struct Reports {
    bytes: usize,
    items: usize,
}

impl NetConfig {
    /// Maximum length of a frame, in bytes: an answer to a replica that is behind, a batch, or the statements that open a view.
    #[must_use]
    pub const fn most_frame(&self) -> usize {
        let n = self.replicas.len();
        let Reports { bytes, .. } = self.reports();
        let opening = 2 * (self.interval as usize) * (n * bytes + 34);
        ANSWER_BYTES + self.encoded_batch() + opening + n * STATEMENT_BYTES
    }

    /// Reports of a slot by one replica, at most.
    const fn reports(&self) -> Reports {
        match self.protocol {
            // A prepared and four pre-prepared batches, each as a list of slot, digest and view.
            ProtocolName::Pbft => Reports { bytes: 5 * (1 + 9 + 33 + 9), items: 5 * 4 },
            // An accepted vote of three fields; τ over a vote; a decision of vote, group and signature. A signature has up to 96 bytes.
            ProtocolName::Sbft => Reports { bytes: 52 + (3 + 52 + 98) + (3 + 52 + 1 + 98), items: 4 + 6 + 7 },
            // A complaint has one certificate and one cut, not a window of them.
            ProtocolName::Autobahn => Reports { bytes: 0, items: 0 },
        }
    }

    /// Checks that the statements that open a view fit into a frame, since no view could be left else, and that the batches of a window fit
    /// into memory.
    pub(super) fn check_window(&self) -> Result<(), ConfigError> {
        let per_slot = 2 * (self.replicas.len() * self.reports().items + 1);
        // Half of the items are enough, and the other half is room for the statements' own fields.
        let most = (MOST_ITEMS / 2 / per_slot).min(MOST_WINDOW_BYTES / 2 / self.batch_bytes.max(1));
        ConfigError::within("interval", self.interval, 1, most as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Authentication, Durability, LOG_BYTES, Links, Member, VERSION};
    use alloy_primitives::{Address, B256, Bytes};
    use alloy_rlp::{Decodable, Encodable};
    use phalanx_bft::{Group, Index, Message, Signed, pbft, sbft};
    use phalanx_host::Frame;
    use std::net::SocketAddr;

    const DIGEST: B256 = B256::repeat_byte(0xff);
    const MOST: u64 = u64::MAX;

    fn signature() -> Bytes {
        vec![0xff; 96].into()
    }

    fn signed<T: Encodable + Decodable>(from: u16, body: T) -> Signed<T> {
        Signed { signer: Index(from), body, signature: signature() }
    }

    #[track_caller]
    fn fits<M: Message>(config: &NetConfig, message: M) {
        config.check().expect("legal constants");
        let body = alloy_rlp::encode(Frame::Protocol(message));
        assert!(body.len() <= config.most_frame(), "{}: {} bytes", config.interval, body.len());
        crate::wire::weigh(&body, MOST_ITEMS - 1_024).expect("few items");
    }

    /// The longest statements that open a view, of replicas that report four batches in each slot of their windows.
    #[test]
    fn every_new_view_of_pbft_fits_into_a_frame() {
        use pbft::{Checkpoint, Msg, NewView, Report, ViewChange};
        for (n, interval) in [(4, 4_096), (4, 128), (16, 128), (7, 1_024)] {
            let config = config(ProtocolName::Pbft, n, interval);
            let report = |slot| Report { slot: MOST - slot, digest: DIGEST, view: MOST };
            let prepared: Vec<Report> = (0..2 * interval).map(report).collect();
            let preprepared = (0..8 * interval).map(report).collect();
            let stable = Checkpoint { slot: MOST, digest: DIGEST };
            let change = ViewChange { view: MOST, stable, prepared, preprepared };
            let view = NewView {
                view: MOST,
                changes: (0..n as u16).map(|from| signed(from, change.clone())).collect(),
                stable,
                proof: (0..n as u16).map(|from| signed(from, stable)).collect(),
                choices: vec![DIGEST; 2 * interval as usize],
            };
            fits(&config, Msg::NewView(signed(0, view)));
        }
        let refused = config(ProtocolName::Pbft, 16, 4_096).check().expect_err("no view could be left").to_string();
        assert!(refused.contains("`interval` is 4096"), "{refused}");
    }

    #[test]
    fn every_new_view_of_sbft_fits_into_a_frame() {
        use sbft::{Certificate, Checkpoint, Decision, Msg, NewView, Stable, ViewChange, Vote};
        for (n, interval) in [(4, 4_096), (6, 128), (16, 1_024)] {
            let mut config = config(ProtocolName::Sbft, n, interval);
            config.faults = 1;
            if n == 16 {
                config.faults = 5;
            }
            let vote = |slot| Vote { view: MOST, slot: MOST - slot, digest: DIGEST };
            let slots = || 0..2 * interval;
            let stable = Stable { checkpoint: Checkpoint { slot: MOST, digest: DIGEST }, signature: signature() };
            let certificate = |slot| Certificate { vote: vote(slot), signature: signature() };
            let decision = |slot| Decision { vote: vote(slot), group: Group::State, signature: signature() };
            let change = ViewChange {
                view: MOST,
                stable,
                accepted: slots().map(vote).collect(),
                prepared: slots().map(certificate).collect(),
                decided: slots().map(decision).collect(),
            };
            let changes = (0..n as u16).map(|from| signed(from, change.clone())).collect();
            fits(&config, Msg::NewView(signed(0, NewView { view: MOST, changes })));
        }
        let refused = config(ProtocolName::Sbft, 16, 4_096).check().expect_err("no view could be left").to_string();
        assert!(refused.contains("`interval` is 4096"), "{refused}");
    }

    #[test]
    fn a_window_of_too_many_bytes_is_refused() {
        let mut config = config(ProtocolName::Pbft, 4, 1_024);
        assert_eq!(config.batch_bytes, 1 << 20);
        config.check().expect("2 GiB");
        config.batch_bytes = 2 << 20;
        config.check().expect("4 GiB");
        config.interval += 1;
        let refused = config.check().expect_err("more").to_string();
        assert!(refused.contains("`interval` is 1025"), "{refused}");
    }

    fn config(protocol: ProtocolName, n: usize, interval: u64) -> NetConfig {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let member = |index: usize| Member {
            peers: address(1_000 + index as u16),
            clients: address(2_000 + index as u16),
            keys: format!("keys-{index}").into(),
            dir: format!("replica-{index}").into(),
        };
        NetConfig {
            version: VERSION,
            protocol,
            chain: 7,
            epoch: 0,
            before: None,
            instance: B256::repeat_byte(5),
            faults: ((n - 1) / 3) as u16,
            authentication: Authentication::Mac,
            durability: Durability::Group,
            batch_threads: 1,
            batch_txs: 20,
            // The longest window that fits into memory.
            batch_bytes: (1 << 20).min((2 << 30) / interval as usize),
            batch_delay_us: 1_000,
            interval,
            timeout_us: 1_000_000,
            resend_us: 100_000,
            retention: 16_384,
            snapshot_every: 0,
            log_bytes: LOG_BYTES,
            gas_limit: 1 << 40,
            base_fee: 0,
            beneficiary: Address::ZERO,
            links: Links::default(),
            replicas: (0..n).map(member).collect(),
        }
    }
}
