//! The commitment in memory, as pure mathematics over leaves and positions: it knows neither keys nor storage.
//!
//! Positions are grouped into twigs of 2048 leaves; a twig's digest covers its leaves and its active bits, and upper
//! levels lead from the twigs to the root.

mod restore;
mod plan;
mod view;
mod base;
mod patch;
mod deactivations;
mod upper;
mod twig;
mod span;

pub(crate) use base::{Tree, TreeImage};
pub(crate) use deactivations::{Deactivations, Regions};
pub(crate) use patch::{Node, Patches, TreePatch};
pub(crate) use plan::Plan;
pub(crate) use restore::sentinels;
pub(crate) use twig::{Bitmap, LEAF_NANOS, Leaves, TwigTree, twig_of};
pub(crate) use view::TreeView;
