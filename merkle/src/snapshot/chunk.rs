//! A chunk: makes its bytes, and checks them against the manifest alone.

use phalanx_merkle_proof::{BITMAP_BYTES, Entry, Hash, Proven, TWIG_LEAVES};

use super::{
    levels::{Levels, fold, path},
    manifest::{CHUNK_LEVELS, Manifest},
};
use crate::{
    log::Fields,
    tree::{Bitmap, TwigTree},
    types::{Contents, SnapshotError},
};

/// Verified chunk of a snapshot.
#[derive(Clone, Debug)]
pub struct Chunk<'b> {
    first_sn: u64,
    bitmaps: Vec<&'b Bitmap>,
    entries: Vec<Entry<'b>>,
    codes: Vec<(Hash, &'b [u8])>,
}

impl<'b> Chunk<'b> {
    /// Checks a chunk. Takes time in proportion to its length, and a hundred bytes of memory per entry.
    ///
    /// # Errors
    /// [`SnapshotError`]: the bytes are not this chunk of this snapshot.
    pub fn verify(
        manifest: &Manifest,
        contents: &Contents,
        number: u64,
        bytes: &'b [u8],
    ) -> Result<Self, SnapshotError> {
        if number >= manifest.chunks() {
            return Err(SnapshotError::Number(number));
        }
        let (hash, shape) = (manifest.params.hash, &manifest.shape);
        let (level, index) = manifest.node(number);
        let mut rest = Fields(bytes);
        let beside = path(shape, level, index).map(|at| Some((at, *rest.array::<32>()?)));
        let beside: Vec<((u8, u64), Hash)> = beside.collect::<Option<_>>().ok_or(SnapshotError::Malformed)?;
        let twigs = manifest.twigs(number);
        let first_sn = twigs.start * TWIG_LEAVES as u64;
        let mut chunk = Self { first_sn, bitmaps: Vec::new(), entries: Vec::new(), codes: Vec::new() };
        let mut digests = Vec::with_capacity(1 << CHUNK_LEVELS);
        for twig in twigs.clone() {
            let places = TWIG_LEAVES.min((shape.next_sn - twig * TWIG_LEAVES as u64) as usize);
            let left = chunk.twig(hash, &mut rest, places).ok_or(SnapshotError::Malformed)?;
            let bits = chunk.bitmaps.last().map(|bits| hash.bits(bits)).unwrap_or_default();
            digests.push(hash.twig(&left, &bits));
        }
        let mut digest = fold(hash, twigs.start, digests, level - phalanx_merkle_proof::TWIG_LEVEL);
        let mut beside = beside.into_iter().peekable();
        for at in level..shape.top_level() {
            let index = index >> (at - level);
            let other = beside
                .next_if(|(node, _)| *node == (at, index ^ 1))
                .map_or(phalanx_merkle_proof::EMPTY, |(_, digest)| digest);
            let (left, right) = if index % 2 == 0 { (digest, other) } else { (other, digest) };
            digest = hash.node(at + 1, &left, &right);
        }
        if digest != manifest.top {
            return Err(SnapshotError::Root);
        }
        let keys = chunk.entries().filter(|proven| proven.active && !proven.entry.sentinel);
        if !keys.map(|proven| proven.entry.key).all(contents.is_key) {
            return Err(SnapshotError::Key);
        }
        chunk.read_codes(contents, rest)?;
        Ok(chunk)
    }

    /// Reads a twig, and returns the digest of its leaves.
    fn twig(&mut self, hash: phalanx_merkle_proof::HashFn, rest: &mut Fields<'b>, places: usize) -> Option<Hash> {
        self.bitmaps.push(rest.array::<BITMAP_BYTES>()?);
        let mut encodings: Vec<(&[u8], &[u8; 8])> = Vec::with_capacity(places.min(rest.0.len() / Entry::HEADER));
        for _ in 0..places {
            let height = rest.array::<8>()?;
            let (entry, after) = Entry::decode(rest.0, u64::from_be_bytes(*height))?;
            encodings.push((&rest.0[..rest.0.len() - after.len()], height));
            self.entries.push(entry);
            rest.0 = after;
        }
        let mut leaves = Vec::with_capacity(places);
        hash.leaves(encodings.into_iter(), &mut leaves);
        let mut tree = TwigTree::new();
        tree.extend(hash, [&leaves[..]]);
        Some(*tree.root())
    }

    fn read_codes(&mut self, contents: &Contents, mut rest: Fields<'b>) -> Result<(), SnapshotError> {
        for hash in needed(contents, self.entries()) {
            let len = rest.array().map(|len| u32::from_be_bytes(*len) as usize).ok_or(SnapshotError::Code)?;
            let code = rest.take(len).ok_or(SnapshotError::Code)?;
            if !contents.is_code(&hash, code) {
                return Err(SnapshotError::Code);
            }
            self.codes.push((hash, code));
        }
        if rest.0.is_empty() { Ok(()) } else { Err(SnapshotError::Malformed) }
    }

    /// Entries of the chunk's positions, in order.
    pub fn entries(&self) -> impl Iterator<Item = Proven<'b>> {
        self.entries.iter().enumerate().map(|(at, entry)| {
            let place = at % TWIG_LEAVES;
            let active = self.bitmaps[at / TWIG_LEAVES][place / 8] >> (place % 8) & 1 == 1;
            Proven { sn: self.first_sn + at as u64, active, entry: *entry }
        })
    }

    /// Code that the active entries name, with its hashes, in their order.
    pub fn codes(&self) -> &[(Hash, &'b [u8])] {
        &self.codes
    }
}

/// Hashes of the code that active entries name, ascending, each once.
fn needed<'a>(contents: &Contents, entries: impl Iterator<Item = Proven<'a>>) -> Vec<Hash> {
    let named = entries.filter(|proven| proven.active && !proven.entry.sentinel);
    let mut hashes: Vec<Hash> =
        named.filter_map(|proven| contents.code_of(proven.entry.key, proven.entry.value)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Bytes of a chunk in the making.
pub(crate) struct ChunkWriter {
    bytes: Vec<u8>,
    codes: Vec<Hash>,
}

impl ChunkWriter {
    /// Begins a chunk with the digests beside its path.
    pub(crate) fn new(manifest: &Manifest, levels: &Levels, number: u64) -> Self {
        let (level, index) = manifest.node(number);
        Self { bytes: levels.beside(&manifest.shape, level, index).concat(), codes: Vec::new() }
    }

    /// Adds a twig: its active bits, and height and encoding of its entries.
    pub(crate) fn twig(&mut self, contents: &Contents, first_sn: u64, bitmap: &Bitmap, entries: &[(u64, &[u8])]) {
        self.bytes.extend_from_slice(bitmap);
        let mut decoded = Vec::with_capacity(entries.len());
        for (at, (height, encoded)) in entries.iter().enumerate() {
            self.bytes.extend_from_slice(&height.to_be_bytes());
            self.bytes.extend_from_slice(encoded);
            let active = bitmap[at / 8] >> (at % 8) & 1 == 1;
            let entry = Entry::decode(encoded, *height);
            decoded.extend(entry.map(|(entry, _)| Proven { sn: first_sn + at as u64, active, entry }));
        }
        self.codes.extend(needed(contents, decoded.into_iter()));
    }

    /// Ends the chunk with the code that its entries name.
    ///
    /// # Errors
    /// Errors of `code`.
    pub(crate) fn finish<E>(
        mut self,
        mut code: impl FnMut(&Hash) -> Result<std::sync::Arc<[u8]>, E>,
    ) -> Result<Vec<u8>, E> {
        self.codes.sort_unstable();
        self.codes.dedup();
        for hash in &self.codes {
            let code = code(hash)?;
            self.bytes.extend_from_slice(&(code.len() as u32).to_be_bytes());
            self.bytes.extend_from_slice(&code);
        }
        Ok(self.bytes)
    }
}
