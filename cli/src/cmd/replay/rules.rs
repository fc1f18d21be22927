//! Rules of recorded blocks: those of the `genesis.json` in their folder or beside it, else mainnet's.

#[cfg(feature = "node")]
use crate::output;
use phalanx::{alloy::genesis::Genesis, chain::ChainSpec};
use phalanx_lab::error::Usage;
use std::{fs, path::Path};

const NAME: &str = "genesis.json";

/// Rules of a chain, with the genesis that states them unless it is mainnet.
#[derive(Clone, Debug)]
pub(in crate::cmd) struct Rules {
    pub(in crate::cmd) chain: ChainSpec,
    #[cfg(feature = "node")]
    genesis: Option<Genesis>,
}

impl Rules {
    /// Rules of the blocks in a folder.
    ///
    /// # Errors
    /// A genesis is there and cannot be used.
    pub(in crate::cmd) fn beside(folder: &Path) -> Result<Self, Usage> {
        let path = folder.join(NAME);
        if path.is_file() {
            return Self::read(&path);
        }
        Ok(Self {
            chain: ChainSpec::mainnet(),
            #[cfg(feature = "node")]
            genesis: None,
        })
    }

    /// Rules of the block in `dir`.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub(in crate::cmd) fn of_block(dir: &Path) -> Result<Self, Usage> {
        let above = || dir.canonicalize().ok().and_then(|dir| dir.parent().map(Path::to_owned));
        let folder = if dir.join(NAME).is_file() { None } else { above() };
        Self::beside(folder.as_deref().unwrap_or(dir))
    }

    /// Reads a genesis.
    ///
    /// # Errors
    /// The file cannot be read, or states rules that the engine does not implement.
    pub(in crate::cmd) fn read(path: &Path) -> Result<Self, Usage> {
        let refused = |why: String| Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        let genesis: Genesis = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        let chain = ChainSpec::from_genesis(&genesis).map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            chain,
            #[cfg(feature = "node")]
            genesis: Some(genesis),
        })
    }

    /// Keeps the genesis beside blocks, without its accounts. Mainnet has none.
    ///
    /// # Errors
    /// The file cannot be written, or blocks of another chain are there.
    #[cfg(feature = "node")]
    pub(in crate::cmd) fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        let place = folder.join(NAME);
        let Some(genesis) = &self.genesis else { return Ok(()) };
        if place.is_file() {
            let theirs = Self::read(&place)?.genesis;
            return match theirs.is_some_and(|theirs| theirs.config == genesis.config) {
                true => Ok(()),
                false => Err(Usage(format!("{} is that of other rules: use another folder", place.display())).into()),
            };
        }
        let genesis = Genesis { alloc: Default::default(), ..genesis.clone() };
        output::json(&place, &genesis)
    }
}
