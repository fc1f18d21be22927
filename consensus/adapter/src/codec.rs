//! Encoding of a decided block, for the wire and for journals: one block, one encoding, decoded strictly.
//!
//! Numbers are big-endian; lists and bytes follow their length, in four bytes.

use crate::consensus::DecidedBlock;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_engine_api::{BlockEnv, BlockId, Payload};
use phalanx_pipeline::{BlockMeta, Certificate};

/// A decided block has a part or a number of transactions beyond 2^32 - 1, which its encoding cannot state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl core::fmt::Display for TooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a part of the decided block is longer than its encoding can state")
    }
}

impl core::error::Error for TooLong {}

impl DecidedBlock {
    /// Encodes the block, for [`Self::decode`]: what a peer needs to replay it. O(bytes).
    ///
    /// # Errors
    /// A part is longer than can be stated.
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::new();
        self.encode_to(&mut out).ok_or(TooLong)?;
        Ok(out)
    }

    /// Decodes a block; `None` if the bytes are anything but [`Self::encode`]'s. Takes memory in proportion to the bytes,
    /// whatever they claim. Whether the block is decided, `proof` shows.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut body = Reader(bytes);
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
        body.0.is_empty().then_some(Self { meta, env, payload, proof, certificate })
    }

    /// Appends the encoding; `None` if something is too long.
    fn encode_to(&self, out: &mut Vec<u8>) -> Option<()> {
        let Self { meta, env, payload, proof, certificate } = self;
        [meta.id.0, meta.parent.0, env.prevrandao].iter().for_each(|hash| out.extend_from_slice(hash.as_slice()));
        for number in [meta.height, env.height, env.timestamp_ms, env.gas_limit, env.base_fee] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(env.beneficiary.as_slice());
        out.extend_from_slice(&u32::try_from(payload.txs().len()).ok()?.to_be_bytes());
        for bytes in payload.txs().iter().chain([payload.attributes(), proof]) {
            put(out, bytes)?;
        }
        out.push(u8::from(certificate.is_some()));
        if let Some(Certificate { digest, bytes }) = certificate {
            out.extend_from_slice(digest.as_slice());
            put(out, bytes)?;
        }
        Some(())
    }
}

fn put(out: &mut Vec<u8>, bytes: &Bytes) -> Option<()> {
    out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Vec<DecidedBlock> {
        let hash = |byte| B256::repeat_byte(byte);
        let env = BlockEnv {
            height: 7,
            timestamp_ms: 8,
            prevrandao: hash(3),
            beneficiary: Address::repeat_byte(4),
            gas_limit: 5,
            base_fee: 6,
        };
        let block =
            |txs: &[&'static [u8]], attributes: &'static [u8], proof: &'static [u8], certificate| DecidedBlock {
                meta: BlockMeta { id: BlockId(hash(1)), parent: BlockId(hash(2)), height: 7 },
                env,
                payload: Payload::with_attributes(
                    txs.iter().map(|tx| Bytes::from_static(tx)).collect(),
                    Bytes::from_static(attributes),
                )
                .into(),
                proof: Bytes::from_static(proof),
                certificate,
            };
        let certificate = Some(Certificate { digest: hash(9), bytes: Bytes::from_static(b"signed") });
        vec![
            block(&[], b"", b"", None),
            block(&[b"one", b"", b"three"], b"withdrawals", b"proof", certificate),
            block(&[b""], b"", b"", Some(Certificate { digest: hash(0), bytes: Bytes::new() })),
        ]
    }

    #[test]
    fn every_block_has_one_encoding() {
        for block in blocks() {
            let bytes = block.encode().expect("short");
            assert_eq!(DecidedBlock::decode(&bytes), Some(block));
            (0..bytes.len()).for_each(|cut| assert_eq!(DecidedBlock::decode(&bytes[..cut]), None, "cut at {cut}"));
            assert_eq!(DecidedBlock::decode(&[&bytes[..], &[0]].concat()), None);
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut other = bytes.clone();
                    other[at] ^= 1 << bit;
                    // Other bytes are nothing, or another block.
                    if let Some(other_block) = DecidedBlock::decode(&other) {
                        assert_eq!(other_block.encode().expect("short"), other);
                    }
                }
            }
        }
    }

    #[test]
    fn claims_of_length_cost_nothing() {
        let bytes = blocks()[0].encode().expect("short");
        let count = 3 * 32 + 5 * 8 + 20;
        let mut vast = bytes;
        vast[count..count + 4].fill(0xff);
        assert_eq!(DecidedBlock::decode(&vast), None, "more transactions than there are bytes");
    }
}
