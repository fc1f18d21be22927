//! The greeting: both ends name themselves and their network, agree on a session, and prove that they have the keys.
//!
//! ```text
//!  dialler   magic (8) │ instance (32) │ from (2) │ to (2) │ nonce (32)
//!  acceptor  magic (8) │ nonce (32) │ tag over both
//!  dialler   tag over both
//! ```

use super::{
    refused::Refused,
    seal::{Identity, Seal},
};
use crate::config::NetConfig;
use alloy_primitives::B256;
use phalanx_bft::Index;
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"PHXNET_2";
const HELLO: usize = 76;
const ANSWER: usize = 40;

/// Hash of everything that all replicas of a network must agree on: the configuration, and what else has a digest.
pub(crate) fn instance(config: &NetConfig, digests: &[B256]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("phalanx-net 1 instance");
    let parts = config.agreed();
    for part in &parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    for digest in digests {
        hasher.update(digest.as_slice());
    }
    *hasher.finalize().as_bytes()
}

fn nonce() -> Result<[u8; 32], Refused> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| Refused::Io(io::Error::other(error)))?;
    Ok(nonce)
}

/// Name of the session, and what both ends prove: all that was said.
fn transcript(hello: &[u8; HELLO], answer: &[u8; ANSWER]) -> ([u8; 32], Vec<u8>) {
    let said = [&hello[..], answer].concat();
    (blake3::derive_key("phalanx-net 1 session", &said), said)
}

fn read_tag(input: &mut impl Read, seal: &mut Seal, said: &[u8]) -> Result<(), Refused> {
    let mut tag = vec![0; seal.tag_bytes()];
    input.read_exact(&mut tag)?;
    if seal.opens(said, &tag) { Ok(()) } else { Err(Refused::Unproven) }
}

/// Greets `peer`. Returns the seal of the connection.
pub(crate) fn dial(
    stream: &mut (impl Read + Write),
    identity: &Identity,
    instance: &[u8; 32],
    peer: Index,
) -> Result<Seal, Refused> {
    let mut hello = [0; HELLO];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..40].copy_from_slice(instance);
    hello[40..42].copy_from_slice(&identity.me.0.to_be_bytes());
    hello[42..44].copy_from_slice(&peer.0.to_be_bytes());
    hello[44..].copy_from_slice(&nonce()?);
    stream.write_all(&hello)?;
    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer)?;
    if answer[..8] != MAGIC {
        return Err(Refused::Greeting);
    }
    let (session, said) = transcript(&hello, &answer);
    let (me, to) = (identity.me.0, peer.0);
    let mut seal = identity.seal(peer, &session).map_err(|_| Refused::Index { from: me, to })?;
    read_tag(stream, &mut seal, &said)?;
    stream.write_all(&seal.tag(&said))?;
    Ok(seal)
}

/// Answers a greeting. Returns the peer and the seal of the connection.
pub(crate) fn accept(
    stream: &mut (impl Read + Write),
    identity: &Identity,
    instance: &[u8; 32],
) -> Result<(Index, Seal), Refused> {
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello)?;
    if hello[..8] != MAGIC {
        return Err(Refused::Greeting);
    }
    if hello[8..40] != *instance {
        return Err(Refused::Instance);
    }
    let (from, to) = (u16::from_be_bytes([hello[40], hello[41]]), u16::from_be_bytes([hello[42], hello[43]]));
    let wrong = || Refused::Index { from, to };
    if to != identity.me.0 || from == to || usize::from(from) >= identity.keys.replicas() {
        return Err(wrong());
    }
    let mut answer = [0; ANSWER];
    answer[..8].copy_from_slice(&MAGIC);
    answer[8..].copy_from_slice(&nonce()?);
    let (session, said) = transcript(&hello, &answer);
    let mut seal = identity.seal(Index(from), &session).map_err(|_| wrong())?;
    let tag = seal.tag(&said);
    stream.write_all(&[&answer[..], &tag].concat())?;
    read_tag(stream, &mut seal, &said)?;
    Ok((Index(from), seal))
}
