//! The commitment in memory.

mod base;
mod deactivations;
mod patch;
mod plan;
mod restore;
mod span;
mod twig;
mod upper;
mod view;

pub(crate) use base::{Tree, TreeImage};
pub(crate) use deactivations::{Off, Regions};
pub(crate) use patch::{Patch, TreePatch};
pub(crate) use plan::Plan;
pub(crate) use restore::sentinels;
pub(crate) use twig::{Bitmap, GROWING, Leaves, TwigTree, twig_of};
pub(crate) use view::TreeView;
