//! The safe and the finalised block of a chain that a consensus client drives, as a file in the node's folder.

use crate::{
    durable::{failed, write_durably},
    error::NodeError,
};
use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use std::{fs, io::ErrorKind, path::Path};

/// A marked block of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) hash: B256,
}

/// Marked blocks; `None` until the client has named one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    pub(super) safe: Option<Mark>,
    pub(super) finalised: Option<Mark>,
}

/// Name of the file.
const FILE: &str = "forkchoice.json";

impl Marks {
    /// Reads the marks of a node's folder: none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(super) fn read(folder: &Path) -> Result<Self, NodeError> {
        let path = folder.join(FILE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| failed(&path, &error))?,
        };
        let damaged = "it is damaged: remove it, and the consensus client names its finalised block again";
        serde_json::from_slice(&text).map_err(|_| failed(&path, &damaged))
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), NodeError> {
        // The fields have no keys that JSON cannot hold.
        let text = serde_json::to_vec(self).unwrap_or_default();
        write_durably(&folder.join(FILE), &text)
    }

    /// Height that the chain never goes back below.
    pub(super) fn floor(&self) -> u64 {
        self.finalised.map_or(0, |mark| mark.number)
    }

    /// The marks of blocks for which `is_there` is true.
    pub(super) fn filter(self, is_there: impl Fn(&Mark) -> bool) -> Self {
        Self { safe: self.safe.filter(&is_there), finalised: self.finalised.filter(&is_there) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_and_a_damaged_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Marks::read(folder.path()).expect("none"), Marks::default());
        let mark = Mark { number: 7, hash: B256::repeat_byte(1) };
        let marks = Marks { safe: Some(mark), finalised: None };
        marks.write(folder.path()).expect("written");
        assert_eq!(Marks::read(folder.path()).expect("marks"), marks);
        assert_eq!((marks.floor(), Marks { finalised: Some(mark), ..marks }.floor()), (0, 7));
        assert_eq!(marks.filter(|mark| mark.number > 7), Marks::default());
        let path = folder.path().join(FILE);
        let text = fs::read(&path).expect("a file");
        fs::write(&path, &text[..text.len() / 2]).expect("written");
        assert!(Marks::read(folder.path()).expect_err("damaged").to_string().contains("forkchoice.json"));
    }
}
