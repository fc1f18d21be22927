//! What is remembered of the ways that transactions of one shape take: the same code called with the same value and as much
//! calldata. Most guards at the head of a function ask no more than that, and most calls of it have one shape.

use super::straight::Straight;
use crate::template::tree::Template;
use alloy_primitives::U256;

/// Shapes that are remembered at a time.
const MAX_SHAPES: usize = 8;

/// How often a shape's straight way is made anew because a transaction parted from it.
const MAX_TRIES: u8 = 4;

/// The ways of one shape.
struct Shape<'a> {
    template: &'a Template,
    value: U256,
    len: usize,
    /// By block, one more than the block that follows; zero if that is not known yet, or not the same for all.
    next: Vec<u32>,
    /// The blocks after the first that the last transaction went through.
    path: Vec<u32>,
    /// Whether `path` leads through one frame to its end.
    is_whole: bool,
    straight: Option<Box<Straight>>,
    tries: u8,
}

/// The ways of the shapes that came lately.
#[derive(Default)]
pub(super) struct Ways<'a> {
    shapes: Vec<Shape<'a>>,
    /// Of the running transaction.
    now: usize,
}

impl<'a> Ways<'a> {
    /// A transaction of this shape comes. Gives the straight way of those before it, to be put back.
    pub(super) fn begin(&mut self, template: &'a Template, value: U256, len: usize) -> Option<Box<Straight>> {
        let same = |of: &Shape<'_>| core::ptr::eq(of.template, template) && of.len == len && of.value == value;
        match self.shapes.iter().position(same) {
            Some(at) => self.now = at,
            None => {
                let (next, path) = (vec![0; template.blocks.len()], Vec::new());
                let shape = Shape { template, value, len, next, path, is_whole: false, straight: None, tries: 0 };
                if self.shapes.len() < MAX_SHAPES {
                    self.now = self.shapes.len();
                    self.shapes.push(shape);
                } else {
                    self.now = (self.now + 1) % MAX_SHAPES;
                    self.shapes[self.now] = shape;
                }
            }
        }
        let shape = &mut self.shapes[self.now];
        if shape.straight.is_none() && shape.is_whole && shape.tries < MAX_TRIES {
            shape.tries += 1;
            shape.straight = Straight::new(template, &shape.path, value, len).map(Box::new);
        }
        shape.path.clear();
        shape.is_whole = false;
        shape.straight.take()
    }

    /// Puts back what [`Self::begin`] gave. Who parted from it shows the way to the next.
    pub(super) fn put_back(&mut self, straight: Box<Straight>, was_followed: bool) {
        let shape = &mut self.shapes[self.now];
        if was_followed || shape.tries >= MAX_TRIES {
            shape.straight = Some(straight);
        }
    }

    /// The block behind `block`, if it is the same for the shape.
    pub(super) fn next(&mut self, block: usize) -> Option<usize> {
        let shape = &mut self.shapes[self.now];
        let next = shape.next[block].checked_sub(1)?;
        shape.path.push(next);
        Some(next as usize)
    }

    /// The transaction goes from `block` to `next`, as all of its shape do if that is `kept`.
    pub(super) fn go(&mut self, block: usize, next: usize, kept: bool) {
        let shape = &mut self.shapes[self.now];
        if kept {
            shape.next[block] = next as u32 + 1;
        }
        shape.path.push(next as u32);
    }

    /// The transaction has ended, and `path` is all of it or not.
    pub(super) fn end(&mut self, is_whole: bool) {
        self.shapes[self.now].is_whole = is_whole;
    }
}
