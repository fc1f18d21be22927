//! Makes the chunks of a snapshot beside the running store.

use std::sync::Arc;

use phalanx_merkle_proof::{Hash, HashFn, Shape, TWIG_LEAVES};

use super::{background::Background, handle::Store, snapshot::Snapshot};
use crate::{
    commit::Pin,
    log::{extent_head, read_extent},
    snapshot::{ChunkWriter, Levels, Manifest},
    tree::{Bitmap, TreePatch, TreeView, TwigTree},
    types::{BlockId, Contents, Error, hex},
};

/// Exporter of one block's state as a [snapshot](crate::snapshot), readable while later blocks are applied and written.
///
/// Holds 384 bytes per twig of 2048 positions, and the log from its first one on, which pruning leaves. Rewinding below its block
/// ends it: [`Error::Gone`].
#[derive(Clone, Debug)]
pub struct Exporter {
    background: Background,
    id: u64,
    manifest: Manifest,
    contents: Contents,
    bitmaps: Vec<Bitmap>,
    lefts: Vec<Hash>,
    levels: Levels,
    _pin: Arc<Pin>,
}

/// Entries of neighbouring positions.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    /// Height and end of each entry.
    ends: Vec<(u64, usize)>,
}

impl Entries {
    fn push(&mut self, height: u64, encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
        self.ends.push((height, self.bytes.len()));
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        begins.zip(&self.ends).map(|(begin, (height, end))| (*height, &self.bytes[begin..*end]))
    }
}

impl Store {
    /// Exporter of the state after a block; see [`Background::exporter`].
    ///
    /// # Errors
    /// Errors of [`Background::exporter`].
    pub fn exporter(&self, block: BlockId) -> Result<Exporter, Error> {
        self.background().exporter(block)
    }
}

impl Snapshot {
    /// Exporter of the state, if the block is committed; see [`Background::exporter`].
    ///
    /// # Errors
    /// Errors of [`Background::exporter`].
    pub fn exporter(&self) -> Result<Exporter, Error> {
        Background { core: Arc::clone(&self.core) }.exporter(self.block())
    }
}

impl Background {
    /// Exporter of the state after a committed block that can be rewound to, or is the tip.
    ///
    /// O(twigs): blocks wait for about a millisecond per million keys.
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::NotWritten`] if the block is not written yet, or the backend keeps no entries;
    /// [`Error::Poisoned`].
    pub fn exporter(&self, block: BlockId) -> Result<Exporter, Error> {
        let reader = self.read();
        let core = &*reader.core;
        core.shared.check()?;
        let gone = || Error::Gone { block };
        let depth = core.depth_of(block.0).ok_or_else(gone)?;
        let at = core.chain.iter().rev().nth(depth).ok_or_else(gone)?;
        if !core.shared.log.keeps_entries() || at.shape.next_sn > core.written_sn() {
            return Err(Error::NotWritten);
        }
        let (height, root) = (at.height, at.root);
        let back: Vec<&TreePatch> = core.history.iter().rev().take(depth).map(|undo| &undo.tree).collect();
        let view = TreeView::new(&core.tree, &back[..]);
        let shape = view.shape();
        let twigs = shape.first_twig()..shape.twigs();
        let bitmaps: Vec<Bitmap> = twigs.clone().map(|twig| *view.bitmap(twig)).collect();
        let lefts: Vec<Hash> = twigs.map(|twig| *view.left(twig)).collect();
        let (params, contents) = (core.params, core.contents);
        let pin = core.pins.pin(shape.first_twig() * TWIG_LEAVES as u64);
        drop(reader);
        let mut digests = Vec::with_capacity(lefts.len());
        params.hash.twigs(lefts.iter().zip(&bitmaps), &mut digests);
        let levels = Levels::new(params.hash, &shape, digests);
        let manifest = Manifest { params, height, root, shape, top: levels.top() };
        debug_assert_eq!(params.root(&shape, &manifest.top), root, "the copy has the block's root");
        Ok(Exporter { background: self.clone(), id: block.0, manifest, contents, bitmaps, lefts, levels, _pin: pin })
    }
}

impl Exporter {
    /// Manifest of the snapshot.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Makes a chunk: about 4 MB for accounts and slots. Reads the log once, in proportion to the chunk.
    ///
    /// Any number of threads make chunks at the same time, in any order.
    ///
    /// # Errors
    /// [`Error::Gone`] if the block was rewound; [`Error::Corrupt`] if the log differs from the tree or
    /// lacks code; [`Error::Poisoned`], or what the log reports.
    ///
    /// # Panics
    /// If there is no chunk with this number.
    pub fn chunk(&self, number: u64) -> Result<Vec<u8>, Error> {
        let Self { manifest, contents, .. } = self;
        assert!(number < manifest.chunks(), "the manifest has {} chunks", manifest.chunks());
        let (hash, Shape { next_sn, .. }) = (manifest.params.hash, manifest.shape);
        let mut out = ChunkWriter::new(manifest, &self.levels, number);
        for twig in manifest.twigs(number) {
            let first = twig * TWIG_LEAVES as u64;
            let entries = self.entries(twig, first, next_sn.min(first + TWIG_LEAVES as u64))?;
            let entries: Vec<(u64, &[u8])> = entries.iter().collect();
            let at = (twig - manifest.shape.first_twig()) as usize;
            if left_of(hash, &entries) != self.lefts[at] {
                let path = self.background.read().core.shared.log.path();
                return Err(Error::Corrupt { path, what: format!("entries of twig {twig} do not fit its root") });
            }
            out.twig(contents, first, &self.bitmaps[at], &entries);
        }
        out.finish(|hash| self.code(hash))
    }

    /// Entries of the positions from `first` to `end`, all in one twig.
    fn entries(&self, twig: u64, first: u64, end: u64) -> Result<Entries, Error> {
        let gone = || Error::Gone { block: BlockId(self.id) };
        let (shared, ids) = {
            let core = &self.background.read().core;
            core.shared.check()?;
            // A block that was rewound leaves its positions to others.
            core.at(self.manifest.height).filter(|block| block.id == self.id).ok_or_else(gone)?;
            let begin = core.chain.partition_point(|block| block.shape.next_sn <= first);
            let blocks = core.chain.iter().skip(begin).take_while(|block| block.first_sn < end);
            (Arc::clone(&core.shared), blocks.map(|block| block.id).collect::<Vec<u64>>())
        };
        let mut entries = Entries::default();
        // The log begins behind the sentinels.
        let sentinels = self.manifest.params.sentinels;
        for index in first..end.min(sentinels.count()) {
            let name = sentinels.name(index);
            let mut encoded = Vec::new();
            sentinels.entry(index, &name).encode(&mut encoded);
            entries.push(0, &encoded);
        }
        for id in ids {
            shared.log.extents(id, Some(twig), &mut |kind, body| {
                let Some((head, _)) = extent_head(body) else { return Ok(false) };
                let mut sn = head.first_sn;
                read_extent(kind, body, |item| {
                    if let Some((entry, encoded)) = item.entry() {
                        if (first..end).contains(&sn) && sn - first == entries.ends.len() as u64 {
                            entries.push(entry.height, encoded);
                        }
                        sn += 1;
                    }
                });
                Ok(sn < end)
            })?;
        }
        // What is missing was rewound while it was read.
        if entries.ends.len() as u64 == end - first { Ok(entries) } else { Err(gone()) }
    }

    fn code(&self, hash: &Hash) -> Result<Arc<[u8]>, Error> {
        let shared = {
            let core = &self.background.read().core;
            if let Some((_, code)) = core.fresh_codes.get(hash) {
                return Ok(Arc::clone(code));
            }
            Arc::clone(&core.shared)
        };
        let code = shared.log.code(hash)?;
        code.ok_or_else(|| Error::Corrupt { path: shared.log.path(), what: format!("code {} is missing", hex(hash)) })
    }
}

/// Digest of a twig's leaves.
fn left_of(hash: HashFn, entries: &[(u64, &[u8])]) -> Hash {
    let heights: Vec<[u8; 8]> = entries.iter().map(|(height, _)| height.to_be_bytes()).collect();
    let mut leaves = Vec::with_capacity(entries.len());
    hash.leaves(entries.iter().zip(&heights).map(|((_, encoded), height)| (*encoded, height)), &mut leaves);
    let mut tree = TwigTree::new();
    tree.extend(hash, [&leaves[..]]);
    *tree.root()
}
