//! Two threads for a search that visits many chunks.

use std::panic::resume_unwind;
use std::thread;

/// Threads of a search: the smallest machines have two cores, and the others answer queries.
pub(super) const THREADS: usize = 2;

/// Does the work for each item, all at the same time, and returns the results in order.
pub(super) fn together<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let Some((first, others)) = items.split_first() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = others.iter().map(|item| scope.spawn(move || work(item))).collect();
        let mut results = vec![work(first)];
        let joined = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.extend(joined);
        results
    })
}
