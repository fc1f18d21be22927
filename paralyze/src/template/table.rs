//! Templates by function, bounded in memory; how far each is trusted, and which codes delegate.

use super::{
    Function,
    tree::{Path, Refusal, Template},
};
use alloy_primitives::{Address, B256};
use core::sync::atomic::{AtomicU64, Ordering};
use revm::primitives::map::{HashMap, HashSet};

/// Maximum size of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateLimits {
    /// Functions.
    pub functions: usize,
    /// Bytes of all templates, about.
    pub bytes: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self { functions: 1 << 16, bytes: 256 << 20 }
    }
}

/// Functions that were seen once and not learned.
const MAX_SEEN: usize = 1 << 16;

/// Delegating codes that are remembered.
const MAX_DELEGATIONS: usize = 1 << 16;

/// Dry runs in a row that may teach nothing new before a function counts as one that cannot be learned.
const MAX_BARREN: u8 = 6;

/// Wrong predictions, less those that were right, after which a function is simulated for a while.
const MAX_MISSES: u8 = 3;

/// Batches for which a function that predicted wrong is simulated; doubled each time, up to this many doublings.
const REST: u64 = 16;
const MAX_RESTS: u8 = 10;

/// A function.
#[derive(Debug, Default)]
struct Entry {
    template: Template,
    /// The batch that asked for it last.
    used: AtomicU64,
    barren: u8,
    misses: u8,
    rests: u8,
    /// Batch until which the function rests.
    resting: u64,
}

/// All templates.
#[derive(Debug, Default)]
pub(crate) struct Table {
    limits: TemplateLimits,
    entries: HashMap<Function, Entry>,
    bytes: usize,
    seen: HashSet<Function>,
    delegations: HashMap<B256, Address>,
    /// Counts batches.
    now: u64,
}

impl Table {
    pub(crate) fn new(limits: TemplateLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Forgets everything but the limits.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Functions that are known.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all templates, about.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a batch.
    pub(crate) const fn tick(&mut self) {
        self.now += 1;
    }

    /// The number of the batch.
    pub(crate) const fn turn(&self) -> u64 {
        self.now
    }

    /// The template of a function.
    pub(crate) fn get(&self, function: &Function) -> Option<&Template> {
        let entry = self.entries.get(function).filter(|entry| !entry.template.blocks.is_empty())?;
        // All of one batch write the same.
        entry.used.store(self.now, Ordering::Relaxed);
        Some(&entry.template)
    }

    /// The template of a transaction's own function, if it may be predicted from.
    pub(crate) fn trusted(&self, function: &Function) -> Option<&Template> {
        let entry = self.entries.get(function)?;
        (entry.resting <= self.now && !entry.template.blocks.is_empty()).then(|| {
            entry.used.store(self.now, Ordering::Relaxed);
            &entry.template
        })
    }

    /// Returns true if a dry run of this function could teach something: the function was seen before, now or earlier, and
    /// has not turned out to be beyond formulas.
    pub(crate) fn is_worth_a_trace(&self, function: &Function, seen_now: usize) -> bool {
        match self.entries.get(function) {
            Some(entry) => entry.barren < MAX_BARREN && entry.resting <= self.now,
            None => seen_now > 1 || self.seen.contains(function),
        }
    }

    /// Notes a function that is not worth a trace yet.
    pub(crate) fn note(&mut self, function: Function) {
        if self.entries.contains_key(&function) {
            return;
        }
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        self.seen.insert(function);
    }

    /// To whom a code delegates.
    pub(crate) fn delegate(&self, code: &B256) -> Option<Address> {
        // Most chains, and most blocks, have none.
        if self.delegations.is_empty() { None } else { self.delegations.get(code).copied() }
    }

    pub(crate) fn delegates(&mut self, code: B256, to: Address) {
        if self.delegations.len() < MAX_DELEGATIONS {
            self.delegations.insert(code, to);
        }
    }

    /// Takes in one path of a function.
    pub(crate) fn learn(&mut self, function: Function, path: &Path) {
        let now = self.now;
        let entry = self.entries.entry(function).or_default();
        let before = if entry.template.blocks.is_empty() { 0 } else { entry.template.bytes() };
        match entry.template.insert(path) {
            Ok(()) => {}
            Err(Refusal::Conflict) => entry.barren = entry.barren.saturating_add(1),
            Err(Refusal::Full) => entry.barren = MAX_BARREN,
        }
        entry.used.store(now, Ordering::Relaxed);
        self.bytes += entry.template.bytes() - before;
        self.seen.remove(&function);
        self.evict();
    }

    /// A dry run of this function, as a transaction's own, did not lead to a prediction.
    pub(crate) fn barren(&mut self, function: Function) {
        let now = self.now;
        let entry = self.entries.entry(function).or_default();
        entry.barren = entry.barren.saturating_add(1);
        entry.used.store(now, Ordering::Relaxed);
        self.evict();
    }

    /// A dry run of this function taught something.
    pub(crate) fn fruitful(&mut self, function: &Function) {
        if let Some(entry) = self.entries.get_mut(function) {
            entry.barren = entry.barren.saturating_sub(1);
        }
    }

    /// A prediction turned out right or wrong.
    pub(crate) fn judge(&mut self, function: &Function, right: bool) {
        let Some(entry) = self.entries.get_mut(function) else { return };
        if right {
            entry.misses = entry.misses.saturating_sub(1);
            return;
        }
        entry.misses += 1;
        if entry.misses >= MAX_MISSES {
            entry.misses = 0;
            entry.resting = self.now + (REST << entry.rests);
            entry.rests = (entry.rests + 1).min(MAX_RESTS);
        }
    }

    /// Forgets what was not used for longest, a quarter at a time, if there is too much.
    fn evict(&mut self) {
        let TemplateLimits { functions, bytes } = self.limits;
        if self.entries.len() <= functions && self.bytes <= bytes {
            return;
        }
        let used = |entry: &Entry| entry.used.load(Ordering::Relaxed);
        let mut oldest: Vec<_> = self.entries.iter().map(|(function, entry)| (used(entry), *function)).collect();
        oldest.sort_unstable();
        for (_, function) in oldest {
            if self.entries.len() <= functions - functions / 4 && self.bytes <= bytes - bytes / 4 {
                break;
            }
            if let Some(entry) = self.entries.remove(&function) {
                self.bytes -= if entry.template.blocks.is_empty() { 0 } else { entry.template.bytes() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tree::{Event, Leaf, Step},
        *,
    };
    use alloy_primitives::U256;
    use phalanx_access::Access;
    use phalanx_symbolic::{Nodes, Region};

    fn function(n: u32) -> Function {
        Function { code: B256::ZERO, selector: Some(n.to_be_bytes()) }
    }

    fn path(slot: u64) -> Path {
        let mut nodes = Nodes::default();
        let slot = nodes.constant(U256::from(slot));
        let events = vec![Event::Step(Step::Slot { slot, access: Access::Read })];
        Path { nodes, events, leaf: Leaf { success: true, output: Region::default() } }
    }

    #[test]
    fn a_flood_of_functions_stays_within_the_limits_and_spares_what_is_used() {
        let limits = TemplateLimits { functions: 100, bytes: 1 << 20 };
        let mut table = Table::new(limits);
        table.learn(function(0), &path(0));
        for n in 1..50_000 {
            table.tick();
            assert!(table.get(&function(0)).is_some(), "used all the time: {n}");
            table.learn(function(n), &path(u64::from(n)));
            table.note(function(n + 1_000_000));
            assert!(table.len() <= limits.functions && table.seen.len() <= MAX_SEEN);
        }
        let mut small = Table::new(TemplateLimits { functions: 1 << 20, bytes: 10_000 });
        for n in 0..1_000 {
            small.learn(function(n), &path(u64::from(n)));
            assert!(small.bytes() <= 10_000, "{}", small.bytes());
        }
        let real: usize = small.entries.values().map(|entry| entry.template.bytes()).sum();
        assert_eq!(real, small.bytes());
        assert!(small.len() > 5);
    }

    #[test]
    fn who_predicts_wrong_rests_longer_each_time() {
        let mut table = Table::new(TemplateLimits::default());
        table.learn(function(1), &path(1));
        assert!(table.trusted(&function(1)).is_some() && table.trusted(&function(2)).is_none());
        let rest = |table: &mut Table| {
            (0..MAX_MISSES).for_each(|_| table.judge(&function(1), false));
            let from = table.now;
            while table.trusted(&function(1)).is_none() {
                table.tick();
            }
            table.now - from
        };
        assert_eq!((rest(&mut table), rest(&mut table)), (REST, 2 * REST));
        for _ in 0..100 {
            table.judge(&function(1), false);
            table.judge(&function(1), true);
        }
        assert!(table.trusted(&function(1)).is_some(), "right as often as wrong");
    }

    #[test]
    fn what_cannot_be_learned_is_not_tried_for_ever() {
        let mut table = Table::new(TemplateLimits::default());
        assert!(!table.is_worth_a_trace(&function(1), 1));
        table.note(function(1));
        assert!(table.is_worth_a_trace(&function(1), 1) && table.is_worth_a_trace(&function(2), 2));
        table.learn(function(1), &path(0));
        for n in 0..u64::from(MAX_BARREN) {
            assert!(table.is_worth_a_trace(&function(1), 1));
            table.learn(function(1), &path(1 + n));
        }
        assert!(!table.is_worth_a_trace(&function(1), 9), "paths that part where no formula decides");
    }
}
