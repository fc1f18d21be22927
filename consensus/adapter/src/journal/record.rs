//! Encoding of a decided block: a head that binds it to its place, then the block, decoded strictly.
//!
//! ```text
//!  length of the body (4) │ checksum of the length (12) │ checksum of the body (16) │ body │ end mark (1)
//! ```
//!
//! Numbers are big-endian; lists and bytes follow their length. Checksums are the first bytes of BLAKE3 over the previous
//! record's checksum, the record's offset and what they cover. So a record counts only at its offset, behind its predecessor.

use crate::consensus::DecidedBlock;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::{BlockMeta, Certificate};

/// Length of the head, in bytes.
pub(super) const HEAD: usize = 32;

/// Last byte of a record: a record whose end reads as zeros was not written to its end.
const END: u8 = 0xa5;

/// Checksum of a record's body, which the next record's checksums cover.
pub(super) type Link = [u8; 16];

/// Place of a record: its offset in bytes, and the checksum of the record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) after: Link,
}

impl Place {
    /// Checksum of the length of a body.
    fn of_length(&self, length: [u8; 4]) -> [u8; 12] {
        self.checksum("phalanx journal 2, length of a record", length, &[])
    }

    /// Checksum of a body.
    fn of_body(&self, length: [u8; 4], body: &[u8]) -> Link {
        self.checksum("phalanx journal 2, body of a record", length, body)
    }

    fn checksum<const N: usize>(&self, context: &str, length: [u8; 4], body: &[u8]) -> [u8; N] {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.after).update(&self.at.to_be_bytes()).update(&length).update(body);
        let mut checksum = [0; N];
        hasher.finalize_xof().fill(&mut checksum);
        checksum
    }
}

/// Encodes a block for a place, with its link; `None` if it is longer than a record can state.
pub(super) fn write(block: &DecidedBlock, place: &Place) -> Option<(Vec<u8>, Link)> {
    let DecidedBlock { meta, env, payload, proof, certificate } = block;
    let mut out = vec![0; HEAD];
    [meta.id.0, meta.parent.0, env.prevrandao].iter().for_each(|hash| out.extend_from_slice(hash.as_slice()));
    for number in [meta.height, env.height, env.timestamp_ms, env.gas_limit, env.base_fee] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(env.beneficiary.as_slice());
    out.extend_from_slice(&u32::try_from(payload.txs().len()).ok()?.to_be_bytes());
    for bytes in payload.txs().iter().chain([payload.attributes(), proof]) {
        put(&mut out, bytes)?;
    }
    out.push(u8::from(certificate.is_some()));
    if let Some(Certificate { digest, bytes }) = certificate {
        out.extend_from_slice(digest.as_slice());
        put(&mut out, bytes)?;
    }
    let length = u32::try_from(out.len() - HEAD).ok()?.to_be_bytes();
    let (head, body) = out.split_at_mut(HEAD);
    let link = place.of_body(length, body);
    head[..4].copy_from_slice(&length);
    head[4..16].copy_from_slice(&place.of_length(length));
    head[16..].copy_from_slice(&link);
    out.push(END);
    Some((out, link))
}

fn put(out: &mut Vec<u8>, bytes: &Bytes) -> Option<()> {
    out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

/// Length of a record by its head; `None` if the checksum of the length fails.
pub(super) fn length(head: &[u8; HEAD], place: &Place) -> Option<u64> {
    let mut head = Reader(head);
    let (length, checksum): ([u8; 4], [u8; 12]) = (head.array()?, head.array()?);
    (place.of_length(length) == checksum).then_some(HEAD as u64 + u64::from(u32::from_be_bytes(length)) + 1)
}

/// Link in a head.
pub(super) fn link(head: &[u8; HEAD]) -> Link {
    let mut link = Link::default();
    link.copy_from_slice(&head[HEAD - size_of::<Link>()..]);
    link
}

/// Decodes a record that is exactly `bytes`, with its link; `None` for anything but a whole record of this place.
pub(super) fn read(bytes: &[u8], place: &Place) -> Option<(DecidedBlock, Link)> {
    let (head, rest) = bytes.split_first_chunk()?;
    let (&END, body) = rest.split_last()? else { return None };
    let whole = length(head, place)? == bytes.len() as u64;
    let (expected, [a, b, c, d, ..]) = (link(head), *head);
    if !whole || place.of_body([a, b, c, d], body) != expected {
        return None;
    }
    Some((block(body)?, expected))
}

fn block(body: &[u8]) -> Option<DecidedBlock> {
    let mut body = Reader(body);
    let (id, parent, prevrandao) = (BlockId(body.hash()?), BlockId(body.hash()?), body.hash()?);
    let meta = BlockMeta { id, parent, height: body.u64()? };
    let (height, timestamp_ms, gas_limit, base_fee) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let beneficiary = Address::new(body.array()?);
    let env = BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee };
    let count = u32::from_be_bytes(body.array()?);
    let txs = (0..count).map(|_| body.bytes()).collect::<Option<_>>()?;
    let payload = Payload::with_attributes(txs, body.bytes()?).into();
    let proof = body.bytes()?;
    let certificate = match body.array()? {
        [0] => None,
        [1] => Some(Certificate { digest: body.hash()?, bytes: body.bytes()? }),
        _ => return None,
    };
    body.0.is_empty().then_some(DecidedBlock { meta, env, payload, proof, certificate })
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn slice(&mut self, length: usize) -> Option<&'b [u8]> {
        let (slice, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(slice)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn hash(&mut self) -> Option<B256> {
        self.array().map(B256::new)
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let length = u32::from_be_bytes(self.array()?) as usize;
        self.slice(length).map(Bytes::copy_from_slice)
    }
}
