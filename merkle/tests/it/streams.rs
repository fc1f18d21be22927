//! Streams of an export that were cut off or forged: refused, or a store that is the honest one.

use std::{
    io::{self, Read},
    path::Path,
};

use phalanx_merkle::{
    Backend, CodeRule, Contents, Delta, EXPORT_HEAD_LEN, Error, HashFn, Memory, Params, Store, StoreConfig,
    export_params, interrupted_import,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const BLOCK: u8 = 3;
const CODE: u8 = 4;

/// Bytes of a block's record before its payload.
const BLOCK_HEAD: usize = 4 + 8 + 1 + 3 * 8 + 64 + 6 * 8;

type Frame = (u8, Vec<u8>);

fn seed(default: u64) -> u64 {
    std::env::var("PHALANX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default)
}

/// Values of 33 bytes that begin with 1 name code.
fn contents() -> Contents {
    Contents {
        is_key: |key| !key.is_empty(),
        code: Some(CodeRule {
            named: |_, value| {
                value.split_first().filter(|(kind, _)| **kind == 1).and_then(|(_, hash)| hash.try_into().ok())
            },
            hash: |code| HashFn::Blake3.key(code),
        }),
    }
}

fn config(backend: Backend) -> StoreConfig {
    StoreConfig::new(backend).with_contents(contents())
}

fn backends(dir: &Path, name: &str) -> Vec<Backend> {
    vec![
        Backend::File(dir.join(format!("{name}-file"))),
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(dir.join(format!("{name}-rocks"))),
    ]
}

/// Store of a few blocks, in which later values replace some that name code.
fn store(dir: &Path, seed: u64) -> Store {
    let mut store = Store::open(config(Backend::File(dir.join("honest")))).expect("a store");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for height in 0..8u64 {
        let mut delta = Delta::new();
        for key in 0..60u64 {
            match rng.random_range(0..6) {
                0 if height > 0 => delta.delete(&key.to_be_bytes()),
                1 | 2 => {
                    let code = vec![rng.random_range(0..30); 40];
                    let hash = HashFn::Blake3.key(&code);
                    delta.put_code(hash, code);
                    delta.put(&key.to_be_bytes(), &[&[1][..], &hash].concat());
                }
                _ => delta.put(&key.to_be_bytes(), &rng.random::<[u8; 12]>()),
            }
        }
        let prepared = store.prepare(delta, height).expect("a block");
        store.commit(prepared.with_payload(vec![height as u8; 5]).expect("short")).expect("a block");
    }
    store
}

fn exported(store: &Store) -> Vec<u8> {
    let mut stream = Vec::new();
    store.export(&mut stream).expect("an export");
    stream
}

fn frames(stream: &[u8]) -> Vec<Frame> {
    let (mut frames, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let len = u32::from_be_bytes(rest[4..8].try_into().expect("four bytes")) as usize;
        frames.push((rest[8], rest[9..9 + len].to_vec()));
        rest = &rest[9 + len..];
    }
    frames
}

/// Stream of frames with right checksums.
fn joined(frames: &[Frame]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (kind, body) in frames {
        let covered = [&(body.len() as u32).to_be_bytes()[..], &[*kind], body].concat();
        stream.extend_from_slice(&crc32c::crc32c(&covered).to_be_bytes());
        stream.extend_from_slice(&covered);
    }
    stream
}

/// Frames without the payloads, which no root binds.
fn bound(frames: &[Frame]) -> Vec<Frame> {
    let cut = |(kind, body): &Frame| (*kind, if *kind == BLOCK { body[..BLOCK_HEAD].to_vec() } else { body.clone() });
    frames.iter().map(cut).collect()
}

/// Imports a stream, which must be refused and leave nothing.
#[track_caller]
fn refused(place: &Backend, stream: &mut dyn Read, what: &str) {
    let path = match place {
        Backend::File(path) => path,
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(path) => path,
        _ => panic!("a place on disk"),
    };
    let found = Store::import(config(place.clone()), stream);
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{what}: {found:?}");
    assert!(!path.exists() && interrupted_import(path).is_none(), "{what}: something is left");
}

#[test]
fn a_stream_that_was_cut_off_is_refused() {
    let dir = crate::common::folder();
    let stream = exported(&store(dir.path(), seed(395)));
    assert_eq!(export_params(&stream[..EXPORT_HEAD_LEN]), Some(Params::default()));
    let frames = frames(&stream);
    assert_eq!(joined(&frames), stream);
    for place in backends(dir.path(), "copy") {
        for len in 1..frames.len() {
            // Rocks opens a database each time.
            if matches!(place, Backend::File(_)) || frames[len - 1].0 == BLOCK {
                refused(&place, &mut &joined(&frames[..len])[..], &format!("{len} of {} rows", frames.len()));
            }
        }
        refused(&place, &mut &joined(&[&frames[..], &frames[1..2]].concat())[..], "a row behind the end");
    }
    let place = Backend::File(dir.path().join("copy"));
    for len in stream.len() - 40..stream.len() {
        refused(&place, &mut &stream[..len], &format!("{len} of {} bytes", stream.len()));
    }
}

/// The index of a paged state keeps the last 40 bits of a position.
#[test]
fn a_position_that_ends_in_the_bits_of_another_is_refused() {
    const EXTENTS: [u8; 2] = [2, 5];
    let dir = crate::common::folder();
    let honest = store(dir.path(), seed(396));
    let frames = frames(&exported(&honest));
    let mut refused = 0;
    for (row, (_, body)) in frames.iter().enumerate().filter(|(_, (kind, _))| EXTENTS.contains(kind)) {
        for at in 0..body.len() - 8 {
            // Every position is among these words: the first, those of earlier versions, and those of deleted and moved entries.
            if !body[at..].starts_with(&[0; 6]) || body[at + 6..at + 8] == [0; 2] {
                continue;
            }
            let mut forged = frames.clone();
            forged[row].1[at + 2] = 1;
            let place = Backend::File(dir.path().join("copy"));
            let config = config(place).with_memory(Memory::Cached { bytes: 1 << 16 });
            match Store::import(config, &mut &joined(&forged)[..]) {
                // Bytes of a value or a length that no root binds look like a position, too.
                Ok(store) => assert_eq!(store.root(), honest.root(), "byte {at} of row {row}"),
                Err(Error::Corrupt { .. }) => refused += 1,
                Err(other) => panic!("byte {at} of row {row}: {other}"),
            }
            let _ = std::fs::remove_dir_all(dir.path().join("copy"));
        }
    }
    assert!(refused > 300, "{refused} streams were refused");
}

#[test]
fn code_that_is_missing_changed_or_unnamed_is_refused() {
    let dir = crate::common::folder();
    let (seed, store) = (seed(396), store(dir.path(), seed(396)));
    let honest = frames(&exported(&store));
    let current: Vec<Frame> = {
        // Only code that the state names is demanded: values that were replaced may name what is gone.
        let reader = store.read();
        let named = (0..60u64).filter_map(|key| reader.get(&key.to_be_bytes()).map(<[u8]>::to_vec));
        let named: Vec<Vec<u8>> = named.filter(|value| value[0] == 1).map(|value| value[1..].to_vec()).collect();
        honest.iter().filter(|(kind, body)| *kind == CODE && named.contains(&body[..32].to_vec())).cloned().collect()
    };
    assert!(current.len() > 3, "seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for place in backends(dir.path(), "copy") {
        let mut cases = Vec::new();
        for code in current.iter().take(4) {
            let without: Vec<Frame> = honest.iter().filter(|frame| *frame != code).cloned().collect();
            cases.push(("code is missing", without));
            let mut changed = honest.clone();
            let body = &mut changed.iter_mut().find(|frame| *frame == code).expect("it is there").1;
            let at = rng.random_range(0..body.len());
            body[at] ^= 1;
            cases.push(("code is changed", changed));
            let mut twice = honest.clone();
            twice.insert(rng.random_range(1..honest.len()), code.clone());
            cases.push(("code comes twice", twice));
        }
        let foreign = vec![77; 50];
        let foreign = (CODE, [&HashFn::Blake3.key(&foreign)[..], &foreign].concat());
        for at in [1, honest.len() / 2, honest.len() - 1] {
            let mut more = honest.clone();
            more.insert(at, foreign.clone());
            cases.push(("code that no entry names", more));
        }
        for (what, frames) in cases {
            refused(&place, &mut &joined(&frames)[..], &format!("seed {seed}: {what}"));
        }
        let copy = Store::import(config(place), &mut &joined(&honest)[..]).expect("an honest stream");
        assert_eq!(copy.root(), store.root());
    }
}

/// Every accepted stream leads to the honest store, byte for byte but for payloads.
#[test]
fn what_no_root_binds_is_not_taken_over() {
    let dir = crate::common::folder();
    let seed = seed(397);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let place = dir.path().join("copy");
    let import = |frames: &[Frame]| Store::import(config(Backend::File(place.clone())), &mut &joined(frames)[..]);
    let made = frames(&exported(&store(dir.path(), seed)));
    let honest = bound(&frames(&exported(&import(&made).expect("an honest stream"))));
    std::fs::remove_dir_all(&place).expect("a directory");
    let (rounds, mut accepted) = (400, 0);
    for round in 0..rounds {
        let mut forged = made.clone();
        let blocks: Vec<usize> = (0..made.len()).filter(|at| made[*at].0 == BLOCK).collect();
        let at =
            if round % 2 == 0 { blocks[rng.random_range(0..blocks.len())] } else { rng.random_range(1..made.len()) };
        let body = &mut forged[at].1;
        let byte = rng.random_range(0..body.len());
        body[byte] ^= 1 << rng.random_range(0..8);
        match import(&forged) {
            Ok(copy) => {
                accepted += 1;
                assert!(bound(&frames(&exported(&copy))) == honest, "seed {seed} round {round}: row {at}, byte {byte}");
                copy.check().expect("a sound store");
            }
            Err(Error::Corrupt { .. }) => {}
            Err(other) => panic!("seed {seed} round {round}: {other}"),
        }
        if place.exists() {
            std::fs::remove_dir_all(&place).expect("a directory");
        }
    }
    println!("{accepted} of {rounds} forged streams made the honest store");
    assert!(accepted > 0 && accepted < rounds, "{accepted}");
}

/// Endless code that no entry names.
struct Endless {
    head: Vec<u8>,
    next: u32,
    given: u64,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.head.is_empty() {
            self.next += 1;
            let code = self.next.to_be_bytes();
            self.head = joined(&[(CODE, [&HashFn::Blake3.key(&code)[..], &code].concat())]);
        }
        let len = out.len().min(self.head.len());
        out[..len].copy_from_slice(&self.head[..len]);
        self.head.drain(..len);
        self.given += len as u64;
        Ok(len)
    }
}

#[test]
fn a_stream_that_never_ends_is_refused() {
    let dir = crate::common::folder();
    let head = joined(&frames(&exported(&store(dir.path(), 1)))[..1]);
    let mut endless = Endless { head, next: 0, given: 0 };
    refused(&Backend::File(dir.path().join("copy")), &mut endless, "endless code");
    assert!(endless.given < 8 << 20, "{}", endless.given);
}

/// The name of a directory may end with a separator, also of one that does not exist yet.
#[test]
fn a_copy_goes_to_a_path_that_ends_with_a_separator() {
    let dir = crate::common::folder();
    let stream = exported(&store(dir.path(), seed(3)));
    let place = |kind: &str| dir.path().join(format!("copy-{kind}/"));
    let copies = [
        (place("file"), Backend::File(place("file"))),
        #[cfg(feature = "rocksdb")]
        (place("rocks"), Backend::Rocks(place("rocks"))),
    ];
    for (place, ended) in copies {
        let copy = Store::import(config(ended), &mut &stream[..]).expect("an import");
        assert_eq!(exported(&copy), stream);
        assert!(phalanx_merkle::interrupted_import(&place).is_none());
    }
}
