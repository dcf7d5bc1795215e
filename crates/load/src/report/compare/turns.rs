//! Comparison of two sides whose runs took turns. Each later run is paired with the earlier run
//! next to it.
//!
//! Each pair yields the logarithm of the ratio of its later value to its earlier value. The
//! difference is the median of the averages of any two such logarithms (the Hodges-Lehmann
//! estimator for one sample). The number of averages above zero is Wilcoxon's signed-rank
//! statistic.

use super::{Report, Rise};

/// Returns the pairs of runs that are adjacent in time, the earlier side first. Returns `None` if
/// the sides did not take turns.
pub(super) fn pairs<'a>(
    earlier: &'a [Report],
    later: &'a [Report],
) -> Option<Vec<(&'a Report, &'a Report)>> {
    let by_time = |runs: &'a [Report]| {
        let mut runs: Vec<&Report> = runs.iter().collect();
        runs.sort_by_key(|run| run.started_unix_secs);
        runs
    };
    let pairs: Vec<_> = by_time(earlier).into_iter().zip(by_time(later)).collect();
    let start = |run: &Report| run.started_unix_secs;
    let ends = |(a, b): &(&Report, &Report)| (start(a).min(start(b)), start(a).max(start(b)));
    let has_times = ends(pairs.first()?).1 < ends(pairs.last()?).0;
    let alternate = pairs.windows(2).all(|two| ends(&two[0]).1 <= ends(&two[1]).0);
    (earlier.len() == later.len() && has_times && alternate).then_some(pairs)
}

/// Returns the increase of `figure` in the later runs, or `None` if the figure of a run is missing
/// or zero.
pub(super) fn rise<'a>(
    pairs: &[(&'a Report, &'a Report)],
    figure: impl Fn(&'a Report) -> Option<f64>,
) -> Option<Rise> {
    let positive = |run| figure(run).filter(|value| *value > 0.0);
    let ratio = |&(earlier, later): &(&'a Report, &'a Report)| {
        Some((positive(later)? / positive(earlier)?).ln())
    };
    let ratios = pairs.iter().map(ratio).collect::<Option<Vec<f64>>>()?;
    let mut averages: Vec<f64> = (0..ratios.len())
        .flat_map(|i| {
            ratios[i..].iter().map(|other| f64::midpoint(ratios[i], *other)).collect::<Vec<_>>()
        })
        .collect();
    averages.sort_unstable_by(f64::total_cmp);
    let (n, count) = (ratios.len() as f64, averages.len() as f64);
    let share =
        |holds: fn(&f64) -> bool| averages.iter().copied().filter(holds).count() as f64 / count;
    let (below, above) = ((averages.len() - 1) / 2, averages.len() / 2);
    Some(Rise {
        share: f64::midpoint(averages[below], averages[above]).exp_m1(),
        up: share(|average| *average > 0.0),
        down: share(|average| *average < 0.0),
        deviation: (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt() / count,
    })
}
