//! The analyser's state: its rules of execution, and what it has learned.

use super::chunk::Chunk;
use crate::{
    erc20::Erc20Layout,
    template::{Table, TemplateLimits},
    vm::VmConfig,
};
use alloy_primitives::{B256, map::B256Map};
use phalanx_access::Salt;

/// Layers that predict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// All layers, cheapest first.
    #[default]
    All,
    /// All but templates: native rule, access lists, the ERC20 rule, simulation.
    WithoutTemplates,
    /// All but the ERC20 rule, to measure templates on ERC20 calls.
    WithoutStandards,
    /// Simulation alone.
    Simulation,
}

/// The analyser. It keeps the storage layouts of known tokens, and templates of other functions.
#[derive(Debug)]
pub struct ParaLyze {
    pub(crate) salt: Salt,
    pub(crate) cfg: VmConfig,
    /// Layouts, by code hash.
    pub(super) layouts: B256Map<Learned>,
    pub(crate) templates: Table,
    pub(super) chunks: Vec<Chunk>,
    pub(super) layers: Layers,
}

/// Knowledge of a token's code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    pub(super) layout: Option<Erc20Layout>,
    /// Number of simulations that no standard layout explained.
    pub(super) failures: u8,
}

impl ParaLyze {
    /// Creates an analyser for a chain configured by `cfg`; digests are keyed by `salt`.
    pub fn new(salt: Salt, cfg: impl Into<VmConfig>) -> Self {
        let cfg = cfg.into();
        Self {
            salt,
            cfg,
            layouts: B256Map::default(),
            templates: Table::new(TemplateLimits::default()),
            chunks: Vec::new(),
            layers: Layers::All,
        }
    }

    /// Sets the limits of templates, and drops the learned ones.
    #[must_use]
    pub fn with_template_limits(mut self, limits: TemplateLimits) -> Self {
        self.templates = Table::new(limits);
        self
    }

    /// Sets the layers, and returns the ones before.
    pub const fn use_layers(&mut self, layers: Layers) -> Layers {
        core::mem::replace(&mut self.layers, layers)
    }

    /// Predicts by simulation alone from now on, to measure the rules against it.
    pub const fn simulate_all(&mut self) {
        self.layers = Layers::Simulation;
    }

    /// Sets the rules of execution. Layouts and templates stay.
    pub fn set_cfg(&mut self, cfg: VmConfig) {
        self.cfg = cfg;
    }

    /// Salt of the digests.
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// Drops all layouts and templates.
    pub fn forget(&mut self) {
        self.layouts.clear();
        self.templates.clear();
    }

    /// Number of functions that have a template, and the memory of all templates, in bytes, approximately.
    pub fn templates(&self) -> (usize, usize) {
        (self.templates.len(), self.templates.bytes())
    }

    /// Returns the layout that was inferred for the token code `hash`.
    pub fn layout(&self, hash: &B256) -> Option<Erc20Layout> {
        self.layouts.get(hash).and_then(|learned| learned.layout)
    }
}
