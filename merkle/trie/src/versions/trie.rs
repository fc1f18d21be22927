//! Versions of a trie: one per block that may still be reverted, and forks beside them.

use std::collections::BTreeMap;

use alloy_primitives::B256;
use phalanx_hash_lanes::Lanes;

use super::view::View;
use crate::{
    nodes::{Journal, SHARDS, Shard, Spare, Top},
    types::{Changes, Error, Values, Work},
    update::{Accounts, EMPTY_ROOT, Update},
};

/// Settings of a trie; none of them changes a root.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Nodes that are hashed side by side.
    pub lanes: Lanes,
    /// Number of slots above which a storage is spread over all shards, so that several threads can work on it.
    ///
    /// Each block that changes a spread storage copies its top, some twelve kilobytes.
    pub spread: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { lanes: Lanes::most(), spread: 1 << 16 }
    }
}

/// Name of a state: that of a block, on top of its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(super) u64);

/// A version that was made.
#[derive(Clone, Copy, Debug)]
pub struct Updated {
    /// Name of the version.
    pub version: Version,
    /// State root.
    pub root: B256,
    /// Number of nodes hashed.
    pub work: Work,
}

/// Ethereum's state trie in memory: hashes of all nodes, keys of all leaves, and no values.
///
/// Versions share the nodes that they have in common. The oldest one is the state that no fork reverts; all others
/// descend from it. The trie stands at one version, the last one made, and goes to another to make a child of that: so a
/// fork costs what the blocks on the way changed. Memory: some 160 bytes per account or slot, and per version some 100 for each
/// that its block changed.
#[derive(Debug)]
pub struct Trie {
    shards: Box<[Shard; SHARDS]>,
    config: Config,
    versions: BTreeMap<Version, State>,
    oldest: Version,
    spare: Spare,
    /// Version that the branches have the children of.
    at: Version,
    next: u64,
}

#[derive(Debug)]
pub(super) struct State {
    /// The version below; its own for the oldest one.
    parent: Version,
    /// Versions right above.
    children: Vec<Version>,
    pub(super) accounts: Accounts,
    /// Difference from the parent.
    journal: Journal,
}

impl Trie {
    /// Creates an empty trie, whose oldest version is an empty state.
    pub fn new(config: Config) -> Self {
        let shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::default()).collect();
        let shards = shards.into_boxed_slice().try_into().expect("as many shards as were made");
        let oldest = Version(0);
        let accounts = Accounts { top: Box::new(Top::EMPTY), root: EMPTY_ROOT };
        let state = State { parent: oldest, children: Vec::new(), accounts, journal: Journal::default() };
        Self {
            shards,
            config,
            versions: BTreeMap::from([(oldest, state)]),
            oldest,
            spare: Spare::default(),
            at: oldest,
            next: 1,
        }
    }

    /// The version that all others descend from.
    pub const fn oldest(&self) -> Version {
        self.oldest
    }

    /// State root of a version, `None` if there is no such version.
    pub fn root(&self, version: Version) -> Option<B256> {
        self.versions.get(&version).map(|state| state.accounts.root)
    }

    /// Makes the version of a block on top of `parent`, on the threads of the current rayon pool.
    ///
    /// `values` are those of `parent`. They are read for leaves that move because a neighbour came or went, and for
    /// accounts of which only slots change. O(changes · depth), and O(changes) for each version between this parent and the
    /// one before.
    ///
    /// # Errors
    /// If there is no such parent, the store fails or lacks what the trie has, or the changes contradict each other or
    /// the state. The trie is then as before.
    pub fn update<V: Values>(
        &mut self,
        parent: Version,
        changes: &Changes,
        values: &V,
    ) -> Result<Updated, Error<V::Error>> {
        let before = self.state(parent)?.accounts.clone();
        self.go(parent);
        let mut update = Update {
            shards: &mut self.shards,
            before: &before,
            changes,
            values,
            lanes: self.config.lanes,
            spread: self.config.spread,
            journal: Journal::default(),
            spare: &mut self.spare,
            work: Work::default(),
        };
        let result = update.run();
        let (journal, work) = (update.journal, update.work);
        match result {
            Ok(accounts) => {
                let version = Version(self.next);
                self.next += 1;
                let root = accounts.root;
                self.versions.insert(version, State { parent, children: Vec::new(), accounts, journal });
                if let Some(parent) = self.versions.get_mut(&parent) {
                    parent.children.push(version);
                }
                self.at = version;
                Ok(Updated { version, root, work })
            }
            Err(error) => {
                let mut journal = journal;
                journal.cross(&mut self.shards);
                journal.discard(&mut self.shards, &mut self.spare);
                Err(error)
            }
        }
    }

    /// Makes a child of the oldest version the oldest one; its siblings and their descendants are discarded.
    ///
    /// # Errors
    /// If there is no such version, or it is not a child of the oldest one.
    pub fn advance(&mut self, version: Version) -> Result<(), Error<core::convert::Infallible>> {
        if self.state(version)?.parent != self.oldest || version == self.oldest {
            return Err(Error::NotNext { version: version.0 });
        }
        let children = self.versions.get(&self.oldest).map(|oldest| oldest.children.clone()).unwrap_or_default();
        let siblings = children.into_iter().filter(|sibling| *sibling != version);
        siblings.into_iter().try_for_each(|sibling| self.discard(sibling))?;
        if self.at == self.oldest {
            self.go(version);
        }
        self.versions.remove(&self.oldest);
        self.oldest = version;
        if let Some(state) = self.versions.get_mut(&version) {
            state.parent = version;
            core::mem::take(&mut state.journal).finish(&mut self.shards, &mut self.spare);
        }
        Ok(())
    }

    /// Discards a version and all that descend from it: a fork that lost, or blocks that are reverted.
    ///
    /// # Errors
    /// If there is no such version, or it is the oldest one.
    pub fn discard(&mut self, version: Version) -> Result<(), Error<core::convert::Infallible>> {
        self.state::<core::convert::Infallible>(version)?;
        if version == self.oldest {
            return Err(Error::NotNext { version: version.0 });
        }
        let parent = self.state(version)?.parent;
        if let Some(parent) = self.versions.get_mut(&parent) {
            parent.children.retain(|child| *child != version);
        }
        let mut gone = vec![version];
        let mut next = 0;
        while let Some(version) = gone.get(next) {
            gone.extend_from_slice(&self.state(*version)?.children);
            next += 1;
        }
        if gone.contains(&self.at) {
            self.go(parent);
        }
        for version in gone.into_iter().rev() {
            if let Some(state) = self.versions.remove(&version) {
                state.journal.discard(&mut self.shards, &mut self.spare);
            }
        }
        Ok(())
    }

    /// Goes to a version that exists.
    fn go(&mut self, version: Version) {
        let way = self.way(version);
        for crossed in way {
            if let Some(state) = self.versions.get_mut(&crossed) {
                state.journal.cross(&mut self.shards);
            }
        }
        self.at = version;
    }

    /// Versions whose difference from their parent is on the way from where the trie stands to `version`, in that order.
    fn way(&self, version: Version) -> Vec<Version> {
        let (mut down, mut up) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (self.at, version);
        let parent = |of: Version| self.versions.get(&of).map_or(of, |state| state.parent);
        // A parent has a smaller number than its children.
        while from != to {
            if from > to {
                down.push(from);
                from = parent(from);
            } else {
                up.push(to);
                to = parent(to);
            }
        }
        down.extend(up.into_iter().rev());
        down
    }

    /// The branches as a version that exists has them.
    pub(super) fn view(&self, version: Version) -> View<'_> {
        let way = self.way(version);
        View::new(&self.shards, way.iter().map(|crossed| &self.versions[crossed].journal).collect())
    }

    /// Number of leaves and branches of all versions: those that they share count once.
    pub fn nodes(&self) -> usize {
        self.shards.iter().map(|shard| shard.leaves.len() + shard.branches.len()).sum()
    }

    /// Bytes of all nodes, with memory that is kept to be used again.
    pub fn memory(&self) -> usize {
        self.shards.iter().map(Shard::memory).sum()
    }

    pub(super) fn state<E>(&self, version: Version) -> Result<&State, Error<E>> {
        self.versions.get(&version).ok_or(Error::Unknown { version: version.0 })
    }
}
