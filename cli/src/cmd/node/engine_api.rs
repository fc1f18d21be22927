//! Flags of a node whose head a consensus client chooses over the Engine API.

use clap::Args;
use phalanx::alloy::primitives::{Bytes, hex};
use phalanx_lab::{config::heading, machine::host};
use phalanx_node::EngineApiConfig;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// File of the secret in the node's folder.
const JWT: &str = "jwt.hex";

/// Maximum length of extra data, in bytes.
const MOST: usize = 32;

#[derive(Debug, Args)]
pub(super) struct EngineApiArgs {
    /// Address of the Engine API, HTTP and WebSocket. With --consensus engine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8551", help_heading = heading::BLOCKS)]
    authrpc: SocketAddr,
    /// File of the secret that consensus client and node share, which is made if it is not there [default: jwt.hex in --datadir]
    #[arg(long, value_name = "FILE", help_heading = heading::BLOCKS)]
    jwt: Option<PathBuf>,
    /// Extra data of built blocks, at most 32 bytes: a text, or bytes as 0x and digits. With --consensus engine [default: none]
    #[arg(long, value_name = "TEXT", value_parser = extra_data, help_heading = heading::BLOCKS)]
    extra_data: Option<Bytes>,
}

/// Reads extra data.
fn extra_data(text: &str) -> Result<Bytes, String> {
    let data = match text.starts_with("0x") {
        true => text.parse().map_err(|_| "0x and an even number of hexadecimal digits are expected".to_owned())?,
        false => Bytes::copy_from_slice(text.as_bytes()),
    };
    if data.len() <= MOST { Ok(data) } else { Err(format!("{} bytes are more than {MOST}", data.len())) }
}

impl EngineApiArgs {
    /// Settings of a node with this folder.
    pub(super) fn config(&self, folder: &Path) -> EngineApiConfig {
        let jwt = self.jwt.clone().unwrap_or_else(|| folder.join(JWT));
        let extra_data = self.extra_data.clone().unwrap_or_default();
        EngineApiConfig { extra_data, commit: commit(&host::tool().commit), ..EngineApiConfig::new(self.authrpc, jwt) }
    }
}

/// First bytes of a commit, or zero if the text names none.
fn commit(text: &str) -> [u8; 4] {
    text.get(..8).and_then(|digits| hex::decode_to_array(digits).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_data_is_text_or_bytes_and_short() {
        assert_eq!(extra_data("a node"), Ok(Bytes::from_static(b"a node")));
        assert_eq!(extra_data("0x0aFf"), Ok(Bytes::from_static(&[0x0a, 0xff])));
        assert_eq!(extra_data(""), Ok(Bytes::new()));
        assert!(extra_data(&"x".repeat(MOST)).is_ok() && extra_data(&format!("0x{}", "00".repeat(MOST))).is_ok());
        for wrong in ["x".repeat(MOST + 1), format!("0x{}", "00".repeat(MOST + 1)), "0x0".into(), "0xgg".into()] {
            assert!(extra_data(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn commits_are_known_by_their_first_bytes() {
        assert_eq!(commit("00ff12abcdef-dirty"), [0, 0xff, 0x12, 0xab]);
        assert_eq!([commit("unknown"), commit("unknown build"), commit("")], [[0; 4]; 3]);
    }
}
