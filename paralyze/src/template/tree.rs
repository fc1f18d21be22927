//! A template: all paths that were seen through one function of one code, merged where they agree.

use alloy_primitives::U256;
use phalanx_access::Access;
use phalanx_symbolic::{CallKind, Nodes, Ref, Region, heap};
use revm::primitives::map::HashMap;

/// Blocks of one template.
const MAX_BLOCKS: usize = 1024;

/// Formulas of one template.
const MAX_NODES: usize = 3072;

/// Bytes of one template.
const MAX_BYTES: usize = 1 << 19;

/// Effect of a frame.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Touches a slot of its own storage.
    Slot {
        slot: Ref,
        access: Access,
    },
    /// Looks at an account.
    Account {
        address: Ref,
        access: Access,
    },
    Call(Call),
    /// No formula says how the frame goes on.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    /// Account whose code runs.
    pub(crate) to: Ref,
    /// Wei that go with it; `None` where the kind has none of its own.
    pub(crate) value: Option<Ref>,
    pub(crate) input: Region,
    /// Access to the account whose code runs.
    pub(crate) access: Access,
    /// True if the caller's balance changed.
    pub(crate) pays: bool,
}

/// A recorded execution of a frame.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) nodes: Nodes,
    pub(crate) events: Vec<Event>,
    pub(crate) leaf: Leaf,
}

#[derive(Debug)]
pub(crate) enum Event {
    Step(Step),
    /// Everything after this depends on `on` being `value`.
    Guard {
        on: Ref,
        value: U256,
    },
}

/// End of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) success: bool,
    pub(crate) output: Region,
}

/// Steps up to where paths part.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    pub(crate) end: End,
}

#[derive(Debug, Default)]
pub(crate) enum End {
    #[default]
    Open,
    /// The value of `on` decides. Where it is a function of the inputs alone it is always asked, and where it says which of
    /// the kept things they mean; otherwise only when two ways are known.
    Switch {
        on: Ref,
        asked: bool,
        arms: Vec<(U256, u32)>,
    },
    Leaf(Leaf),
}

/// Why a path was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The path parts from a known path where no formula decides.
    Conflict,
    /// The template is as large as it may get.
    Full,
}

/// Paths as a tree.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) nodes: Nodes,
    pub(crate) blocks: Vec<Block>,
    bytes: usize,
}

impl Template {
    /// About how much memory it takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.nodes.bytes() + self.bytes
    }

    /// Takes in a path.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) fn insert(&mut self, path: &Path) -> Result<(), Refusal> {
        let guards = path.events.iter().filter(|event| matches!(event, Event::Guard { .. })).count();
        if self.blocks.len() + guards + 1 > MAX_BLOCKS
            || self.nodes.len() + path.nodes.len() > MAX_NODES
            || self.bytes() + path.nodes.bytes() > MAX_BYTES
        {
            return Err(Refusal::Full);
        }
        let mut known = HashMap::default();
        if self.blocks.is_empty() {
            self.open();
        }
        let (mut block, mut place) = (0, 0);
        for event in &path.events {
            match event {
                Event::Step(step) => {
                    let step = self.import(path, step, &mut known);
                    self.step(block, place, step)?;
                    place += 1;
                }
                Event::Guard { on, value } => {
                    let on = self.nodes.import(&path.nodes, *on, &mut known);
                    block = self.guard(block, place, on, *value)?;
                    place = 0;
                }
            }
        }
        let output = self.nodes.import_region(&path.nodes, &path.leaf.output, &mut known);
        let Block { steps, end } = &mut self.blocks[block];
        match end {
            End::Open if steps.len() == place => {
                self.bytes += heap(&output);
                *end = End::Leaf(Leaf { success: path.leaf.success, output });
                Ok(())
            }
            End::Leaf(leaf) if steps.len() == place && leaf.success == path.leaf.success => Ok(()),
            _ => Err(Refusal::Conflict),
        }
    }

    fn open(&mut self) -> usize {
        self.bytes += size_of::<Block>();
        self.blocks.push(Block::default());
        self.blocks.len() - 1
    }

    fn import(&mut self, path: &Path, step: &Step, known: &mut HashMap<Ref, Ref>) -> Step {
        let nodes = &mut self.nodes;
        let mut import = |at: Ref| nodes.import(&path.nodes, at, known);
        match step {
            Step::Slot { slot, access } => Step::Slot { slot: import(*slot), access: *access },
            Step::Account { address, access } => Step::Account { address: import(*address), access: *access },
            Step::Lost => Step::Lost,
            Step::Call(call) => {
                let (to, value) = (import(call.to), call.value.map(import));
                Step::Call(Call { to, value, input: nodes.import_region(&path.nodes, &call.input, known), ..*call })
            }
        }
    }

    /// Puts a step at `place` of a block, or joins it with the same step there.
    fn step(&mut self, block: usize, place: usize, step: Step) -> Result<(), Refusal> {
        let Block { steps, end } = &mut self.blocks[block];
        match steps.get_mut(place) {
            Some(held) => join(held, &step).then_some(()).ok_or(Refusal::Conflict),
            None if matches!(end, End::Open) => {
                self.bytes += size_of::<Step>() + if let Step::Call(call) = &step { heap(&call.input) } else { 0 };
                steps.push(step);
                Ok(())
            }
            None => Err(Refusal::Conflict),
        }
    }

    /// The block behind a guard.
    fn guard(&mut self, block: usize, place: usize, on: Ref, value: U256) -> Result<usize, Refusal> {
        if self.blocks[block].steps.len() != place {
            return Err(Refusal::Conflict);
        }
        let next = self.blocks.len();
        let asked = self.nodes.of_inputs(on) || self.nodes.is_choice(on);
        match &mut self.blocks[block].end {
            end @ End::Open => *end = End::Switch { on, asked, arms: vec![(value, next as u32)] },
            End::Switch { on: held, arms, .. } if *held == on => {
                if let Some((_, known)) = arms.iter().find(|(arm, _)| *arm == value) {
                    return Ok(*known as usize);
                }
                arms.push((value, next as u32));
            }
            _ => return Err(Refusal::Conflict),
        }
        self.bytes += size_of::<(U256, u32)>();
        Ok(self.open())
    }
}

/// Joins the accesses of two steps that are otherwise the same; `false` if they are not.
fn join(held: &mut Step, other: &Step) -> bool {
    match (held, other) {
        (Step::Slot { slot, access }, Step::Slot { slot: b, access: more }) if slot == b => {
            *access = access.join(*more);
        }
        (Step::Account { address, access }, Step::Account { address: b, access: more }) if address == b => {
            *access = access.join(*more);
        }
        (Step::Call(a), Step::Call(b))
            if a.kind == b.kind && a.to == b.to && a.value == b.value && a.input == b.input =>
        {
            a.access = a.access.join(b.access);
            a.pays |= b.pays;
        }
        (Step::Lost, Step::Lost) => {}
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Read, Write};
    use phalanx_symbolic::Node;

    /// A path through `if (input(4)) touch slot 1 else touch slot 2`, then slot 3.
    fn path(taken: bool, access: Access) -> Path {
        let mut nodes = Nodes::default();
        let four = nodes.constant(U256::from(4));
        let on = nodes.intern(Node::Input(four));
        let mut slot = |n: u64| Event::Step(Step::Slot { slot: nodes.constant(U256::from(n)), access });
        let events = vec![slot(0), slot(if taken { 1 } else { 2 }), slot(3)];
        let mut events = events.into_iter();
        let first = events.next().expect("three");
        let guard = Event::Guard { on, value: U256::from(u8::from(taken)) };
        let events = [first, guard].into_iter().chain(events).collect();
        Path { nodes, events, leaf: Leaf { success: true, output: Region::default() } }
    }

    #[test]
    fn paths_share_what_comes_before_they_part() {
        let mut template = Template::default();
        for (taken, access) in [(true, Read), (true, Read), (false, Write), (true, Read)] {
            template.insert(&path(taken, access)).expect("explained by the guard");
        }
        assert_eq!(template.blocks.len(), 3);
        let End::Switch { arms, asked, .. } = &template.blocks[0].end else { panic!("paths part") };
        assert_eq!((arms.len(), *asked), (2, true));
        assert!(matches!(template.blocks[0].steps[..], [Step::Slot { access: Write, .. }]), "accesses are joined");
        assert!(matches!(template.blocks[1].steps[..], [Step::Slot { access: Read, .. }, Step::Slot { .. }]));
    }

    #[test]
    fn a_path_that_no_formula_explains_is_refused() {
        let mut template = Template::default();
        template.insert(&path(true, Read)).expect("the first");
        let mut other = path(true, Read);
        other.events.pop();
        assert_eq!(template.insert(&other), Err(Refusal::Conflict));
        template.insert(&path(true, Read)).expect("the first is still there");
    }

    #[test]
    fn a_template_stays_small() {
        let mut template = Template::default();
        let mut taken = 0;
        for n in 0..100_000u64 {
            let mut path = path(true, Read);
            let Event::Guard { value, .. } = &mut path.events[1] else { panic!("a guard") };
            *value = U256::from(n);
            match template.insert(&path) {
                Ok(()) => taken += 1,
                Err(refusal) => assert_eq!(refusal, Refusal::Full),
            }
        }
        assert!((100..MAX_BLOCKS).contains(&taken), "{taken}");
        assert!(template.bytes() < MAX_BYTES);
    }
}
