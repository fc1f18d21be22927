//! Rayon where there is work for more than one thread, a plain loop where there is not: handing a small block to other
//! threads costs more than hashing it. Results do not depend on which of the two ran.

use rayon::prelude::*;

/// Whether work of this many nanoseconds is worth sharing here and now.
pub(crate) fn worth(nanos: usize) -> bool {
    is_much(nanos) && rayon::current_num_threads() > 1
}

/// Whether it is where there are threads to share it. Waking workers and waiting for them takes about ten microseconds.
pub(crate) const fn is_much(nanos: usize) -> bool {
    nanos >= 50_000
}

/// Maps `items` in order; `nanos` is about what one takes.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], nanos: usize, f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    if worth(items.len() * nanos) { items.par_iter().map(f).collect() } else { items.iter().map(f).collect() }
}

/// Maps `0..len` in order; `nanos` is about what one takes.
pub(crate) fn map_range<R: Send>(len: usize, nanos: usize, f: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
    if worth(len * nanos) { (0..len).into_par_iter().map(f).collect() } else { (0..len).map(f).collect() }
}
