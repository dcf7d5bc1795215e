//! Fetches the text of a list from other servers. Other code checks and stores it.
//!
//! A server may take minutes to send a text, so this code runs on a separate thread, without the
//! store.

use avocet_config::policy::{ListConfig, ListSource};

use crate::lists::copies::Copy;
use crate::lists::fetch::{BOUNDS, Fetcher, Lookup};
use crate::lists::source::Failure;
use crate::lists::store::{Pulled, PulledText, Taking, source_text};
use crate::lists::zone::{HeldCopy, ZonePrimaries};
use crate::running::Running;
use crate::trace::own_questions;

/// Fetches the text of a list from its servers. `known` is the copy of the list.
///
/// # Errors
/// There is no text, or it is incomplete.
pub(super) fn pull(
    running: &Running,
    list: &ListConfig,
    known: Option<Copy>,
    taking: Taking,
) -> Result<Pulled, Failure> {
    match &list.source {
        ListSource::Url(url) => {
            let shared = running.shared.clone();
            let lookup: Lookup = Box::new(move |host| own_questions::addresses(&shared, host));
            let known = known.map(|copy| copy.head);
            // A text that was held back has no copy, and thus no validators: it is fetched again.
            let fetched = Fetcher::new(lookup, BOUNDS).fetch(url, known.as_ref());
            Ok(Pulled { known, taking, text: PulledText::Url(fetched.map_err(Failure::Fetch)?) })
        }
        ListSource::Zone(zone) => {
            let state = running.shared.snapshot();
            let is_closed = || running.lists.is_closed();
            let primaries =
                ZonePrimaries { list: zone, config: &state.config, is_closed: &is_closed };
            let known = known.filter(|copy| copy.head.source == source_text(list));
            // A forced refresh transfers the whole zone, even with an older serial.
            let judged = known.as_ref().filter(|_| taking == Taking::Judged);
            let held = judged.and_then(|copy| HeldCopy::of(copy.text(), primaries.apex()));
            let fetched = primaries.fetch(held.as_ref()).map_err(Failure::Transfer)?;
            let known = known.map(|copy| copy.head);
            Ok(Pulled { known, taking, text: PulledText::Zone(fetched) })
        }
        ListSource::File(path) => Err(Failure::File(format!("{} is a file", path.display()))),
    }
}
