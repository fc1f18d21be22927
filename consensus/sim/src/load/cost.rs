//! Service times of a replica's threads, as data, each with its source.
//!
//! Two entries are fitted, each to one number of the paper, and frozen: [`Costs::message_ns`] to 175,000 transactions per second at
//! the base setting, [`Costs::request_ns`] to 500,000 per second without consensus. Two follow a figure of the paper,
//! [`Costs::bundle`] and [`Costs::patience_ns`]. Every other entry is measured, follows from the paper's description of a thread's
//! tasks, or is named as assumed.

/// Authentication of messages and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signatures {
    /// None.
    None,
    /// MACs by replicas, Ed25519 by clients.
    MacAndEd25519,
    /// Ed25519 by all.
    Ed25519,
    /// RSA with 2,048 bits by all.
    Rsa,
}

/// Service times, in ns unless a name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A thread takes a message from its queue, handles it and frees it, without authentication. Fitted.
    pub message_ns: u64,
    /// A thread takes in a transaction and writes one out: half of the time each. Fitted.
    ///
    /// Batch threads do both for each operation of a transaction, a backup's worker does the first half for each operation, and
    /// execution does the second half for each answer.
    pub request_ns: u64,
    /// A thread hands a message to the operating system, or takes one from there. No figure depends on it.
    pub system_call_ns: u64,
    /// Execution performs an operation in memory: a write into a map of 600,000 records.
    pub memory_ns: u64,
    /// Execution performs an operation through SQLite: an update by key, rollback journal, no sync.
    pub sqlite_ns: u64,
    /// A digest, per byte: SHA-256 without special instructions.
    pub hash_ns_per_kib: u64,
    /// A MAC, to make or to check: CMAC and AES together, and what each KiB adds.
    pub mac_ns: (u64, u64),
    /// An Ed25519 signature: to make, to check.
    pub ed25519_ns: (u64, u64),
    /// An RSA signature: to make, to check.
    pub rsa_ns: (u64, u64),
    /// Transactions in a client's message, under one signature.
    pub bundle: u64,
    /// Bytes of a transaction in a proposal.
    pub tx_bytes: u64,
    /// Bytes of any other message.
    pub vote_bytes: u64,
    /// Bandwidth of a node in each direction, in bytes per second.
    pub bandwidth: u64,
    /// Bandwidth of each link, in bytes per second; zero for that of the nodes.
    pub link_bandwidth: u64,
    /// Latency between any two machines, in one direction.
    pub latency_ns: u64,
    /// A replica's log becomes durable; zero if no log is kept. Appends during a write share the next one.
    pub persist_ns: u64,
    /// Threads of a replica that poll. With fewer cores, threads share them evenly, whether or not they find work.
    pub polling_threads: u64,
    /// Patience of a Zyzzyva client that lacks answers.
    pub patience_ns: u64,
}

impl Costs {
    /// The frozen table; `docs/explanation/0024-resilientdb.md` has the source of each entry.
    pub const FROZEN: Self = Self {
        message_ns: 9_900,
        request_ns: 4_000,
        system_call_ns: 2_000,
        memory_ns: 200,
        sqlite_ns: 100_000,
        hash_ns_per_kib: 1_400,
        mac_ns: (900, 870),
        ed25519_ns: (22_600, 59_700),
        rsa_ns: (440_000, 12_700),
        bundle: 10,
        tx_bytes: 64,
        vote_bytes: 256,
        bandwidth: 2_000_000_000,
        link_bandwidth: 0,
        latency_ns: 60_000,
        persist_ns: 0,
        polling_threads: 8,
        patience_ns: 15_000_000_000,
    };

    /// Time to authenticate a message of replicas for `copies` receivers. A MAC is made for each one, a signature once.
    pub(super) const fn make(&self, signatures: Signatures, bytes: u64, copies: u64) -> u64 {
        match signatures {
            Signatures::None => 0,
            Signatures::MacAndEd25519 => self.mac(bytes) * copies,
            Signatures::Ed25519 => self.ed25519_ns.0,
            Signatures::Rsa => self.rsa_ns.0,
        }
    }

    /// Time to check the authentication of a message of replicas.
    pub(super) const fn check(&self, signatures: Signatures, bytes: u64) -> u64 {
        match signatures {
            Signatures::None => 0,
            Signatures::MacAndEd25519 => self.mac(bytes),
            Signatures::Ed25519 => self.ed25519_ns.1,
            Signatures::Rsa => self.rsa_ns.1,
        }
    }

    /// Time to check what clients signed, for `txs` transactions.
    pub(super) const fn check_clients(&self, signatures: Signatures, txs: u64) -> u64 {
        let check = match signatures {
            Signatures::None => 0,
            Signatures::MacAndEd25519 | Signatures::Ed25519 => self.ed25519_ns.1,
            Signatures::Rsa => self.rsa_ns.1,
        };
        check * txs.div_ceil(self.bundle)
    }

    /// Time to sign or to check a statement that travels further than its receiver: always a signature.
    pub(super) const fn statement(&self, signatures: Signatures) -> (u64, u64) {
        match signatures {
            Signatures::None => (0, 0),
            Signatures::MacAndEd25519 | Signatures::Ed25519 => self.ed25519_ns,
            Signatures::Rsa => self.rsa_ns,
        }
    }

    /// Time to make the digest of a proposal.
    pub(super) const fn digest(&self, bytes: u64) -> u64 {
        bytes * self.hash_ns_per_kib / 1024
    }

    const fn mac(&self, bytes: u64) -> u64 {
        self.mac_ns.0 + bytes * self.mac_ns.1 / 1024
    }
}
