//! Recovery for an unknown chain: the signature must be canonical (EIP-2), and no other rule is checked.

use super::{
    RecoverError,
    batch::{hashed, in_chunks},
    decode::canonical,
    signed::signed,
};
use alloy_primitives::Bytes;
use revm::context::TxEnv;

/// Decodes a transaction of a block and recovers its sender, for an unknown chain: the signature must be canonical
/// (EIP-2), and no other rule is checked.
///
/// # Errors
/// [`RecoverError`], never a panic, whatever the bytes.
pub fn recover(bytes: &[u8]) -> Result<TxEnv, RecoverError> {
    recover_each(&[bytes]).pop().expect("a result per transaction")
}

/// Does [`recover`] for many, in the current rayon pool and in order.
pub fn recover_all(encoded: &[Bytes]) -> Vec<Result<TxEnv, RecoverError>> {
    in_chunks(encoded, recover_each)
}

fn recover_each<B: AsRef<[u8]>>(encoded: &[B]) -> Vec<Result<TxEnv, RecoverError>> {
    let hashes = hashed(encoded);
    let decoded: Vec<_> = encoded.iter().zip(hashes).map(|(bytes, hash)| canonical(bytes.as_ref(), hash)).collect();
    let mut recovered = signed(decoded.iter().flatten(), false).into_iter();
    let mut next = |_| recovered.next().expect("a result per decoded transaction");
    decoded.into_iter().map(|decoded| decoded.and_then(&mut next)).collect()
}
