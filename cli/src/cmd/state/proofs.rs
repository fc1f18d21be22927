//! Proofs of keys: made from a store, and verified without one.

use super::{
    copies::input,
    db::Db,
    words::{Hex, StateKey},
    written::{Decoded, Form, Verified, hex},
};
use crate::{exit, output};
use anyhow::Context as _;
use phalanx::{
    merkle::{self, HashFn, Params, verify_exclusion, verify_inclusion},
    revm::primitives::{B256, hex as digits},
};
use phalanx_lab::{
    config::{Word as _, word},
    error::Usage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{io::Read as _, path::Path};

/// Output of `state prove` and input of `state verify`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Proof {
    /// Root that the proof leads to.
    state_root: String,
    /// Hash of the commitment. The root binds it, so it may come from the source of the proof.
    #[serde(default)]
    hasher: Option<String>,
    /// The key, in hex.
    key: String,
    /// The stored bytes, in hex. Null if the key is absent.
    value: Option<String>,
    /// The proof of the value or of its absence, in hex.
    proof: String,
}

/// Prints a proof of a key's value or absence.
pub(super) fn prove(db: &Db, key: &StateKey) -> anyhow::Result<u8> {
    let store = db.read()?;
    let reader = store.read();
    let value = reader.get(&key.0).map(hex);
    let proof = match reader.prove(&key.0)? {
        Some(proof) => proof,
        None => reader.prove_absence(&key.0)?.unwrap_or_default(),
    };
    let state_root = B256::new(reader.root()).to_string();
    let (key, proof) = (hex(&key.0), hex(&proof));
    let proof = Proof { state_root, hasher: Some(word(store.params().hash)), key, value, proof };
    output::json(Path::new("-"), &proof)?;
    Ok(exit::OK)
}

/// Verifies the output of [`prove`] against a root.
pub(super) fn verify(path: &Path, root: &Hex, hasher: Option<HashFn>, form: Form) -> anyhow::Result<u8> {
    let root = root.root()?;
    let mut text = String::new();
    input(path)?.read_to_string(&mut text).with_context(|| format!("reading {}", path.display()))?;
    let unreadable = |what: &str| Usage(format!("{} is no proof: {what}", path.display()));
    let claim: Proof = serde_json::from_str(&text).map_err(|error| unreadable(&error.to_string()))?;
    let bytes = |word: &String| digits::decode(word).map_err(|_| unreadable("not hex"));
    let StateKey(key) = StateKey::checked(bytes(&claim.key)?).map_err(|why| unreadable(&why))?;
    let named = |name: &String| {
        let known = HashFn::WORDS.iter().find(|(_, known, _)| known == name);
        known.map(|(hasher, ..)| *hasher).ok_or_else(|| unreadable("unknown hash function"))
    };
    let claimed = claim.hasher.as_ref().map(named).transpose()?;
    let params = Params::with_hash(hasher.or(claimed).unwrap_or_default());
    let proof = bytes(&claim.proof)?;
    let value = claim.value.as_ref().map(bytes).transpose()?;
    let proven = match &value {
        Some(value) => verify_inclusion(&params, &root, &proof).and_then(|entry| {
            let same = entry.key == key && entry.value == *value;
            same.then_some(()).ok_or(merkle::ProofError::Other)
        }),
        None => verify_exclusion(&params, &root, &key, &proof),
    };
    let decoded = value.as_ref().filter(|_| proven.is_ok()).and_then(|value| Decoded::of(&key, value));
    let lines = decoded.as_ref().map_or_else(String::new, Decoded::lines);
    let text = format!("proven: {}\n{lines}", claim.value.as_deref().unwrap_or("absent"));
    let reason = proven.as_ref().err().map(ToString::to_string);
    let verified =
        Verified { proven: proven.is_ok(), key: hex(&key), value: claim.value, decoded, reason: reason.clone() };
    let Some(reason) = reason else { return form.print(&text, &verified) };
    eprintln!("phalanx: {reason}");
    form.print("", &verified).map(|_| exit::DIVERGENCE)
}
