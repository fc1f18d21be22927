//! `state`: reads, proves, checks, prunes and copies a state store.
//!
//! Commands that look open the store for reading: beside a running node, on a read-only mount, without writing a byte.

mod copies;
mod acknowledged;
mod proofs;
mod look;
mod db;
mod words;
mod written;

use alloy_primitives::B256;
use clap::Subcommand;
use db::{Db, Place};
use phalanx::merkle::HashFn;
use phalanx_lab::{
    config::choice,
    written::{Named, schema},
};
use std::path::PathBuf;
use words::{Hex, StateKey};
use written::{
    Acknowledged, Checked, Discarded, Exported, Form, Got, Made, Pruned, Snapped, Unrestored, Verified, Written,
};

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print height and root of a store
    Info {
        #[command(flatten)]
        db: Db,
        #[command(flatten)]
        form: Form,
    },
    /// Print the value of a key, in words and as it is stored
    Get {
        #[command(flatten)]
        db: Db,
        /// Address (20 bytes), or address and slot (52 bytes), in hex
        key: StateKey,
        #[command(flatten)]
        form: Form,
    },
    /// Print a proof of a key's value or absence, as JSON
    Prove {
        #[command(flatten)]
        db: Db,
        /// Address (20 bytes), or address and slot (52 bytes), in hex
        key: StateKey,
    },
    /// Verify a proof without a store
    Verify {
        /// Output of `state prove`, `-` for stdin
        #[arg(value_name = "FILE|-")]
        proof: PathBuf,
        /// Trusted root, in hex
        #[arg(long)]
        root: Hex,
        /// Hash of the commitment [default: the proof's]
        #[arg(long, value_parser = choice::<HashFn>())]
        hasher: Option<HashFn>,
        #[command(flatten)]
        form: Form,
    },
    /// Verify the single message of an SBFT network about a transaction, without a store
    Acknowledged {
        /// Message, as `net --acknowledgement` writes it, `-` for stdin
        #[arg(value_name = "FILE|-")]
        message: PathBuf,
        /// Trusted public key of any f+1 replicas, 96 bytes in hex
        #[arg(long, value_name = "HEX")]
        public_key: String,
        /// Trusted chain id
        #[arg(long, default_value_t = 1)]
        chain: u64,
        /// Trusted number of the replica set
        #[arg(long, default_value_t = 0)]
        epoch: u64,
        /// Trusted name of the network, as `network.json` has it [default: none, as networks once had]
        #[arg(long, value_name = "HEX", default_value_t = B256::ZERO, hide_default_value = true)]
        instance: B256,
        #[command(flatten)]
        form: Form,
    },
    /// Read the whole store, with its contract code, and compare it with its root
    Check {
        #[command(flatten)]
        db: Db,
        #[command(flatten)]
        form: Form,
    },
    /// Drop the beginning of the log, which the state no longer needs
    Prune {
        #[command(flatten)]
        db: Db,
        #[command(flatten)]
        form: Form,
    },
    /// Copy a store to a new or empty folder
    Backup {
        #[command(flatten)]
        db: Db,
        /// Folder of the copy, or file:DIR or rocks:DIR [default kind: the store's]
        #[arg(long, value_name = "DIR", value_parser = Place::parse)]
        to: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Write a store as one stream
    Export {
        #[command(flatten)]
        db: Db,
        /// File to write, `-` for stdout
        #[arg(value_name = "FILE|-")]
        to: PathBuf,
        #[command(flatten)]
        form: Form,
    },
    /// Make a store in a new or empty folder from such a stream
    Import {
        #[command(flatten)]
        to: New,
        /// File to read, `-` for stdin
        #[arg(value_name = "FILE|-")]
        from: PathBuf,
        /// Expected root, in hex; another root is refused
        #[arg(long)]
        root: Option<Hex>,
        #[command(flatten)]
        form: Form,
    },
    /// Write the state as chunks that are proven one by one, the same on every node
    Snapshot {
        #[command(flatten)]
        db: Db,
        /// Height, one of the last blocks [default: the last]
        #[arg(long)]
        height: Option<u64>,
        /// New folder for the manifest and the chunks
        #[arg(value_name = "DIR")]
        to: PathBuf,
        #[command(flatten)]
        form: Form,
    },
    /// Make a store of a snapshot's chunks; one that was interrupted goes on
    Restore {
        #[command(flatten)]
        to: New,
        /// Folder with a manifest and chunks
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// Trusted height
        #[arg(long)]
        height: u64,
        /// Trusted root at that height, in hex
        #[arg(long)]
        root: Hex,
        #[command(flatten)]
        form: Form,
    },
    /// Remove what an interrupted import, restore or backup left
    Discard {
        /// Folder of the store that was to be made
        #[arg(long, value_name = "DIR", value_parser = Place::parse)]
        db: Place,
        #[command(flatten)]
        form: Form,
    },
}

/// Place of a store that is made.
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// Folder of the new store, or file:DIR or rocks:DIR [default kind: file]
    #[arg(long, value_name = "DIR", value_parser = Place::parse)]
    db: Place,
    /// Hash of the commitment [default: that of what is read]
    #[arg(long, value_parser = choice::<HashFn>())]
    hasher: Option<HashFn>,
}

impl StateCommand {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::Info { db, form } => look::info(db, *form),
            Self::Get { db, key, form } => look::get(db, key, *form),
            Self::Prove { db, key } => proofs::prove(db, key),
            Self::Verify { proof, root, hasher, form } => proofs::verify(proof, root, *hasher, *form),
            Self::Acknowledged { message, public_key, chain, epoch, instance, form } => {
                acknowledged::verify(message, public_key, (*chain, *epoch, *instance), *form)
            }
            Self::Check { db, form } => look::check(db, *form),
            Self::Prune { db, form } => look::prune(db, *form),
            Self::Backup { db, to, form } => copies::backup(db, to, *form),
            Self::Export { db, to, form } => copies::export(db, to, *form),
            Self::Import { to, from, root, form } => copies::import(to, from, root.as_ref(), *form),
            Self::Snapshot { db, height, to, form } => copies::snapshot(db, *height, to, *form),
            Self::Restore { to, from, height, root, form } => copies::restore(to, from, *height, root, *form),
            Self::Discard { db, form } => copies::discard(db, *form),
        }
    }
}

/// Schemas of what the commands write with `--json`.
pub(super) fn schemas() -> Vec<Named> {
    vec![
        schema::<Written<look::Info<'_>>>("state-info", "state info --json"),
        schema::<Written<Got>>("state-get", "state get --json"),
        schema::<proofs::Proof>("state-prove", "state prove"),
        schema::<Written<Verified>>("state-verify", "state verify --json"),
        schema::<Written<Acknowledged>>("state-acknowledged", "state acknowledged --json"),
        schema::<Written<Checked>>("state-check", "state check --json"),
        schema::<Written<Pruned>>("state-prune", "state prune --json"),
        schema::<Written<Made>>("state-copy", "state backup, import and restore --json"),
        schema::<Written<Exported>>("state-export", "state export --json"),
        schema::<Written<Snapped>>("state-snapshot", "state snapshot --json"),
        schema::<Written<Unrestored>>("state-missing", "state restore --json, if chunks are missing"),
        schema::<Written<Discarded>>("state-discard", "state discard --json"),
    ]
}
