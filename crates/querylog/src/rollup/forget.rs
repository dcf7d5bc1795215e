//! Removes entries from roll-ups when a user deletes the entries. Roll-ups still count the entries
//! that retention deletes.

use std::sync::Arc;

use super::{Period, Ranking, Rollups};
use crate::search::Filter;

impl Rollups {
    /// Removes deleted entries from the counts, as far as possible. A filter without conditions
    /// removes the periods inside its time range. A condition on names or clients removes these
    /// texts from the tops. All other counts stay the same. Deleted times of clients are also
    /// removed.
    pub(crate) fn forget(&mut self, deleted: &Filter) {
        Arc::make_mut(&mut self.seen).forget(deleted);
        for period in Period::ALL {
            let is_inside = |start_us: u64| {
                deleted.time_us.start <= start_us
                    && start_us.saturating_add(period.us()) <= deleted.time_us.end
            };
            let periods = &mut self.periods[period as usize];
            if deleted.conditions.is_empty() {
                periods.retain(|totals| !is_inside(totals.start_us));
                continue;
            }
            for totals in periods.iter_mut().filter(|totals| is_inside(totals.start_us)) {
                let tops = &mut Arc::make_mut(totals).tops;
                for ranking in Ranking::ALL {
                    let Some(column) = ranking.column() else { continue };
                    tops[ranking as usize].remove(|text| deleted.implies(column, text));
                }
            }
        }
    }
}
