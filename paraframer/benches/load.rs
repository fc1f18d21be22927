//! The loads that bench, example and tests share: transfers between 2^20 accounts with a hot set.
#![allow(dead_code, reason = "bench, example and tests each use a part")]

use phalanx_access::{
    Access::{self, Credit, Write},
    Key, Salt,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Accounts of every load.
pub(crate) const ACCOUNTS: u64 = 1 << 20;

/// Side of a hot transfer that is a hot account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hot {
    Sender,
    Receiver,
    Both,
}

/// A transfer: accounts and their digests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) keys: [(u64, Access); 2],
}

/// A stream of transfers of which a part `alpha` is between `gamma` hot accounts on the `hot` side; the rest is uniform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) alpha: f64,
    pub(crate) gamma: u64,
    pub(crate) hot: Hot,
    pub(crate) receive: Access,
}

impl Load {
    pub(crate) const UNIFORM: Self = Self { alpha: 0.0, gamma: 1, hot: Hot::Both, receive: Credit };

    pub(crate) fn transfers(self, count: usize, seed: u64) -> Vec<Transfer> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let salt = Salt::new(seed);
        (0..count)
            .map(|_| {
                let (from, to) = loop {
                    let hot = rng.random_bool(self.alpha);
                    let from =
                        rng.random_range(0..if hot && self.hot != Hot::Receiver { self.gamma } else { ACCOUNTS });
                    let to = rng.random_range(0..if hot && self.hot != Hot::Sender { self.gamma } else { ACCOUNTS });
                    if from != to {
                        break (from, to);
                    }
                };
                Transfer { from, to, keys: [(from.digest(&salt), Write), (to.digest(&salt), self.receive)] }
            })
            .collect()
    }
}
