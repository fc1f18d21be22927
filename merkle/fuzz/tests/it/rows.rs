//! Untrusted streams and logs.

use crate::common::{behaviour, chain, folder, fuzz, kind, params, scratch, writes_corpus};
use phalanx_merkle::{Backend, Error, Store, StoreConfig};
use std::path::Path;

/// Bytes of a frame before its body.
const HEADER: usize = 9;

/// Sets correct lengths and checksums in all frames that can be told apart.
fn repair(bytes: &mut [u8]) {
    let mut at = 0;
    while at + HEADER <= bytes.len() {
        let len = u32::from_be_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        let Some(end) = (at + HEADER).checked_add(len).filter(|end| *end <= bytes.len()) else { return };
        // Records of blocks, tips and code have the mark of their store.
        if matches!(bytes[at + 8], 1 | 2 | 5 | 7) {
            let checksum = crc32c::crc32c(&bytes[at + 4..end]);
            bytes[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
        }
        at = end;
    }
}

/// Copies a directory without subdirectories.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a place");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

#[test]
fn a_mutated_stream_or_log_leads_to_a_root_of_the_chain_or_an_error() {
    let dir = scratch();
    let (store, _, roots) = chain(Backend::File(dir.path().join("honest")), 7);
    let mut stream = Vec::new();
    store.export(&mut stream).expect("an export");
    drop(store);
    // Records carry marks under the secret of their store, so logs of the corpus come with the store that made them.
    let honest = folder("rows-store");
    if writes_corpus() {
        copy(&dir.path().join("honest"), &honest);
    }
    let log = std::fs::read(honest.join("00000000.seg")).expect("the log");
    // Flags of an input: bit 0 repairs checksums, bit 1 makes it a log.
    let corpus = || {
        let uses = [(0, &stream), (1, &stream), (2, &log), (3, &log)];
        uses.iter().map(|(how, bytes)| [&[*how][..], bytes].concat()).collect()
    };
    let place = dir.path().join("place");
    let config = || StoreConfig::new(Backend::File(place.clone())).with_params(params());
    let mut opened = 0;
    fuzz("rows", 1500, corpus, |input| {
        let Some((how, bytes)) = input.split_first() else { return 0 };
        let mut bytes = bytes.to_vec();
        if how & 1 == 1 {
            repair(&mut bytes);
        }
        let result = if how & 2 == 0 {
            Store::import(config(), &mut &bytes[..])
        } else {
            copy(&honest, &place);
            std::fs::write(place.join("00000000.seg"), &bytes).expect("a log");
            Store::open(config())
        };
        let behaviour = match &result {
            Ok(store) => {
                opened += 1;
                assert!(roots.contains(&store.root()), "a root that the chain never had");
                let found: Result<u64, String> = store.check().map_err(|error| kind(&error));
                behaviour((how & 3, store.height(), store.len(), found, store.forks().len()))
            }
            Err(error @ (Error::Corrupt { .. } | Error::Format { .. })) => behaviour((how & 3, kind(error))),
            Err(other) => panic!("{other:?}"),
        };
        drop(result);
        if place.exists() {
            std::fs::remove_dir_all(&place).expect("the place");
        }
        behaviour
    });
    assert!(opened > 0, "the corpus itself does not open");
}
