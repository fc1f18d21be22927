//! A segment, one file of the log: parameters first, then frames.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use phalanx_merkle_proof::Params;

use crate::{
    log::disk::{Disk, at},
    log::record::{check_params, encode_params},
    types::Error,
};

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    /// Opened for appending; also read at offsets.
    pub(super) file: Arc<File>,
    /// Length in bytes, buffered bytes included.
    pub(super) len: u64,
    /// Highest block id in the segment.
    pub(super) last_id: u64,
}

pub(super) fn append(path: &Path) -> Result<File, Error> {
    OpenOptions::new().read(true).append(true).create(true).open(path).map_err(at(path))
}

pub(super) fn corrupt(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_path_buf(), what }
}

/// Opens all segments; creates the first one if there is none.
pub(super) fn open_segments(dir: &Path, params: &Params, disk: &Disk) -> Result<Vec<Segment>, Error> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(at(dir))? {
        let name = entry.map_err(at(dir))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg")).and_then(|name| name.parse::<u32>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    if let Some(gap) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        return Err(corrupt(dir, format!("segment {} is missing", gap[0] + 1)));
    }
    if numbers.is_empty() {
        numbers.push(0);
    }
    numbers.into_iter().map(|number| Segment::open(dir, number, params, disk)).collect()
}

impl Segment {
    /// Opens a segment, and writes or checks its first frame.
    pub(super) fn open(dir: &Path, number: u32, params: &Params, disk: &Disk) -> Result<Self, Error> {
        let path = dir.join(format!("{number:08}.seg"));
        let mut file = append(&path)?;
        let expected = encode_params(params).bytes;
        let mut found = Vec::new();
        (&mut file).take(expected.len() as u64).read_to_end(&mut found).map_err(at(&path))?;
        let len = file.metadata().map_err(at(&path))?.len();
        let same = found.iter().zip(&expected).take_while(|(found, expected)| found == expected).count();
        let begun = len <= expected.len() as u64 && found[same..].iter().all(|byte| *byte == 0);
        if begun && found != expected {
            // The segment is new, or its creation was interrupted, perhaps by power loss before its bytes were durable.
            disk.cut(&file, &path, 0)?;
            disk.append(&file, &path, &expected)?;
            disk.sync(&file, &path)?;
            disk.sync_names(dir)?;
        } else {
            check_params(&found, params).map_err(|(found, expected)| Error::Format {
                path: path.clone(),
                found,
                expected,
            })?;
        }
        Ok(Self { number, path, file: Arc::new(file), len: expected.len() as u64, last_id: 0 })
    }
}
