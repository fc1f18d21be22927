//! Formulas: values of an execution as functions of its inputs, each formula once per recording.
//!
//! Nodes refer to earlier nodes only, so their order is an order in which they can be computed. What depends on something that
//! no formula says is *unknown*, and so is all that is computed from it.

use crate::registers::{Register, Registers};
use alloy_primitives::{Bytes, U256};
use revm::{bytecode::opcode::*, primitives::map::HashMap};

/// Index of a formula among those of its recording.
pub type Ref = Register;

/// The formula of a value; `None` for a value that is the same in every execution of the path.
pub(crate) type Shadow = Option<Ref>;

/// Value of the block or of the transaction's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Env {
    /// Address of the block's beneficiary.
    Beneficiary,
    /// Timestamp of the block.
    Timestamp,
    /// Number of the block.
    Number,
    /// Randomness of the beacon chain; before the Merge, the difficulty.
    PrevRandao,
    /// Gas limit of the block.
    GasLimit,
    /// Base fee of the block.
    BaseFee,
    /// Price that the transaction pays per gas.
    GasPrice,
}

/// A formula over inputs and storage. Operators are opcodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The same value in every execution.
    Const(U256),
    /// Caller of the frame.
    Caller,
    /// Account whose storage the frame works on; in exact recordings, the account that the transaction calls.
    Target,
    /// Sender of the transaction.
    Origin,
    /// Wei that came with the call.
    Value,
    /// Number of bytes of calldata.
    InputLen,
    /// The word of calldata at an offset, with zeros behind the end.
    Input(Ref),
    /// Value of the block or of the transaction's price.
    Env(Env),
    /// A slot of an account, before the transaction; in recordings, of the frame's own.
    Load(Ref, Ref),
    /// First value of a slot, by its number in an exact recording.
    Original(u16),
    /// Gas left at one GAS instruction of an exact recording, by its number.
    Gas(u16),
    /// An operator of one word.
    Unary(u8, Ref),
    /// An operator of two words, the upper word of the stack first.
    Binary(u8, Ref, Ref),
    /// An operator of three words, the uppermost word of the stack first.
    Ternary(u8, [Ref; 3]),
    /// Keccak-256 of bytes.
    Keccak(Region),
    /// 32 bytes put together from pieces.
    Word(Region),
    /// True if a call of this frame, by its number, succeeded.
    Success(u16),
    /// Number of bytes that a call of this frame returned.
    ReturnedLen(u16),
    /// Anything else.
    Unknown,
}

/// Bytes of memory, calldata or return data, piece by piece.
pub type Region = Box<[Piece]>;

/// Bytes of one origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// The same bytes in every execution.
    Raw(Bytes),
    /// `len` bytes of a value, from its byte `from`, the highest being 0.
    Word {
        /// The value.
        node: Ref,
        /// First byte.
        from: u8,
        /// Number of bytes.
        len: u8,
    },
    /// `len` bytes of calldata, `skip` bytes after the offset `at`.
    Input {
        /// Offset in calldata.
        at: Ref,
        /// Bytes after the offset.
        skip: u32,
        /// Number of bytes.
        len: u32,
    },
    /// `len` bytes that a call returned.
    Returned {
        /// Number of the call in its frame.
        call: u16,
        /// First byte.
        from: u32,
        /// Number of bytes.
        len: u32,
    },
    /// `len` bytes that are not followed.
    Unknown {
        /// Number of bytes.
        len: u32,
    },
}

#[expect(clippy::len_without_is_empty, reason = "no piece is empty")]
impl Piece {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Raw(bytes) => bytes.len(),
            Self::Word { len, .. } => usize::from(*len),
            Self::Input { len, .. } | Self::Returned { len, .. } | Self::Unknown { len } => *len as usize,
        }
    }

    /// Returns `take` bytes after the first `drop`, both within the piece.
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

/// Number of bytes of a region.
pub fn region_len(region: &[Piece]) -> usize {
    region.iter().map(Piece::len).sum()
}

/// True if a region is the same in every execution.
pub(crate) fn is_raw(region: &[Piece]) -> bool {
    parts(region) == 0
}

/// Number of pieces that are not constant.
pub fn parts(region: &[Piece]) -> usize {
    region.iter().filter(|piece| !matches!(piece, Piece::Raw(_))).count()
}

/// Appends a piece, joined with the last where both are constant, or neighbouring bytes of one word.
pub fn append(region: &mut Vec<Piece>, piece: Piece) {
    match (region.last_mut(), &piece) {
        (Some(Piece::Raw(held)), Piece::Raw(more)) => *held = [&held[..], &more[..]].concat().into(),
        (Some(Piece::Word { node, from, len }), Piece::Word { node: other, from: next, len: more })
            if node == other && *from + *len == *next =>
        {
            *len += more;
        }
        _ => region.push(piece),
    }
}

/// Returns `len` bytes of a region from byte `from` on, with zeros behind its end.
pub(crate) fn slice(region: &[Piece], from: usize, len: usize) -> Region {
    let (end, mut at, mut filled) = (from.saturating_add(len), 0, from);
    let mut out = Vec::new();
    for piece in region {
        let (first, last) = (from.max(at), end.min(at + piece.len()));
        if first < last {
            append(&mut out, piece.part(first - at, last - first));
            filled = last;
        }
        at += piece.len();
    }
    if filled < end {
        append(&mut out, zeros(end - filled));
    }
    out.into()
}

/// A piece of zeros.
pub fn zeros(len: usize) -> Piece {
    Piece::Raw(vec![0; len].into())
}

/// Bounds of the formulas of one recording; formulas beyond them are unknown.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum nesting, which bounds the stack that evaluating a formula takes.
    pub depth: u16,
    /// Maximum number of formulas.
    pub nodes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { depth: 48, nodes: 4096 }
    }
}

/// Properties of a formula besides its form.
#[derive(Clone, Copy, Debug)]
struct Traits {
    depth: u16,
    /// True if it depends on nothing but the call itself: no storage, no results of calls.
    of_inputs: bool,
    /// True if it takes no hash and no result of a call.
    plain: bool,
}

/// The formulas of a recording, each once.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    bounds: Bounds,
    list: Vec<Node>,
    traits: Vec<Traits>,
    places: HashMap<Node, Ref>,
    bytes: usize,
}

#[expect(clippy::len_without_is_empty, reason = "a recording has formulas")]
impl Nodes {
    /// No formulas yet, within other bounds.
    pub fn within(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Returns the formula at an index.
    #[inline]
    pub fn get(&self, at: Ref) -> &Node {
        &self.list[at as usize]
    }

    /// Number of formulas.
    pub const fn len(&self) -> usize {
        self.list.len()
    }

    /// Registers of a program over these formulas, with the constants in theirs.
    pub fn registers(&self) -> Registers {
        let words = self.list.iter().map(|node| if let Node::Const(value) = node { *value } else { U256::ZERO });
        Registers::from(words.collect::<Vec<_>>())
    }

    /// Bytes of memory that the formulas take, about.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a formula depends on nothing but the call itself: no storage, no results of calls.
    pub fn of_inputs(&self, at: Ref) -> bool {
        self.traits[at as usize].of_inputs
    }

    /// True if a condition compares an input with a value that the contract keeps: `token == token0`, `msg.sender == owner`.
    /// Calls differ in the answer, and it costs no hash to know.
    pub fn is_choice(&self, mut at: Ref) -> bool {
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

    /// Returns the index of a formula, which is unknown if it is nested too deep, or depends on an unknown one.
    pub fn intern(&mut self, node: Node) -> Ref {
        if let Some(at) = self.places.get(&node) {
            return *at;
        }
        let mut traits = Traits { depth: 0, of_inputs: true, plain: true };
        let mut known = self.list.len() < self.bounds.nodes;
        node.visit(&mut |child| {
            let of = self.traits[child as usize];
            known &= !matches!(self.get(child), Node::Unknown);
            traits = Traits {
                depth: traits.depth.max(of.depth.saturating_add(1)),
                of_inputs: traits.of_inputs && of.of_inputs,
                plain: traits.plain && of.plain,
            };
        });
        known &= !node.has_unknown_piece() && traits.depth < self.bounds.depth;
        let outside = matches!(
            node,
            Node::Load(..) | Node::Original(_) | Node::Gas(_) | Node::Success(_) | Node::ReturnedLen(_) | Node::Unknown
        );
        traits.of_inputs &= !outside && !node.has_returned_piece();
        let hard = matches!(node, Node::Keccak(_) | Node::Success(_) | Node::ReturnedLen(_));
        traits.plain &= !hard && !node.has_returned_piece();
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

    /// Returns the index of a formula, if it is there.
    pub fn find(&self, node: &Node) -> Option<Ref> {
        self.places.get(node).copied()
    }

    /// Returns the index of a constant.
    pub fn constant(&mut self, value: U256) -> Ref {
        self.intern(Node::Const(value))
    }

    /// Returns the value of a formula that is a constant.
    pub fn constant_of(&self, at: Ref) -> Option<U256> {
        if let Node::Const(value) = self.get(at) { Some(*value) } else { None }
    }

    /// Number of bits that the value of a formula has at most.
    pub(crate) fn bits(&self, at: Ref) -> usize {
        match self.get(at) {
            Node::Const(value) => value.bit_len(),
            Node::Origin | Node::Target | Node::Env(Env::Beneficiary) => 160,
            Node::Unary(ISZERO, _) | Node::Binary(LT..=EQ, ..) => 1,
            Node::Binary(AND, a, b) => {
                let masks = [*a, *b].into_iter().filter_map(|mask| self.constant_of(mask));
                masks.map(|mask| mask.bit_len()).min().unwrap_or(256)
            }
            Node::Binary(SHR, by, _) => {
                let by = self.constant_of(*by).and_then(|by| usize::try_from(by).ok());
                by.map_or(256, |by| 256usize.saturating_sub(by))
            }
            _ => 256,
        }
    }

    /// Copies a formula of `other`, with all that it is made of. `known` maps formulas that were copied before.
    pub fn import(&mut self, other: &Self, at: Ref, known: &mut HashMap<Ref, Ref>) -> Ref {
        if let Some(at) = known.get(&at) {
            return *at;
        }
        let mut import = |child: Ref| self.import(other, child, known);
        let node = match other.get(at) {
            Node::Input(a) => Node::Input(import(*a)),
            Node::Load(a, b) => Node::Load(import(*a), import(*b)),
            Node::Unary(op, a) => Node::Unary(*op, import(*a)),
            Node::Binary(op, a, b) => Node::Binary(*op, import(*a), import(*b)),
            Node::Ternary(op, all) => Node::Ternary(*op, all.map(import)),
            Node::Keccak(region) => Node::Keccak(rename(region, import)),
            Node::Word(region) => Node::Word(rename(region, import)),
            node => node.clone(),
        };
        let here = self.intern(node);
        known.insert(at, here);
        here
    }

    /// Copies the formulas of a region.
    pub fn import_region(&mut self, other: &Self, region: &[Piece], known: &mut HashMap<Ref, Ref>) -> Region {
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
    /// Calls `see` with every formula that this formula is made of.
    pub fn visit(&self, see: &mut impl FnMut(Ref)) {
        match self {
            Self::Input(a) | Self::Unary(_, a) => see(*a),
            Self::Load(a, b) | Self::Binary(_, a, b) => {
                see(*a);
                see(*b);
            }
            Self::Ternary(_, all) => all.iter().copied().for_each(see),
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

/// Bytes of memory that a region takes.
pub fn heap(region: &[Piece]) -> usize {
    let raw = |piece: &Piece| if let Piece::Raw(bytes) = piece { bytes.len() } else { 0 };
    size_of_val(region) + region.iter().map(raw).sum::<usize>()
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
        let load = nodes.intern(Node::Load(caller, sum));
        assert!(nodes.of_inputs(sum) && !nodes.of_inputs(load));
        let input = nodes.intern(Node::Input(one));
        let hash = nodes.intern(Node::Keccak([Piece::Word { node: input, from: 0, len: 32 }].into()));
        let hashed = nodes.intern(Node::Load(caller, hash));
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
        for _ in 0..u32::from(Bounds::default().depth) + 2 {
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
        let load = from.intern(Node::Load(caller, hash));
        let mut known = HashMap::default();
        let there = to.import(&from, load, &mut known);
        assert_eq!(there, to.import(&from, load, &mut HashMap::default()));
        let Node::Load(_, hash) = to.get(there) else { panic!("a load") };
        let Node::Keccak(region) = to.get(*hash) else { panic!("a hash") };
        let Piece::Word { node, .. } = region[0] else { panic!("a word") };
        assert_eq!(*to.get(node), Node::Caller);
    }
}
