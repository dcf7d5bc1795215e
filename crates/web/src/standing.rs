//! Whether the author of a request may still read its reply, if the reply takes long.

use std::sync::Arc;

use avocet_control::access::Secret;

use crate::access::{Access, Principal};
use crate::caller::Surroundings;

/// The author of a request with a long reply, whose rights may end meanwhile.
pub(crate) struct Standing {
    pub(crate) access: Arc<Access>,
    pub(crate) surroundings: Arc<dyn Surroundings>,
    pub(crate) author: Principal,
    /// The identifier of the author's session.
    pub(crate) session: Option<Secret>,
}

impl Standing {
    /// Returns whether the token or session is in force with the same rights. This does not count
    /// as a use of the session, so a stream does not keep it alive.
    pub(crate) fn holds(&self) -> bool {
        end_foreign_sessions(&self.access, &*self.surroundings);
        let present = self.access.present(&self.author, self.session.as_ref());
        present.as_ref() == Some(&self.author)
    }
}

/// Ends the sessions that were begun by a provider other than the configured one.
pub(crate) fn end_foreign_sessions(access: &Access, surroundings: &dyn Surroundings) {
    let provider = surroundings.oidc().map(|settings| settings.identity());
    access.end_sessions_of_others_than(provider.as_deref());
}
