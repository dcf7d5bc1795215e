//! Two threads for searches that visit many chunks.

use std::panic::resume_unwind;
use std::thread;

/// Number of threads that work on one search. The smallest supported machines have two cores; on
/// larger ones, the other cores stay free to answer queries.
pub(super) const THREADS: usize = 2;

/// Applies `work` to the items on several threads. Returns the results in the order of the items.
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
