//! Format of the binary ingress: a greeting, frames of transactions, and a frame of verdicts for each.
//!
//! ```text
//!  client ─► node: "phxtx" 0 0 1                                       node ─► client: the same, most bytes, most transactions
//!  client ─► node: length of the rest, { length, EIP-2718 bytes }*     node ─► client: length of the rest, { code, hash }*
//! ```
//!
//! Lengths and numbers are of 32 bits, the most significant byte first. A frame of one byte from the node is the reason for which
//! it ends the connection.

use alloy_primitives::{B256, Bytes};

/// First bytes of both sides: a name and a version.
pub const GREETING: [u8; 8] = *b"phxtx\0\0\x01";

/// Maximum number of transactions in a frame.
pub const MAX_TXS: usize = 4_096;

/// Bytes of a verdict.
const VERDICT: usize = 33;

/// Result of the offer of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum Code {
    /// The transaction is in the pool, or with the node that this one follows.
    Admitted = 0,
    /// The pool has it already.
    Known = 1,
    /// The bytes are no transaction of the chain, or break a rule that needs no state.
    Malformed = 2,
    /// The nonce is used.
    NonceUsed = 3,
    /// The nonce is too far ahead of the account's.
    NonceTooFar = 4,
    /// The account cannot pay for it.
    Funds = 5,
    /// The price is too low, or too low to replace another transaction.
    Underpriced = 6,
    /// The pool has no room: another try may succeed.
    PoolFull = 7,
    /// Too many transactions wait to be admitted, or the state cannot be read now: another try may succeed.
    Busy = 8,
    /// Another rule of the pool refuses it.
    Refused = 9,
}

impl Code {
    const ALL: [Self; 10] = [
        Self::Admitted,
        Self::Known,
        Self::Malformed,
        Self::NonceUsed,
        Self::NonceTooFar,
        Self::Funds,
        Self::Underpriced,
        Self::PoolFull,
        Self::Busy,
        Self::Refused,
    ];

    /// True if the same transaction may be admitted later.
    pub const fn may_pass_later(self) -> bool {
        matches!(self, Self::NonceTooFar | Self::PoolFull | Self::Busy)
    }
}

/// Reason for which the node ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[repr(u8)]
pub enum Ended {
    /// The first bytes are no greeting of this version.
    #[error("the greeting is of another protocol or version")]
    Greeting = 1,
    /// A frame has more bytes or transactions than the node's greeting permits.
    #[error("a frame is longer than the node permits")]
    TooLong = 2,
    /// A frame is not made of transactions.
    #[error("a frame is not made of transactions with their lengths")]
    Frame = 3,
    /// All connections hold too many bytes.
    #[error("the node holds too many bytes of requests: retry later")]
    Full = 4,
    /// The node stops.
    #[error("the node stops")]
    Stops = 5,
}

impl Ended {
    const ALL: [Self; 5] = [Self::Greeting, Self::TooLong, Self::Frame, Self::Full, Self::Stops];
}

/// Verdict on a transaction. The hash is Keccak-256 of its bytes as a block holds them; zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Result of its offer.
    pub code: Code,
    /// Its hash.
    pub hash: B256,
}

/// First bytes of the node, which permits frames of so many bytes.
pub(super) fn hello(max_bytes: u32) -> Vec<u8> {
    [&GREETING[..], &max_bytes.to_be_bytes(), &length(MAX_TXS)].concat()
}

/// Writes a frame of transactions.
pub(super) fn write_txs(txs: &[impl AsRef<[u8]>], to: &mut Vec<u8>) {
    let len: usize = txs.iter().map(|tx| 4 + tx.as_ref().len()).sum();
    to.reserve(4 + len);
    to.extend(length(len));
    for tx in txs {
        to.extend(length(tx.as_ref().len()));
        to.extend_from_slice(tx.as_ref());
    }
}

/// Reads the rest of a frame of transactions, which share its bytes.
///
/// # Errors
/// The lengths do not add up, or there are too many transactions.
pub(super) fn read_txs(frame: &Bytes) -> Result<Vec<Bytes>, Ended> {
    let (mut txs, mut at) = (Vec::new(), 0);
    while at < frame.len() {
        let head = frame.get(at..at + 4).ok_or(Ended::Frame)?;
        let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let end = (at + 4).checked_add(len).filter(|end| *end <= frame.len()).ok_or(Ended::Frame)?;
        if txs.len() == MAX_TXS {
            return Err(Ended::TooLong);
        }
        txs.push(frame.slice(at + 4..end));
        at = end;
    }
    Ok(txs)
}

/// Writes a frame of verdicts.
pub(super) fn write_verdicts(verdicts: &[Verdict], to: &mut Vec<u8>) {
    to.reserve(4 + VERDICT * verdicts.len());
    to.extend(length(VERDICT * verdicts.len()));
    for Verdict { code, hash } in verdicts {
        to.push(*code as u8);
        to.extend_from_slice(hash.as_slice());
    }
}

/// Writes the reason for which the connection ends.
pub(super) fn write_end(why: Ended, to: &mut Vec<u8>) {
    to.extend(length(1));
    to.push(why as u8);
}

/// Reads the rest of a frame from the node: verdicts, or the reason of its end. `None` if it is neither.
pub(super) fn read_verdicts(frame: &[u8]) -> Option<Result<Vec<Verdict>, Ended>> {
    if let [why] = frame {
        return Ended::ALL.into_iter().find(|known| *known as u8 == *why).map(Err);
    }
    let verdict = |bytes: &[u8]| {
        let code = Code::ALL.into_iter().find(|code| *code as u8 == bytes[0])?;
        Some(Verdict { code, hash: B256::from_slice(&bytes[1..]) })
    };
    let (verdicts, rest) = frame.as_chunks::<VERDICT>();
    let verdicts = verdicts.iter().map(|bytes| verdict(bytes)).collect::<Option<_>>()?;
    rest.is_empty().then_some(Ok(verdicts))
}

/// A length, as it is written. Frames are shorter than 4 GiB: a receiver refuses what is longer than it permits.
fn length(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_survive_the_wire() {
        for txs in
            [vec![], vec![Bytes::new()], vec![Bytes::from(vec![1, 2, 3]), Bytes::new(), Bytes::from(vec![9; 70_000])]]
        {
            let mut frame = Vec::new();
            write_txs(&txs, &mut frame);
            assert_eq!(frame[..4], length(frame.len() - 4));
            assert_eq!(read_txs(&Bytes::from(frame.split_off(4))), Ok(txs));
        }
    }

    #[test]
    fn no_frame_is_read_that_does_not_add_up() {
        let mut frame = Vec::new();
        write_txs(&[[1_u8; 5], [2; 5]], &mut frame);
        let frame = Bytes::from(frame.split_off(4));
        for cut in 1..frame.len() {
            let whole = cut == 9;
            assert_eq!(read_txs(&frame.slice(..cut)).is_ok(), whole, "{cut}");
        }
        let huge = Bytes::from([&u32::MAX.to_be_bytes()[..], &[0; 9]].concat());
        assert_eq!(read_txs(&huge), Err(Ended::Frame));
        let many = |count| Bytes::from(vec![0; 4 * count]);
        assert_eq!(read_txs(&many(MAX_TXS)).map(|txs| txs.len()), Ok(MAX_TXS));
        assert_eq!(read_txs(&many(MAX_TXS + 1)), Err(Ended::TooLong));
    }

    #[test]
    fn verdicts_and_ends_survive_the_wire() {
        let verdicts: Vec<_> = Code::ALL.map(|code| Verdict { code, hash: B256::repeat_byte(code as u8) }).into();
        let mut frame = Vec::new();
        write_verdicts(&verdicts, &mut frame);
        assert_eq!(read_verdicts(&frame[4..]), Some(Ok(verdicts)));
        assert_eq!(read_verdicts(&frame[4..frame.len() - 1]), None);
        assert_eq!(read_verdicts(&[77; VERDICT]), None);
        for why in Ended::ALL {
            let mut frame = Vec::new();
            write_end(why, &mut frame);
            assert_eq!(read_verdicts(&frame[4..]), Some(Err(why)));
        }
        assert_eq!(read_verdicts(&[0]), None);
    }
}
