//! The commitment in memory.

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
pub(crate) use patch::{Patch, TreePatch};
pub(crate) use plan::Plan;
pub(crate) use restore::sentinels;
pub(crate) use twig::{Bitmap, LEAF_NANOS, Leaves, TwigTree, twig_of};
pub(crate) use view::TreeView;
