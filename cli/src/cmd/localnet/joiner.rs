//! A node without a vote that joins the running network by state sync.

use super::{
    comet, height,
    layout::{Layout, Order},
    validator::Validator,
};
use anyhow::Context as _;
use std::fs;

/// Blocks behind a snapshot until CometBFT's light client can verify its app hash, and some more for a slow start.
const BEHIND: u64 = 5;

/// The node, before and after its start.
#[derive(Debug)]
pub(super) enum Joiner {
    Waiting,
    Running { node: Box<Validator>, is_shown: bool },
}

impl Joiner {
    /// Starts the node once there is a snapshot, and what has ended of it. Returns what the user needs once it answers.
    pub(super) fn tend(
        &mut self,
        layout: &Layout,
        order: &Order,
        validators: &[Validator],
    ) -> anyhow::Result<Option<String>> {
        let Some(place) = &layout.joiner else { return Ok(None) };
        match self {
            Self::Waiting => {
                let source = validators[0].place();
                let trusted = layout.snapshot_every;
                let is_due = height::of(source.rpc).is_some_and(|height| height >= trusted + BEHIND);
                let is_known = place.home.join("joined").exists();
                if !is_known {
                    let Some(hash) =
                        is_due.then(|| source.comet_rpc().and_then(|comet| height::hash(comet, trusted))).flatten()
                    else {
                        return Ok(None);
                    };
                    let servers: Vec<_> =
                        validators.iter().cycle().take(2).filter_map(|one| one.place().comet_rpc()).collect();
                    let settings = [
                        (("statesync", "enable"), "true".to_owned()),
                        (("statesync", "rpc_servers"), format!("\"http://{},http://{}\"", servers[0], servers[1])),
                        (("statesync", "trust_height"), trusted.to_string()),
                        (("statesync", "trust_hash"), format!("\"{hash}\"")),
                        (("statesync", "discovery_time"), "\"5s\"".to_owned()),
                    ];
                    let path = place.home.join("config/config.toml");
                    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                    let text = comet::set(&text, &settings)?;
                    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
                }
                *self = Self::Running { node: Box::new(Validator::joining(place.clone())), is_shown: false };
                Ok(None)
            }
            Self::Running { node, is_shown } => {
                node.tend(layout, order)?;
                if *is_shown {
                    return Ok(None);
                }
                let Some(height) = height::of(place.rpc) else { return Ok(None) };
                *is_shown = true;
                let marker = place.home.join("joined");
                fs::write(&marker, "").with_context(|| format!("writing {}", marker.display()))?;
                let rpc = place.rpc;
                let comet =
                    place.comet_rpc().map(|comet| format!(", CometBFT's RPC at http://{comet}")).unwrap_or_default();
                Ok(Some(format!("joined at block {height}: JSON-RPC at http://{rpc} and ws://{rpc}{comet}\n")))
            }
        }
    }

    /// The node, if it was started.
    pub(super) fn into_node(self) -> Option<Validator> {
        match self {
            Self::Waiting => None,
            Self::Running { node, .. } => Some(*node),
        }
    }
}
