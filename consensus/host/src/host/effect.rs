//! Effects of the protocol, performed once the records before them are durable.

use super::{Host, MOST_RETAINED_BYTES};
use crate::{
    action::{Action, HostTimer},
    frame::Frame,
    record::HostRecord,
};
use alloy_primitives::Bytes;
use phalanx_bft::{Base, Crypto, Input, Out, Protocol, Want};
use phalanx_engine_api::FatalCause;
use phalanx_keys::Scheme;
use phalanx_pipeline::ConsensusEvent;

impl<P: Protocol> Host<P> {
    pub(super) fn effect(&mut self, effect: Out<P>) {
        match effect {
            Out::Persist(record) => self.outbox.append(HostRecord::Protocol(record)),
            Out::Send(to, message) => self.outbox.send(to, Frame::Protocol(message)),
            Out::Timer(timer, after) => self.outbox.set(HostTimer::Protocol(timer), after),
            Out::Cancel(timer) => self.outbox.cancel(HostTimer::Protocol(timer)),
            Out::Work { job, crypto } => {
                let (now, input) = (self.now, work(&*self.scheme, job, crypto));
                self.call(|protocol, out| protocol.on_input(now, input, out));
            }
            // What is ordered above the end of the epoch is void.
            Out::Proposed { slot, .. } | Out::OrderVoted { slot, .. } if self.epoch.is_over(slot) => {}
            Out::Proposed { slot, batch, .. } => self.proposed(slot, batch),
            Out::OrderVoted { slot, view } => self.order_voted(slot, view),
            Out::Decided { slot, batch } => self.decided(slot, batch),
            Out::Conflict { slot } => self.fatal = Some(FatalCause::Contradiction { height: slot }),
            Out::Stable { base, proof } => self.stable(base, &proof),
            Out::Want(Want::State { base, proof }) => self.want(base, proof),
            Out::Certificate { slot, digest, signature, answers } => {
                let in_epoch = slot.saturating_sub(self.epoch.origin());
                self.outbox.act(Action::Certified { slot, in_epoch, digest, signature, answers });
            }
            // Its transactions are back in the pool.
            Out::Returned(_) => {}
            Out::Evidence { against, proof } => self.outbox.act(Action::Evidence(against, proof)),
        }
    }

    fn stable(&mut self, base: Base, proof: &Bytes) {
        // What the own engine has not committed is still to be replayed to it.
        let below = base.slot.saturating_sub(self.config.retention);
        self.chain.prune(below.max(self.chain.heavy_below(base.slot, MOST_RETAINED_BYTES)).min(self.committed));
        self.outbox.notify(ConsensusEvent::Finalised(base.slot));
        self.certify(base, proof);
        self.outbox.act(Action::Stable(base));
        self.try_speak();
    }
}

/// Does cryptographic work of a protocol.
fn work(scheme: &dyn Scheme, job: u64, crypto: Crypto) -> Input {
    match crypto {
        Crypto::Sign(bytes) => Input::Signed { job, signature: scheme.sign(&bytes) },
        Crypto::Share { group, bytes } => Input::Signed { job, signature: scheme.share(group, &bytes) },
        Crypto::Combine { group, bytes, shares } => {
            Input::Combined { job, result: scheme.combine(group, &bytes, &shares) }
        }
    }
}
