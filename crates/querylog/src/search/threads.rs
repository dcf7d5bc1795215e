//! Two threads for searches that visit many chunks.

use std::panic::resume_unwind;
use std::thread;

/// Number of threads of a search. The smallest machines have two cores; on larger ones, the other
/// cores answer queries.
pub(super) const THREADS: usize = 2;

/// Does the work for all items at the same time. Returns the results in the order of the items.
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
