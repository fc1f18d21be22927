//! Authentication of the frames between two replicas.

use crate::file::{KeyError, KeyFile};
use blake3::Hash;
use phalanx_bft::Index;

/// Length of a tag, in bytes.
pub const TAG_BYTES: usize = 16;

/// The channel between this replica and another one. Tags cover direction, sequence number and content, so that a frame can be
/// neither reflected, repeated, reordered nor changed.
#[derive(Clone)]
pub struct Channel {
    outgoing: [u8; 32],
    incoming: [u8; 32],
    next_out: u64,
    next_in: u64,
}

impl core::fmt::Debug for Channel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Channel")
            .field("next_out", &self.next_out)
            .field("next_in", &self.next_in)
            .finish_non_exhaustive()
    }
}

impl Channel {
    /// The channel to `peer` in one connection. `session` differs for every connection: both ends contribute to it.
    ///
    /// # Errors
    /// The file has no key for the peer.
    pub fn new(file: &KeyFile, peer: Index, session: &[u8; 32]) -> Result<Self, KeyError> {
        file.check()?;
        let count = file.replicas();
        let key = file.channel_keys().get(usize::from(peer.0)).filter(|_| peer != file.index());
        let key = key.ok_or(KeyError::Count { index: peer.0, public: count, channel: count })?;
        let direction = |from: Index, to: Index| {
            let mut hasher = blake3::Hasher::new_keyed(&key.0);
            hasher.update(b"phalanx-channel-1").update(session);
            hasher.update(&from.0.to_be_bytes()).update(&to.0.to_be_bytes());
            *hasher.finalize().as_bytes()
        };
        let me = file.index();
        Ok(Self { outgoing: direction(me, peer), incoming: direction(peer, me), next_out: 0, next_in: 0 })
    }

    /// The tag of the next outgoing frame.
    pub fn seal(&mut self, frame: &[u8]) -> [u8; TAG_BYTES] {
        let tag = tag(&self.outgoing, self.next_out, frame);
        self.next_out += 1;
        tag
    }

    /// Returns true if `frame` is the peer's next frame. A channel that has returned false must be closed.
    pub fn open(&mut self, frame: &[u8], claimed: &[u8; TAG_BYTES]) -> bool {
        let mut padded = [[0; 32]; 2];
        padded[0][..TAG_BYTES].copy_from_slice(&tag(&self.incoming, self.next_in, frame));
        padded[1][..TAG_BYTES].copy_from_slice(claimed);
        self.next_in += 1;
        // Compared in constant time.
        Hash::from_bytes(padded[0]) == Hash::from_bytes(padded[1])
    }
}

fn tag(key: &[u8; 32], sequence: u64, frame: &[u8]) -> [u8; TAG_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&sequence.to_be_bytes()).update(frame);
    let mut tag = [0; TAG_BYTES];
    hasher.finalize_xof().fill(&mut tag);
    tag
}
