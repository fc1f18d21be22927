//! Authentication of the frames of one connection.

use crate::config::Authentication;
use alloy_primitives::Bytes;
use phalanx_bft::{Claim, Index};
use phalanx_keys::{Channel, Ed25519, KeyError, KeyFile, Scheme as _, TAG_BYTES};
use std::sync::Arc;

/// Length of an Ed25519 signature, in bytes.
const SIGNATURE_BYTES: usize = 64;

/// Keys of a replica, and the way in which its frames are authenticated.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) me: Index,
    pub(crate) keys: Arc<KeyFile>,
    pub(crate) signer: Arc<Ed25519>,
    pub(crate) authentication: Authentication,
}

impl Identity {
    pub(crate) fn new(keys: KeyFile, authentication: Authentication) -> Result<Self, KeyError> {
        let signer = Arc::new(Ed25519::new(&keys)?);
        Ok(Self { me: keys.index(), keys: Arc::new(keys), signer, authentication })
    }

    /// The seal of a connection with `peer`, of which `session` is the name.
    pub(crate) fn seal(&self, peer: Index, session: &[u8; 32]) -> Result<Seal, KeyError> {
        Ok(match self.authentication {
            Authentication::None => Seal::None,
            Authentication::Mac => Seal::Mac(Box::new(Channel::new(&self.keys, peer, session)?)),
            Authentication::Ed25519 => {
                let (me, signer) = (self.me, Arc::clone(&self.signer));
                Seal::Signed(Box::new(Signatures { me, peer, signer, session: *session, next_out: 0, next_in: 0 }))
            }
        })
    }
}

/// Tags for outgoing frames, and checks of incoming ones. Both cover the direction, the session and the frame's number.
#[derive(Debug)]
pub(crate) enum Seal {
    None,
    Mac(Box<Channel>),
    Signed(Box<Signatures>),
}

/// Signatures of the frames of one connection.
#[derive(Debug)]
pub(crate) struct Signatures {
    me: Index,
    peer: Index,
    signer: Arc<Ed25519>,
    session: [u8; 32],
    next_out: u64,
    next_in: u64,
}

impl Signatures {
    fn signed(&self, from: Index, to: Index, number: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"phalanx-frame-1".to_vec();
        bytes.extend_from_slice(&self.session);
        bytes.extend_from_slice(&from.0.to_be_bytes());
        bytes.extend_from_slice(&to.0.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }
}

impl Seal {
    pub(crate) const fn tag_bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Mac(_) => TAG_BYTES,
            Self::Signed(_) => SIGNATURE_BYTES,
        }
    }

    /// The tag of the next outgoing frame.
    pub(crate) fn tag(&mut self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Mac(channel) => channel.seal(body).to_vec(),
            Self::Signed(of) => {
                let bytes = of.signed(of.me, of.peer, of.next_out, body);
                of.next_out += 1;
                of.signer.sign(&bytes).to_vec()
            }
        }
    }

    /// Returns true if `body` is the peer's next frame. A connection that has seen false must be closed.
    pub(crate) fn opens(&mut self, body: &[u8], tag: &[u8]) -> bool {
        match self {
            Self::None => tag.is_empty(),
            Self::Mac(channel) => tag.try_into().is_ok_and(|tag| channel.open(body, tag)),
            Self::Signed(of) => {
                let bytes = of.signed(of.peer, of.me, of.next_in, body);
                of.next_in += 1;
                let claim = Claim { signer: of.peer, bytes, signature: Bytes::copy_from_slice(tag) };
                of.signer.verify(&[claim]).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_keys::deal;

    fn ends(authentication: Authentication, sessions: [u8; 2]) -> [Seal; 2] {
        let files = deal(4, &[9; 32]).expect("keys");
        [(0, 1), (1, 0)].map(|(me, peer)| {
            let identity = Identity::new(files[me].clone(), authentication).expect("keys");
            identity.seal(Index(peer as u16), &[sessions[me]; 32]).expect("keys")
        })
    }

    #[test]
    fn changed_repeated_reordered_reflected_and_foreign_frames_are_refused() {
        for authentication in [Authentication::Mac, Authentication::Ed25519] {
            let [mut a, mut b] = ends(authentication, [1, 1]);
            let first = a.tag(b"one");
            assert!(b.opens(b"one", &first) && !b.opens(b"one", &first), "repeated");
            let [mut a, mut b] = ends(authentication, [1, 1]);
            let (_, second) = (a.tag(b"one"), a.tag(b"two"));
            assert!(!b.opens(b"two", &second), "reordered");
            let [mut a, mut b] = ends(authentication, [1, 1]);
            let mut changed = a.tag(b"one");
            assert!(!b.opens(b"onE", &changed));
            changed[3] ^= 4;
            let [mut a, mut b] = ends(authentication, [1, 1]);
            assert!(!b.opens(b"one", &changed) && !b.opens(b"one", b"short"));
            let tag = a.tag(b"one");
            assert!(!a.opens(b"one", &tag), "reflected");
            let [mut a, mut b] = ends(authentication, [1, 2]);
            assert!(!b.opens(b"one", &a.tag(b"one")), "of another session");
        }
        let [mut a, mut b] = ends(Authentication::None, [1, 2]);
        assert!(b.opens(b"one", &a.tag(b"one")));
    }
}
