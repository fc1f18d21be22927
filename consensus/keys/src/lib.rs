//! Keys of replicas: signatures over statements, and tags over the frames of a channel.
//!
//! - [`Scheme`] signs and verifies statements: [`Ed25519`] for networks, [`Simulated`] for worlds in virtual time.
//! - [`Bls`] adds signatures of groups: threshold shares, combined to one signature under one key.
//! - [`Channel`] authenticates frames between two replicas by keyed BLAKE3, sequence number included.
//! - [`KeyFile`] holds the keys of one replica, [`BlsFile`] also its shares of groups.
//! - [`OwnKeys`] are made by one operator; a [`Roster`] of [`PublicKeys`] and everyone's [`Dealing`] make key files of them.
//! - [`deal`] makes the keys of all replicas from one seed, for laboratories.
//!
//! ```
//! use phalanx_bft::{Claim, Index};
//! use phalanx_keys::{Ed25519, Scheme, deal};
//!
//! let files = deal(4, &[7; 32])?;
//! let signer = Ed25519::new(&files[2])?;
//! let (bytes, signature) = (b"a statement".to_vec(), signer.sign(b"a statement"));
//! let verifier = Ed25519::new(&files[0])?;
//! assert!(verifier.verify(&[Claim { signer: Index(2), bytes, signature }]).is_ok());
//! # Ok::<(), phalanx_keys::KeyError>(())
//! ```

mod channel;
mod bls;
mod scheme;
mod member;
mod file;
mod summed;

pub use bls::{Bls, BlsFile, Dealing, deal_bls};
pub use channel::{Channel, TAG_BYTES};
pub use file::{KeyError, KeyFile, deal, fresh_seed};
pub use member::{OwnKeys, PublicKeys, Roster};
pub use scheme::{BadSignature, Ed25519, Scheme, Simulated};
