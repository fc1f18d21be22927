//! Encoding of a decided block: a head that nothing else can be taken for, then the block, decoded strictly.
//!
//! ```text
//!  length of the body (4) │ checksum of the length (4) │ checksum of the body (8) │ body
//! ```
//!
//! Numbers are big-endian; lists and bytes follow their length. Checksums are the first bytes of Keccak-256.

use crate::consensus::DecidedBlock;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::{BlockMeta, Certificate};

/// Length of the head, in bytes.
pub(super) const HEAD: usize = 16;

/// Encodes a block; `None` if it is longer than a record can state.
pub(super) fn write(block: &DecidedBlock) -> Option<Vec<u8>> {
    let DecidedBlock { meta, env, payload, proof, certificate } = block;
    let mut out = vec![0; HEAD];
    [meta.id.0, meta.parent.0, env.prevrandao].iter().for_each(|hash| out.extend_from_slice(hash.as_slice()));
    for number in [meta.height, env.height, env.timestamp_ms, env.gas_limit, env.base_fee] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(env.beneficiary.as_slice());
    out.extend_from_slice(&u32::try_from(payload.txs().len()).ok()?.to_be_bytes());
    for bytes in payload.txs().iter().chain([proof]) {
        put(&mut out, bytes)?;
    }
    out.push(u8::from(certificate.is_some()));
    if let Some(Certificate { digest, bytes }) = certificate {
        out.extend_from_slice(digest.as_slice());
        put(&mut out, bytes)?;
    }
    let length = u32::try_from(out.len() - HEAD).ok()?.to_be_bytes();
    let (head, body) = out.split_at_mut(HEAD);
    head[..4].copy_from_slice(&length);
    head[4..8].copy_from_slice(&keccak256(length)[..4]);
    head[8..].copy_from_slice(&keccak256(body)[..8]);
    Some(out)
}

fn put(out: &mut Vec<u8>, bytes: &Bytes) -> Option<()> {
    out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

/// Length of the body behind a head; `None` if the checksum of the head fails.
pub(super) fn length(head: &[u8; HEAD]) -> Option<usize> {
    let mut head = Reader(head);
    let (length, checksum): ([u8; 4], [u8; 4]) = (head.array()?, head.array()?);
    (keccak256(length)[..4] == checksum).then_some(u32::from_be_bytes(length) as usize)
}

/// Decodes the block at the beginning of `bytes`, with the length of its record; `None` for anything but a whole
/// record.
pub(super) fn read(bytes: &[u8]) -> Option<(DecidedBlock, usize)> {
    let (head, rest) = bytes.split_first_chunk()?;
    let body = rest.get(..length(head)?)?;
    if keccak256(body)[..8] != head[8..] {
        return None;
    }
    Some((block(body)?, HEAD + body.len()))
}

fn block(body: &[u8]) -> Option<DecidedBlock> {
    let mut body = Reader(body);
    let (id, parent, prevrandao) = (BlockId(body.hash()?), BlockId(body.hash()?), body.hash()?);
    let meta = BlockMeta { id, parent, height: body.u64()? };
    let (height, timestamp_ms, gas_limit, base_fee) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let beneficiary = Address::new(body.array()?);
    let env = BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee };
    let count = u32::from_be_bytes(body.array()?);
    let payload = Payload::new((0..count).map(|_| body.bytes()).collect::<Option<_>>()?).into();
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
