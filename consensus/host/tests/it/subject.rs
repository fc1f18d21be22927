//! Protocols that nodes run, with the constants of a setup.

use crate::cluster::Setup;
use phalanx_bft::{
    Domain, Protocol, Quorums,
    autobahn::{self, Autobahn},
    pbft::{self, Pbft},
    rounds::{self, Rounds},
    sbft::{self, FastWait, Sbft},
};

/// A protocol that nodes run.
pub(crate) trait Subject: Protocol<Msg: PartialEq + 'static> {
    fn config(setup: &Setup, quorums: Quorums, domain: Domain) -> Self::Config;

    /// Progress, for failures.
    fn progress(&self) -> String;
}

impl Subject for Pbft {
    fn config(setup: &Setup, quorums: Quorums, domain: Domain) -> pbft::Config {
        let Setup { interval, timeout, resend, .. } = *setup;
        pbft::Config { interval, timeout, resend, ..pbft::Config::new(quorums, domain) }
    }

    fn progress(&self) -> String {
        format!("active {} stable {} decided {}", self.is_active(), self.stable().slot, self.decided())
    }
}

impl Subject for Sbft {
    fn config(setup: &Setup, quorums: Quorums, domain: Domain) -> sbft::Config {
        let Setup { interval, timeout, resend, .. } = *setup;
        // Links of the worlds take a millisecond: no wait is longer than patience.
        let fast_wait = FastWait { least: 2_000, most: 5_000 };
        let (help, stagger) = (10_000, 1_000);
        sbft::Config { interval, timeout, resend, fast_wait, help, stagger, ..sbft::Config::new(quorums, domain) }
    }

    fn progress(&self) -> String {
        format!("view {}", self.view())
    }
}

impl Subject for Autobahn {
    fn config(setup: &Setup, quorums: Quorums, domain: Domain) -> autobahn::Config {
        let Setup { interval, timeout, resend, .. } = *setup;
        autobahn::Config { interval, timeout, resend, ..autobahn::Config::new(quorums, domain) }
    }

    fn progress(&self) -> String {
        format!("view {}", self.highest_view())
    }
}

impl Subject for Rounds {
    fn config(setup: &Setup, quorums: Quorums, domain: Domain) -> rounds::Config {
        let Setup { interval, timeout, resend, .. } = *setup;
        rounds::Config { interval, timeout, resend, ..rounds::Config::new(quorums, domain) }
    }

    fn progress(&self) -> String {
        format!("in {} stable {} decided {}", self.current_view(), self.stable(), self.decided())
    }
}
