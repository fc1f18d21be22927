//! From a log back to the state: entries in order, hashed in parallel a batch at a time.

use phalanx_merkle_proof::{EMPTY, Hash, Params};

use crate::{
    Error,
    log::{Log, Replay},
    par,
    resident::{Lookup, Resident, Written},
    row::{BlockRow, ExtentItem, read_extent},
    tree::Tree,
};

/// Entries that are hashed together.
const BATCH: u64 = 1 << 16;

/// What a log leads to.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) state: Resident,
    pub(crate) tree: Tree,
    /// The root of each block.
    pub(crate) roots: Vec<Hash>,
    pub(crate) payload: Vec<u8>,
}

/// Reads a log from the beginning and checks it on the way: blocks continue each other, extents continue each other,
/// deletions name what is there, the recomputed roots equal the recorded ones.
///
/// O(entries of the log); a million take about a third of a second on one core.
///
/// # Errors
/// [`Error::Corrupt`] where something does not fit, and what the log reports.
pub(crate) fn replay(log: &dyn Log, params: Params, salt: u64) -> Result<Replayed, Error> {
    let mut reader = Reader {
        log,
        params,
        state: Resident::new(salt),
        tree: Tree::new(params),
        roots: Vec::new(),
        payload: Vec::new(),
        bodies: Vec::new(),
        read_sn: 0,
        last: None,
    };
    log.replay(&mut reader)?;
    reader.digest_batch()?;
    reader.check_tip()?;
    let Reader { state, tree, roots, payload, .. } = reader;
    Ok(Replayed { state, tree, roots, payload })
}

struct Reader<'l> {
    log: &'l dyn Log,
    params: Params,
    state: Resident,
    tree: Tree,
    roots: Vec<Hash>,
    payload: Vec<u8>,
    /// Extents read and not digested yet.
    bodies: Vec<Vec<u8>>,
    /// The position after them.
    read_sn: u64,
    /// The last block, if everything up to it is read.
    last: Option<BlockRow>,
}

/// What can be computed of an extent without the state: digests per entry.
#[derive(Default)]
struct Hashed {
    leaves: Vec<Hash>,
    keys: Vec<Hash>,
}

impl Reader<'_> {
    fn corrupt(&self, what: String) -> Error {
        Error::Corrupt { path: self.log.path(), what }
    }

    /// Brings state and tree to the end of what was read.
    fn digest_batch(&mut self) -> Result<(), Error> {
        let hash = self.params.hash;
        let hashed = par::map(&self.bodies, 32 * 200, |body| {
            let (mut hashed, mut encodings) = (Hashed::default(), Vec::new());
            let head = read_extent(body, |item| {
                if let ExtentItem::Entry(entry, encoded) = item {
                    encodings.push(encoded);
                    hashed.keys.push(hash.key(entry.key));
                }
            })?;
            hash.leaves(encodings.into_iter(), head.height, &mut hashed.leaves);
            Some(hashed)
        });
        let (mut leaves, mut off) = (Vec::new(), Vec::new());
        let mut next_sn = self.tree.next_sn();
        for (body, hashed) in self.bodies.iter().zip(&hashed) {
            let fits = hashed.as_ref().is_some_and(|hashed| {
                leaves.extend_from_slice(&hashed.leaves);
                replay_extent(&mut self.state, body, &hashed.keys, &mut next_sn, &mut off)
            });
            if !fits {
                return Err(self.corrupt(format!("the extent before position {next_sn} does not fit")));
            }
        }
        let change = self.tree.change(&leaves, &off, false);
        self.tree.apply(change);
        self.bodies.clear();
        Ok(())
    }

    fn check_tip(&self) -> Result<(), Error> {
        let Some(last) = &self.last else {
            return Ok(());
        };
        let found = (self.tree.next_sn(), self.tree.active(), self.tree.root());
        if found == (last.next_sn, last.active, last.root) && self.state.len() as u64 == last.active {
            return Ok(());
        }
        Err(self.corrupt(format!("entries up to block {} do not lead to its root", last.height)))
    }
}

/// Folds one extent into the state. False if it does not continue it.
fn replay_extent(state: &mut Resident, body: &[u8], keys: &[Hash], next_sn: &mut u64, off: &mut Vec<u64>) -> bool {
    let mut items = Vec::new();
    let head = read_extent(body, |item| items.push(item));
    let Some(head) = head.filter(|head| head.first_sn == *next_sn) else { return false };
    let lookups = items.iter().map(|item| match item {
        ExtentItem::Entry(entry, _) => Lookup::Key(entry.key),
        ExtentItem::Delete(_, key) => Lookup::Key(key),
    });
    // Keys differ within an extent, so looking them up before any is folded finds the same.
    let (mut found, mut keys) = (Vec::with_capacity(items.len()), keys.iter());
    state.find_many::<true>(lookups, |id| found.push(id));
    for (item, id) in items.into_iter().zip(found) {
        match (item, id) {
            (ExtentItem::Entry(entry, _), id) => {
                let Some(&hash) = keys.next() else { return false };
                match id {
                    Some(id) => {
                        off.push(state.written(id).sn);
                        state.replace(id, entry.value, *next_sn, head.height);
                    }
                    None if state.find(entry.key).is_some() || !state.has_room(1) => return false,
                    None => {
                        let written = Written { hash, sn: *next_sn, height: head.height };
                        state.insert(entry.key, entry.value, written);
                    }
                }
                *next_sn += 1;
            }
            (ExtentItem::Delete(sn, key), Some(id)) if state.written(id).sn == sn && state.entry(id).0 == key => {
                off.push(sn);
                state.remove(id);
            }
            (ExtentItem::Delete(..), _) => return false,
        }
    }
    true
}

impl Replay for Reader<'_> {
    fn extent(&mut self, body: &[u8]) -> Result<(), Error> {
        if let Some((head, _)) = crate::row::extent_head(body) {
            self.read_sn = head.first_sn.saturating_add(u64::from(head.entries));
        }
        self.bodies.push(body.to_vec());
        // A block of any size is digested in parts; only at its end is there a root to compare with.
        if self.read_sn.saturating_sub(self.tree.next_sn()) >= BATCH || self.bodies.len() as u64 >= BATCH {
            self.last = None;
            self.digest_batch()?;
        }
        Ok(())
    }

    fn block(&mut self, row: BlockRow) -> Result<(), Error> {
        let parent = match self.roots.last() {
            Some(root) => *root,
            None => self.params.root(0, 0, &EMPTY),
        };
        if row.height != self.roots.len() as u64 || row.parent != parent {
            return Err(self.corrupt(format!("block {} does not continue block {}", row.height, self.roots.len())));
        }
        if self.read_sn != row.next_sn && row.extents > 0 {
            return Err(self.corrupt(format!("block {} lacks entries", row.height)));
        }
        self.roots.push(row.root);
        self.payload.clone_from(&row.payload);
        self.last = Some(row);
        Ok(())
    }
}
