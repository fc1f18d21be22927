//! Straight lines of the transactions of one shape: the same code, called with the same value and as much calldata.

use super::straight::Straight;
use crate::template::tree::Template;
use alloy_primitives::U256;

/// Shapes that are remembered at a time.
const MAX_SHAPES: usize = 8;

/// Straight lines of a shape, and walks after which there are no more.
const MAX_LINES: usize = 4;
const MAX_WALKS: u8 = 12;

/// The walk of a shape from which on lines are laid: it takes as long as some walks.
const LAID_FROM: u8 = 2;

/// The ways of one shape.
struct Shape<'a> {
    template: &'a Template,
    value: U256,
    len: usize,
    /// The one that was followed last is first.
    lines: Vec<Straight>,
    /// Transactions that parted from all lines.
    walks: u8,
}

/// The ways of the shapes that came lately.
#[derive(Default)]
pub(super) struct Ways<'a> {
    shapes: Vec<Shape<'a>>,
    /// Shape of the running transaction.
    now: usize,
}

impl<'a> Ways<'a> {
    /// A transaction of this shape comes. Gives the straight lines of those before it, to be put back.
    pub(super) fn begin(&mut self, template: &'a Template, value: U256, len: usize) -> Vec<Straight> {
        let same = |of: &Shape<'_>| core::ptr::eq(of.template, template) && of.len == len && of.value == value;
        match self.shapes.iter().position(same) {
            Some(at) => self.now = at,
            None => {
                let shape = Shape { template, value, len, lines: Vec::new(), walks: 0 };
                if self.shapes.len() < MAX_SHAPES {
                    self.now = self.shapes.len();
                    self.shapes.push(shape);
                } else {
                    self.now = (self.now + 1) % MAX_SHAPES;
                    self.shapes[self.now] = shape;
                }
            }
        }
        core::mem::take(&mut self.shapes[self.now].lines)
    }

    /// Puts back what [`Self::begin`] gave, one of which was followed.
    pub(super) fn put_back(&mut self, mut lines: Vec<Straight>, followed: Option<usize>) {
        if let Some(followed) = followed {
            lines[..=followed].rotate_right(1);
        }
        self.shapes[self.now].lines = lines;
    }

    /// The transaction was walked. Whether its way is to be laid out as a line.
    pub(super) fn is_worth_a_line(&mut self) -> bool {
        let Shape { lines, walks, .. } = &mut self.shapes[self.now];
        *walks = walks.saturating_add(1);
        lines.len() < MAX_LINES && (LAID_FROM..MAX_WALKS).contains(walks)
    }

    /// Takes in the line of the last transaction, if it has one.
    pub(super) fn add(&mut self, line: Option<Straight>) {
        self.shapes[self.now].lines.extend(line);
    }
}
