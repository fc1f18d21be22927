//! A host from its log, and what others may read of it.

use super::{Host, handover::Handover, outbox::Outbox, request::Requests};
use crate::{
    action::Action,
    chain::{Chain, Tip},
    config::HostConfig,
    epoch::Epoch,
    pool::Pool,
    record::HostRecord,
    silence::Silence,
    transfer::CatchUp,
    votes::Votes,
};
use phalanx_bft::{Budgets, ConfigError, Index, Protocol, Slot};
use phalanx_keys::Scheme;
use std::sync::Arc;

impl<P: Protocol> Host<P> {
    /// A host that continues its log.
    ///
    /// # Errors
    /// Names the first constant that no host can run with.
    pub fn new(
        me: Index,
        config: HostConfig,
        protocol_config: Arc<P::Config>,
        scheme: Arc<dyn Scheme>,
        log: impl IntoIterator<Item = HostRecord<P::Record>>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        P::check(&protocol_config)?;
        // Beside its transactions, a batch has a few fields.
        let most = P::batch_bytes(&protocol_config).saturating_sub(64) as u64;
        ConfigError::within("batch_bytes", config.batch_bytes as u64, 64, most)?;
        let mut chain = Chain::new(config.rules, config.rules.genesis());
        let (mut records, mut outcomes, mut silent, mut epoch) = (Vec::new(), Vec::new(), false, Epoch::default());
        for record in log {
            match record {
                HostRecord::Base(tip) => chain = Chain::new(config.rules, tip),
                HostRecord::Protocol(record) => records.push(record),
                HostRecord::Block(slot, batch) => drop(chain.decide(slot, batch)),
                HostRecord::Outcome(slot, outcome) => outcomes.push((slot, outcome)),
                HostRecord::Silent(now) => silent = now,
                HostRecord::Epoch(boundary) => epoch.begins = Some(boundary),
            }
        }
        // A result is logged before its block is decided, and another block of the slot may have had one as well.
        outcomes.into_iter().for_each(|(slot, outcome)| chain.set_outcome(slot, outcome));
        let votes = Votes::new(config.quorums);
        Ok(Self {
            me,
            config,
            protocol_config,
            scheme,
            records,
            protocol: None,
            chain,
            votes,
            votes_run: false,
            now: 0,
            outbox: Outbox::default(),
            pool: Pool::default(),
            requests: Requests::default(),
            budgets: Budgets::default(),
            committed: 0,
            handover: Handover::default(),
            epoch,
            silence: silent.then(Silence::default),
            catch_up: CatchUp::default(),
            fatal: None,
        })
    }

    /// Actions since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<Action<P>> {
        self.outbox.take()
    }

    /// The protocol, once the engine has told where it is.
    #[must_use]
    pub const fn protocol(&self) -> Option<&P> {
        self.protocol.as_ref()
    }

    /// Blocks up to this slot are decided.
    #[must_use]
    pub const fn decided_slot(&self) -> Slot {
        self.chain.decided()
    }

    /// The block below the oldest retained one.
    #[must_use]
    pub const fn base(&self) -> Tip {
        self.chain.base()
    }

    /// Returns true if the replica learns and does not vote, because its log may lack what it has said.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.silence.is_some()
    }
}
