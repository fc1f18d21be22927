//! Place of a run's state: the store that its flags name, a copy of a state that was made before, or a folder that goes with the run.

use super::genesis;
use crate::{
    config::{RunConfig, Store},
    error::Usage,
    machine::temporary::{Unfinished, in_the_making, write_whole},
    ui::Ui,
};
use anyhow::Context as _;
use phalanx::{Engine, GenesisAccount, RootKind, merkle::Memory};
use phalanx_workloads::Workload;
use serde_json::{Map, Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Description of a made state, beside its store.
const PARAMETERS: &str = "phalanx-state.json";

/// Folder of a made state with its description, which appear together.
const MADE: &str = "made";

/// The store in it.
const STORE: &str = "store";

/// Place of a run's state.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) store: Store,
    /// True if the state holds the genesis already.
    pub(crate) is_made: bool,
    /// Folder that goes with the run.
    _folder: Option<Unfinished>,
}

impl Place {
    /// Place of a run that would have its state in `store`.
    ///
    /// # Errors
    /// If a made state cannot be copied.
    pub(crate) fn of(config: &RunConfig, store: &Store) -> anyhow::Result<Self> {
        if let Some(dir) = &config.state {
            let folder = copy(dir)?;
            let store = Store::File(folder.path().to_path_buf());
            return Ok(Self { store, is_made: true, _folder: Some(folder) });
        }
        match (store, config.store.path()) {
            // What has no place of its own, an oracle or a plan, is bounded like the run that it is for.
            (Store::Mem, Some(beside)) if config.memory != Memory::Resident => {
                let folder = Unfinished::new(in_the_making(beside));
                let store = config.store.at(folder.path().to_path_buf());
                Ok(Self { store, is_made: false, _folder: Some(folder) })
            }
            _ => Ok(Self { store: store.clone(), is_made: false, _folder: None }),
        }
    }
}

/// Makes the genesis of `workload`, and few `more` accounts, in the folder that `config` names with `--state`, unless it is there.
///
/// # Errors
/// If the folder holds something else, or the state cannot be made.
pub(crate) fn make(
    config: &RunConfig,
    workload: &dyn Workload,
    more: Vec<GenesisAccount>,
    threads: usize,
    ui: &Ui,
) -> anyhow::Result<()> {
    let Some(dir) = &config.state else { return Ok(()) };
    let mut wanted = parameters(config, workload);
    if !more.is_empty() {
        wanted.insert("request_contracts".into(), json!(more.len()));
    }
    let made = dir.join(MADE);
    let described = made.join(PARAMETERS);
    if described.exists() {
        let bytes = fs::read(&described).with_context(|| format!("reading {}", described.display()))?;
        let found: Map<String, Value> =
            serde_json::from_slice(&bytes).with_context(|| format!("reading {}", described.display()))?;
        return same(dir, &found, &wanted).map_err(Into::into);
    }
    // What a killed process left is no state.
    let is_left = |name: &std::ffi::OsStr| Path::new(name).extension().is_some_and(|end| end == "partial");
    if fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(|entry| !is_left(&entry.file_name()))) {
        let dir = dir.display();
        return Err(Usage(format!("--state {dir}: the folder holds something else; name a new or an empty one")).into());
    }
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    ui.say(&format!("making the state in {}", dir.display()));
    let folder = Unfinished::new(in_the_making(&made));
    fs::create_dir(folder.path()).with_context(|| format!("making {}", folder.path().display()))?;
    let store = config.store_config(&Store::File(folder.path().join(STORE)))?;
    let mut engine = Engine::builder().with_store(store).with_threads(threads);
    let mut cfg = phalanx::revm::context::CfgEnv::new_with_spec(config.evm_spec);
    cfg.chain_id = workload.load().chain_id;
    engine = engine.with_cfg(cfg).with_root(config.root);
    let mut engine = engine.build().context("opening the store")?;
    genesis::load_with(&mut engine, workload, more, config, ui)?;
    drop(engine);
    let text = serde_json::to_vec_pretty(&wanted).context("describing the state")?;
    write_whole(&folder.path().join(PARAMETERS), &text).context("describing the state")?;
    folder.finish(&made).with_context(|| format!("making {}", made.display()))
}

/// Settings that a genesis depends on.
fn parameters(config: &RunConfig, workload: &dyn Workload) -> Map<String, Value> {
    let all = config.resolved(1);
    // The funds of an account pay for every transaction of the load.
    let names =
        ["workload", "accounts", "txs", "seed", "pools", "hot_pool_share", "mix", "signatures", "hasher", "evm_spec"];
    let mut parameters: Map<String, Value> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), all.get(*name)?.clone()))).collect();
    parameters.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
    // A state of the default root stays one.
    if config.root != RootKind::default() {
        parameters.insert("root".into(), all["root"].clone());
    }
    // Another version may make other accounts.
    let last = workload.accounts().len().checked_sub(1).map(|last| workload.accounts().address(last));
    parameters.insert("last_account".into(), json!(last.map(|last| last.to_string())));
    parameters
}

/// Refuses a state that was made with other settings.
fn same(dir: &Path, found: &Map<String, Value>, wanted: &Map<String, Value>) -> Result<(), Usage> {
    let differs = |name: &&String| found.get(*name) != wanted.get(*name);
    match wanted.keys().chain(found.keys()).find(differs) {
        None => Ok(()),
        Some(name) => {
            let [found, wanted] =
                [found, wanted].map(|of| of.get(name).map_or_else(|| "nothing".to_owned(), Value::to_string));
            let what = format!(
                "--state {}: it was made with {name} {found}, this run has {wanted}: name another folder",
                dir.display()
            );
            Err(Usage(what))
        }
    }
}

/// Copies the made state of a folder to a new one in it. Sealed segments of the log, which do not change, are linked.
fn copy(dir: &Path) -> anyhow::Result<Unfinished> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let from = dir.join(MADE).join(STORE);
    let copying = || format!("copying {}", from.display());
    // Files that a killed process of the same number left are links to the state's: no folder is written to that was there.
    let path = loop {
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let path = in_the_making(&dir.join(format!("run-{number}")));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => break made.map(|()| path).with_context(copying)?,
        }
    };
    let folder = Unfinished::new(path);
    copy_files(&from, folder.path()).with_context(copying)?;
    Ok(folder)
}

/// Copies files into a new folder.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    let files: Vec<PathBuf> = fs::read_dir(from)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    let is_segment = |path: &&PathBuf| path.extension().is_some_and(|end| end == "seg");
    let last = files.iter().filter(is_segment).max();
    for file in &files {
        let Some(name) = file.file_name().filter(|name| *name != "lock") else { continue };
        // Blocks are appended to the last segment.
        let is_sealed = is_segment(&file) && Some(file) != last;
        if !(is_sealed && fs::hard_link(file, to.join(name)).is_ok()) {
            fs::copy(file, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_what_is_sealed_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let state = dir.path().join(MADE).join(STORE);
        fs::create_dir_all(&state).expect("a folder");
        for name in ["00000000.seg", "00000001.seg", "code.log", "lock"] {
            fs::write(state.join(name), name).expect("a file");
        }
        // Copies of a killed process with the same number.
        for number in 0..20 {
            let left = in_the_making(&dir.path().join(format!("run-{number}")));
            fs::create_dir(&left).expect("a folder");
            fs::hard_link(state.join("00000000.seg"), left.join("00000000.seg")).expect("a link");
        }
        let copied = copy(dir.path()).expect("a copy");
        assert_eq!(fs::read_to_string(state.join("00000000.seg")).expect("a file"), "00000000.seg");
        for name in ["00000000.seg", "00000001.seg", "code.log"] {
            assert_eq!(fs::read_to_string(copied.path().join(name)).expect("a file"), name);
        }
        assert!(!copied.path().join("lock").exists());
        for name in ["00000001.seg", "code.log"] {
            fs::write(copied.path().join(name), "changed").expect("a file");
            assert_eq!(fs::read_to_string(state.join(name)).expect("a file"), name);
        }
        let path = copied.path().to_path_buf();
        drop(copied);
        assert!(!path.exists() && state.join("00000000.seg").exists());
    }

    #[test]
    fn a_state_of_other_settings_is_refused() {
        let map = |accounts: u64| Map::from_iter([("accounts".to_owned(), json!(accounts))]);
        assert!(same(Path::new("d"), &map(1), &map(1)).is_ok());
        let refused = same(Path::new("d"), &map(1), &map(2)).expect_err("another state");
        assert!(refused.0.contains("made with accounts 1, this run has 2"), "{}", refused.0);
        assert!(same(Path::new("d"), &Map::new(), &map(2)).is_err());
        assert!(same(Path::new("d"), &map(2), &Map::new()).is_err());
    }
}
