//! Rayon where there is work for more than one thread, a plain loop where there is not: handing a small block to other
//! threads costs more than hashing it. Results do not depend on which of the two ran.
//!
//! Left alone, rayon cuts work in about as many pieces as are sure to be used, some per thread. Whoever becomes idle while
//! the last of them is under way waits for milliseconds, so work is cut as small as is cheap.

use rayon::prelude::*;

/// Whether work of this many nanoseconds is worth sharing. Waking workers and waiting for them takes about ten
/// microseconds.
pub(crate) fn worth(nanos: usize) -> bool {
    nanos >= 50_000 && rayon::current_num_threads() > 1
}

/// Work of about so many nanoseconds is not cut any further.
const LEAF: usize = 50_000;

const fn leaf(nanos: usize) -> usize {
    let items = LEAF / if nanos == 0 { 1 } else { nanos };
    if items == 0 { 1 } else { items }
}

/// Maps `items` in order; `nanos` is about what one takes.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], nanos: usize, f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    if worth(items.len() * nanos) {
        items.par_iter().with_max_len(leaf(nanos)).map(f).collect()
    } else {
        items.iter().map(f).collect()
    }
}

/// Maps `0..len` in order; `nanos` is about what one takes.
pub(crate) fn map_range<R: Send>(len: usize, nanos: usize, f: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
    if worth(len * nanos) {
        (0..len).into_par_iter().with_max_len(leaf(nanos)).map(f).collect()
    } else {
        (0..len).map(f).collect()
    }
}
