//! What was read of a block of a remote chain, in a file per block: the next start reads it there.
//!
//! The file is a cache. One that cannot be used is begun anew, and one that another process has open leaves this process with a file
//! of its own.

use super::answers::Account;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{Decodable as _, RlpDecodable, RlpEncodable};
use parking_lot::Mutex;
use phalanx::RemoteAccount;
use redb::{Database, DatabaseError, Durability, ReadableDatabase as _, TableDefinition};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Accounts by address, as RLP; empty for those that do not exist.
const ACCOUNTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("accounts");
/// Words by address and slot.
const WORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("words");
/// Code by hash.
const CODES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("codes");
/// Hashes of blocks by height.
const HASHES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("hashes");

/// Memory that the file may take, in bytes.
const MEMORY: usize = 32 << 20;

/// Number of writes after which they are made durable. Others are lost by the end of the process, and read again.
const DURABLE_EVERY: u32 = 64;

#[derive(RlpEncodable, RlpDecodable)]
struct Stored {
    nonce: u64,
    balance: U256,
    code_hash: B256,
}

/// Values that were read.
#[derive(Debug)]
pub(super) struct Cache {
    file: Database,
    /// Writes that are not durable.
    written: Mutex<u32>,
}

/// A fault of the file, in words.
pub(super) type Fault = String;

fn fault(error: impl Into<redb::Error>) -> Fault {
    format!("the cache of the remote node's state: {}", error.into())
}

impl Cache {
    /// Opens the file at a path, or begins it. If another process has it open, `spare` is used in its place.
    pub(super) fn open(path: &Path, spare: PathBuf) -> Result<Self, Fault> {
        let file = match open(path) {
            Err(DatabaseError::DatabaseAlreadyOpen) => {
                tracing::warn!(path = %path.display(), "another process has the cache open: this one keeps its own");
                Self::anew(&spare)?
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the cache is begun anew");
                Self::anew(path)?
            }
            Ok(file) => file,
        };
        let cache = Self { file, written: Mutex::default() };
        // Tables are there for readers from now on.
        cache.write(|_, _, _, _| Ok(()))?;
        Ok(cache)
    }

    fn anew(path: &Path) -> Result<Database, Fault> {
        let _ = fs::remove_file(path);
        open(path).map_err(fault)
    }

    fn read<T>(
        &self,
        table: TableDefinition<'_, &'static [u8], &'static [u8]>,
        key: &[u8],
        take: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let read = self.file.begin_read().map_err(fault)?;
        let table = read.open_table(table).map_err(fault)?;
        let found = table.get(key).map_err(fault)?;
        Ok(found.and_then(|found| take(found.value())))
    }

    /// An account, `Some(None)` if it does not exist; `None` if it was not read.
    pub(super) fn account(&self, address: &Address) -> Result<Option<Option<RemoteAccount>>, Fault> {
        self.read(ACCOUNTS, address.as_slice(), |mut bytes| {
            if bytes.is_empty() {
                return Some(None);
            }
            let Stored { nonce, balance, code_hash } = Stored::decode(&mut bytes).ok()?;
            let code_hash = Some(code_hash).filter(|hash| !hash.is_zero());
            Some(Some(RemoteAccount { nonce, balance, code_hash }))
        })
    }

    /// Word of a slot, if it was read.
    pub(super) fn word(&self, address: &Address, slot: &U256) -> Result<Option<U256>, Fault> {
        self.read(WORDS, &word_key(address, slot), U256::try_from_be_slice)
    }

    /// Code with a hash, if an account with it was read.
    pub(super) fn code(&self, hash: &B256) -> Result<Option<Bytes>, Fault> {
        self.read(CODES, hash.as_slice(), |bytes| Some(Bytes::copy_from_slice(bytes)))
    }

    /// Hash of a block, if it was read.
    pub(super) fn hash(&self, number: u64) -> Result<Option<B256>, Fault> {
        let read = self.file.begin_read().map_err(fault)?;
        let table = read.open_table(HASHES).map_err(fault)?;
        let found = table.get(number).map_err(fault)?;
        Ok(found.and_then(|found| B256::try_from(found.value()).ok()))
    }

    /// Keeps accounts and words.
    pub(super) fn keep(&self, accounts: &[(Address, Account)], read: &[((Address, U256), U256)]) -> Result<(), Fault> {
        self.write(|kept, words, codes, _| {
            for (address, account) in accounts {
                let stored = account.digest().map(|RemoteAccount { nonce, balance, code_hash }| {
                    alloy_rlp::encode(Stored { nonce, balance, code_hash: code_hash.unwrap_or_default() })
                });
                kept.insert(address.as_slice(), &stored.unwrap_or_default()[..])?;
                if let Some(hash) = account.digest().and_then(|account| account.code_hash) {
                    codes.insert(hash.as_slice(), &account.code[..])?;
                }
            }
            for ((address, slot), word) in read {
                words.insert(&word_key(address, slot)[..], &word.to_be_bytes::<32>()[..])?;
            }
            Ok(())
        })
    }

    /// Keeps hashes of blocks.
    pub(super) fn keep_hashes(&self, read: &[(u64, B256)]) -> Result<(), Fault> {
        self.write(|_, _, _, hashes| {
            read.iter().try_for_each(|(number, hash)| hashes.insert(*number, hash.as_slice()).map(drop))
        })
    }

    fn write(
        &self,
        change: impl FnOnce(
            &mut Bytewise<'_>,
            &mut Bytewise<'_>,
            &mut Bytewise<'_>,
            &mut redb::Table<'_, u64, &'static [u8]>,
        ) -> Result<(), redb::StorageError>,
    ) -> Result<(), Fault> {
        let mut written = self.written.lock();
        let mut write = self.file.begin_write().map_err(fault)?;
        let is_durable = written.is_multiple_of(DURABLE_EVERY);
        let durability = if is_durable { Durability::Immediate } else { Durability::None };
        write.set_durability(durability).map_err(fault)?;
        {
            let mut accounts = write.open_table(ACCOUNTS).map_err(fault)?;
            let mut words = write.open_table(WORDS).map_err(fault)?;
            let mut codes = write.open_table(CODES).map_err(fault)?;
            let mut hashes = write.open_table(HASHES).map_err(fault)?;
            change(&mut accounts, &mut words, &mut codes, &mut hashes).map_err(fault)?;
        }
        write.commit().map_err(fault)?;
        *written += 1;
        Ok(())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        *self.written.get_mut() = 0;
        if let Err(error) = self.write(|_, _, _, _| Ok(())) {
            tracing::warn!(error, "what was read last is read again at the next start");
        }
    }
}

/// A table of bytes.
type Bytewise<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

fn open(path: &Path) -> Result<Database, DatabaseError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(redb::StorageError::from)?;
    }
    Database::builder().set_cache_size(MEMORY).create(path)
}

fn word_key(address: &Address, slot: &U256) -> [u8; 52] {
    let mut key = [0; 52];
    key[..20].copy_from_slice(address.as_slice());
    key[20..].copy_from_slice(&slot.to_be_bytes::<32>());
    key
}
