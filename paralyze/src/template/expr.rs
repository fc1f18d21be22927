//! Formulas: what a value of a call frame is made of.

use alloy_primitives::{B256, Bytes, U256};
use revm::{bytecode::opcode::*, primitives::map::HashMap};

/// A formula's place among those of its frame.
pub(crate) type Ref = u32;

/// Formulas nested deeper than this count as unknown, so that evaluating one takes a bounded stack.
const MAX_DEPTH: u8 = 48;

/// Formulas of one frame that are told apart; what comes after counts as unknown.
const MAX_NODES: usize = 4096;

/// What the block's environment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Env {
    Beneficiary,
    Timestamp,
    Number,
    PrevRandao,
    GasLimit,
    BaseFee,
    /// The price that the transaction pays per gas.
    GasPrice,
}

/// A formula over a frame's inputs and the storage. Operators are opcodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Const(U256),
    /// Who calls.
    Caller,
    /// Whose storage the frame works on.
    Target,
    Origin,
    /// Wei that came with the call.
    Value,
    InputLen,
    /// The word of calldata at an offset.
    Input(Ref),
    Env(Env),
    /// A slot of the frame's own storage, before the transaction.
    Load(Ref),
    Unary(u8, Ref),
    Binary(u8, Ref, Ref),
    Keccak(Region),
    /// 32 bytes put together from pieces.
    Word(Region),
    /// Whether a call of this frame, by its number, succeeded.
    Success(u16),
    /// How many bytes it returned.
    ReturnedLen(u16),
    /// Anything else.
    Unknown,
}

/// Bytes of memory, calldata or return data, piece by piece.
pub(crate) type Region = Box<[Piece]>;

/// Some bytes that have one origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    /// The same in every execution.
    Raw(Bytes),
    /// `len` bytes of a value, from its byte `from`, the highest being 0.
    Word { node: Ref, from: u8, len: u8 },
    /// `len` bytes of calldata, `skip` bytes after the offset `at`.
    Input { at: Ref, skip: u32, len: u32 },
    /// `len` bytes of what a call returned.
    Returned { call: u16, from: u32, len: u32 },
    /// `len` bytes that are not followed.
    Unknown { len: u32 },
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Raw(bytes) => bytes.len(),
            Self::Word { len, .. } => usize::from(*len),
            Self::Input { len, .. } | Self::Returned { len, .. } | Self::Unknown { len } => *len as usize,
        }
    }

    /// `take` bytes of it after the first `drop`, both within it.
    pub(crate) fn part(&self, drop: usize, take: usize) -> Self {
        let (d, t) = (drop as u32, take as u32);
        match self {
            Self::Raw(bytes) => Self::Raw(bytes.slice(drop..drop + take)),
            Self::Word { node, from, .. } => Self::Word { node: *node, from: from + drop as u8, len: take as u8 },
            Self::Input { at, skip, .. } => Self::Input { at: *at, skip: skip.saturating_add(d), len: t },
            Self::Returned { call, from, .. } => Self::Returned { call: *call, from: from.saturating_add(d), len: t },
            Self::Unknown { .. } => Self::Unknown { len: t },
        }
    }
}

pub(crate) fn region_len(region: &[Piece]) -> usize {
    region.iter().map(Piece::len).sum()
}

/// What is known of a formula besides its form.
#[derive(Clone, Copy, Debug)]
struct Traits {
    depth: u8,
    /// It depends on nothing but the call itself: no storage, no results of calls.
    of_inputs: bool,
    /// It takes no hash and no result of a call.
    plain: bool,
    /// It depends on nothing but the value that came with the call and the length of its calldata.
    of_shape: bool,
}

/// The formulas of a frame, each of them once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    traits: Vec<Traits>,
    places: HashMap<Node, Ref>,
    bytes: usize,
}

impl Nodes {
    #[inline]
    pub(crate) fn get(&self, at: Ref) -> &Node {
        &self.list[at as usize]
    }

    pub(crate) const fn len(&self) -> usize {
        self.list.len()
    }

    /// About how much memory they take.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn of_inputs(&self, at: Ref) -> bool {
        self.traits[at as usize].of_inputs
    }

    /// Whether calls with the same value and as much calldata agree on it.
    pub(crate) fn of_shape(&self, at: Ref) -> bool {
        self.traits[at as usize].of_shape
    }

    /// Whether a condition tells which of the things that the contract keeps the caller means: `token == token0`,
    /// `msg.sender == owner`. Calls differ in the answer, and it costs no hash to know.
    pub(crate) fn is_choice(&self, mut at: Ref) -> bool {
        while let Node::Unary(ISZERO, inner) = self.get(at) {
            at = *inner;
        }
        // Equal is what differs by nothing.
        let Node::Binary(EQ | SUB | XOR, a, b) = *self.get(at) else { return false };
        let means = |given: Ref, kept: Ref| {
            let (given_traits, kept) = (self.traits[given as usize], self.traits[kept as usize]);
            given_traits.of_inputs && !matches!(self.get(given), Node::Const(_)) && !kept.of_inputs && kept.plain
        };
        means(a, b) || means(b, a)
    }

    /// The place of `node`. What is nested too deep, or depends on what is unknown, is unknown.
    pub(crate) fn intern(&mut self, node: Node) -> Ref {
        if let Some(at) = self.places.get(&node) {
            return *at;
        }
        let mut traits = Traits { depth: 0, of_inputs: true, plain: true, of_shape: true };
        let mut known = self.list.len() < MAX_NODES;
        node.visit(&mut |child| {
            let of = self.traits[child as usize];
            known &= !matches!(self.get(child), Node::Unknown);
            traits = Traits {
                depth: traits.depth.max(of.depth + 1),
                of_inputs: traits.of_inputs && of.of_inputs,
                plain: traits.plain && of.plain,
                of_shape: traits.of_shape && of.of_shape,
            };
        });
        known &= !node.has_unknown_piece() && traits.depth < MAX_DEPTH;
        let outside = matches!(node, Node::Load(_) | Node::Success(_) | Node::ReturnedLen(_) | Node::Unknown);
        traits.of_inputs &= !outside && !node.has_returned_piece();
        let hard = matches!(node, Node::Keccak(_) | Node::Success(_) | Node::ReturnedLen(_));
        traits.plain &= !hard && !node.has_returned_piece();
        traits.of_shape &=
            matches!(node, Node::Const(_) | Node::Value | Node::InputLen | Node::Unary(..) | Node::Binary(..));
        if !known && node != Node::Unknown {
            return self.intern(Node::Unknown);
        }
        let at = self.list.len() as Ref;
        // Twice: in the list and as a key.
        self.bytes += 2 * (size_of::<Node>() + node.heap()) + 16;
        self.list.push(node.clone());
        self.traits.push(traits);
        self.places.insert(node, at);
        at
    }

    pub(crate) fn constant(&mut self, value: U256) -> Ref {
        self.intern(Node::Const(value))
    }

    /// Takes over a formula of `other`. `known` holds what was taken over before.
    pub(crate) fn import(&mut self, other: &Self, at: Ref, known: &mut HashMap<Ref, Ref>) -> Ref {
        if let Some(at) = known.get(&at) {
            return *at;
        }
        let mut import = |child: Ref| self.import(other, child, known);
        let node = match other.get(at) {
            Node::Input(a) => Node::Input(import(*a)),
            Node::Load(a) => Node::Load(import(*a)),
            Node::Unary(op, a) => Node::Unary(*op, import(*a)),
            Node::Binary(op, a, b) => Node::Binary(*op, import(*a), import(*b)),
            Node::Keccak(region) => Node::Keccak(rename(region, import)),
            Node::Word(region) => Node::Word(rename(region, import)),
            node => node.clone(),
        };
        let here = self.intern(node);
        known.insert(at, here);
        here
    }

    /// Takes over the formulas of a region.
    pub(crate) fn import_region(&mut self, other: &Self, region: &[Piece], known: &mut HashMap<Ref, Ref>) -> Region {
        rename(region, |child| self.import(other, child, known))
    }
}

fn rename(region: &[Piece], mut to: impl FnMut(Ref) -> Ref) -> Region {
    let piece = |piece: &Piece| match piece {
        Piece::Word { node, from, len } => Piece::Word { node: to(*node), from: *from, len: *len },
        Piece::Input { at, skip, len } => Piece::Input { at: to(*at), skip: *skip, len: *len },
        piece => piece.clone(),
    };
    region.iter().map(piece).collect()
}

impl Node {
    fn visit(&self, see: &mut impl FnMut(Ref)) {
        match self {
            Self::Input(a) | Self::Load(a) | Self::Unary(_, a) => see(*a),
            Self::Binary(_, a, b) => {
                see(*a);
                see(*b);
            }
            Self::Keccak(region) | Self::Word(region) => {
                for piece in region {
                    if let Piece::Word { node: at, .. } | Piece::Input { at, .. } = piece {
                        see(*at);
                    }
                }
            }
            _ => {}
        }
    }

    fn pieces(&self) -> &[Piece] {
        if let Self::Keccak(region) | Self::Word(region) = self { region } else { &[] }
    }

    fn has_unknown_piece(&self) -> bool {
        self.pieces().iter().any(|piece| matches!(piece, Piece::Unknown { .. }))
    }

    fn has_returned_piece(&self) -> bool {
        self.pieces().iter().any(|piece| matches!(piece, Piece::Returned { .. }))
    }

    fn heap(&self) -> usize {
        heap(self.pieces())
    }
}

/// Bytes that a region keeps outside itself.
pub(crate) fn heap(region: &[Piece]) -> usize {
    let raw = |piece: &Piece| if let Piece::Raw(bytes) = piece { bytes.len() } else { 0 };
    size_of_val(region) + region.iter().map(raw).sum::<usize>()
}

/// A hash as the word that the EVM sees.
pub(crate) fn word(hash: B256) -> U256 {
    hash.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_formulas_are_one_and_unknown_swallows_all() {
        let mut nodes = Nodes::default();
        let (caller, one) = (nodes.intern(Node::Caller), nodes.constant(U256::ONE));
        let sum = nodes.intern(Node::Binary(ADD, caller, one));
        assert_eq!(sum, nodes.intern(Node::Binary(ADD, caller, one)));
        let unknown = nodes.intern(Node::Unknown);
        assert_eq!(nodes.intern(Node::Binary(ADD, sum, unknown)), unknown);
        assert_eq!(nodes.intern(Node::Keccak([Piece::Unknown { len: 32 }].into())), unknown);
        let load = nodes.intern(Node::Load(sum));
        assert!(nodes.of_inputs(sum) && !nodes.of_inputs(load));
        let (value, len) = (nodes.intern(Node::Value), nodes.intern(Node::InputLen));
        let long = nodes.intern(Node::Binary(LT, len, one));
        let input = nodes.intern(Node::Input(one));
        let first = nodes.intern(Node::Binary(LT, input, value));
        assert!([value, long, one].iter().all(|at| nodes.of_shape(*at)));
        assert!([caller, input, first, load, unknown].iter().all(|at| !nodes.of_shape(*at)));
        let hash = nodes.intern(Node::Keccak([Piece::Word { node: input, from: 0, len: 32 }].into()));
        let hashed = nodes.intern(Node::Load(hash));
        for (op, a, b, choice) in [
            (EQ, input, load, true),
            (SUB, load, input, true),
            (LT, input, load, false),
            (EQ, input, caller, false),
            (EQ, one, load, false),
            (EQ, input, hashed, false),
        ] {
            let same = nodes.intern(Node::Binary(op, a, b));
            let not = nodes.intern(Node::Unary(ISZERO, same));
            assert_eq!((nodes.is_choice(same), nodes.is_choice(not)), (choice, choice), "{op:#x} {a} {b}");
        }
        let mut deep = caller;
        for _ in 0..u32::from(MAX_DEPTH) + 2 {
            deep = nodes.intern(Node::Binary(ADD, deep, one));
        }
        assert_eq!(deep, unknown, "nested too deep");
    }

    #[test]
    fn formulas_move_with_all_that_they_are_made_of() {
        let (mut from, mut to) = (Nodes::default(), Nodes::default());
        to.intern(Node::Origin);
        let caller = from.intern(Node::Caller);
        let word = Piece::Word { node: caller, from: 0, len: 32 };
        let hash = from.intern(Node::Keccak([word, Piece::Raw(Bytes::from(vec![0; 32]))].into()));
        let load = from.intern(Node::Load(hash));
        let mut known = HashMap::default();
        let there = to.import(&from, load, &mut known);
        assert_eq!(there, to.import(&from, load, &mut HashMap::default()));
        let Node::Load(hash) = to.get(there) else { panic!("a load") };
        let Node::Keccak(region) = to.get(*hash) else { panic!("a hash") };
        let Piece::Word { node, .. } = region[0] else { panic!("a word") };
        assert_eq!(*to.get(node), Node::Caller);
    }
}
