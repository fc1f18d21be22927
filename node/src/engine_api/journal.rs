//! Payloads beside the chain as files of the node's folder: a restart has the tree that the client knows.
//!
//! A client of Ethereum sends a payload once. The node has no peers to fetch one from that it has lost, so the chain would end
//! there. A payload is therefore durable before it is answered.

use super::proposed::Proposed;
use crate::{
    durable::{failed, write_durably},
    error::NodeError,
};
use alloy_primitives::B256;
use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Name of the folder.
const FOLDER: &str = "payloads";

/// End of the names of whole files. One that is being written has another.
const END: &str = "payload";

/// Bytes of a checksum.
const SUM: usize = 4;

/// A block with its checksum: what is decoded from a damaged file could be judged under the hash of another.
fn encode(block: &Proposed) -> Vec<u8> {
    let mut bytes = block.encode();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Proposed> {
    let (block, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
    if *sum == crc32fast::hash(block).to_le_bytes() { Proposed::decode(block) } else { None }
}

/// Files of payloads, one each.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Opens the journal in a node's folder, and reads it: payloads by height, without files that are none.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub(super) fn open(node: &Path) -> Result<(Self, Vec<Proposed>), NodeError> {
        let folder = node.join(FOLDER);
        let read = || -> std::io::Result<Vec<PathBuf>> {
            fs::create_dir_all(&folder)?;
            fs::read_dir(&folder)?.map(|file| Ok(file?.path())).collect()
        };
        let paths = read().map_err(|error| failed(&folder, &error))?;
        let mut held = BTreeMap::new();
        for path in paths {
            let is_whole = path.extension().is_some_and(|end| end == END);
            let block = fs::read(&path).ok().and_then(|bytes| decode(&bytes)).filter(|_| is_whole);
            match block {
                Some(block) => _ = held.insert((block.number(), block.hash), block),
                // A write was cut off before its payload was answered.
                None => {
                    tracing::warn!(path = %path.display(), "a file of the journal is no payload, and is removed");
                    fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
                }
            }
        }
        Ok((Self { folder }, held.into_values().collect()))
    }

    fn path(&self, hash: &B256) -> PathBuf {
        self.folder.join(format!("{hash:x}.{END}"))
    }

    /// Writes a payload, durably, unless it is there.
    ///
    /// # Errors
    /// The disk fails, or is full.
    pub(super) fn put(&self, block: &Proposed) -> Result<(), NodeError> {
        let path = self.path(&block.hash);
        if path.exists() { Ok(()) } else { write_durably(&path, &encode(block)) }
    }

    /// Removes a payload that is on the chain, or of no use any longer.
    pub(super) fn remove(&self, hash: &B256) {
        let path = self.path(hash);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            // It takes room until the next start, and changes nothing.
            tracing::warn!(path = %path.display(), %error, "a payload stays in the journal");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use alloy_primitives::Bytes;

    fn block(number: u64) -> Proposed {
        let header = Header { number, timestamp: 12 * number, extra_data: "x".into(), ..Header::default() };
        Proposed::new(B256::with_last_byte(number as u8), &header, vec![Bytes::from(vec![7; 100])], Vec::new())
    }

    #[test]
    fn payloads_are_there_again_and_what_is_damaged_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (journal, held) = Journal::open(folder.path()).expect("empty");
        assert!(held.is_empty());
        for number in [3, 1, 2, 2] {
            journal.put(&block(number)).expect("written");
        }
        let numbers = |held: &[Proposed]| held.iter().map(Proposed::number).collect::<Vec<_>>();
        let (_, held) = Journal::open(folder.path()).expect("read");
        assert_eq!(numbers(&held), [1, 2, 3]);
        let (found, put) = (&held[0], block(1));
        assert_eq!((found.hash, found.parent, found.env(), found.txs()), (put.hash, put.parent, put.env(), put.txs()));
        assert_eq!(found.encode(), put.encode());
        // Cut off, flipped, empty, and never renamed.
        let path = |number: u64| journal.path(&block(number).hash);
        let whole = fs::read(path(1)).expect("a file");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(decode(&flipped).is_none() && decode(&whole[..at]).is_none(), "{at}");
        }
        fs::write(path(1), &whole[..whole.len() - 1]).expect("written");
        fs::write(path(4), []).expect("written");
        fs::write(path(2).with_added_extension("new"), &whole).expect("written");
        let (_, held) = Journal::open(folder.path()).expect("read");
        assert_eq!(numbers(&held), [2, 3]);
        assert_eq!(fs::read_dir(folder.path().join(FOLDER)).expect("a folder").count(), 2);
        [2, 2].iter().for_each(|number| journal.remove(&block(*number).hash));
        assert_eq!(numbers(&Journal::open(folder.path()).expect("read").1), [3]);
    }
}
