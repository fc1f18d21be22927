//! `keys new`: the keys of one operator.

use crate::{cmd::net::MemberFile, exit, output};
use anyhow::Context as _;
use clap::Args;
use phalanx_keys::OwnKeys;
use phalanx_lab::error::Usage;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Folder of secret.json and public.json, neither of which may be there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Address that other replicas connect to
    #[arg(long, value_name = "IP:PORT")]
    peers: SocketAddr,
    /// Address that clients connect to
    #[arg(long, value_name = "IP:PORT")]
    clients: SocketAddr,
}

impl NewArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let keys = OwnKeys::fresh()?;
        let public = MemberFile { keys: keys.public(), peers: self.peers, clients: self.clients };
        fs::create_dir_all(&self.dir).with_context(|| format!("making {}", self.dir.display()))?;
        let json = serde_json::to_string_pretty(&public)?;
        // The secret half first: a public one without it would be of no use.
        write_new(&self.dir.join("secret.json"), keys.to_json().as_bytes(), 0o600)?;
        write_new(&self.dir.join("public.json"), json.as_bytes(), 0o644)?;
        output::print(&format!("{json}\n"))?;
        Ok(exit::OK)
    }
}

/// Writes a file that is not there yet, durably, with these rights.
pub(super) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Usage(format!("{} is there already, and keys are never overwritten", path.display())).into());
        }
        opened => opened.with_context(|| format!("creating {}", path.display()))?,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| File::open(folder)?.sync_all());
    written.with_context(|| format!("writing {}", path.display()))
}
