//! The state that a process reads when it has taken over the data directory: what has changed since
//! the process read it for the first time.

use std::path::Path;
use std::sync::Arc;

use avocet_config::Config;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::snapshot::Unconfigured;
use avocet_worker::state::Shared;

use crate::running::catalogs::write_catalogs;
use crate::running::persist::CacheFile;
use crate::running::trust::KeptTrust;
use crate::running::{Running, switches};

/// Whether the configuration in force has the text of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConfigText {
    /// The text is in force.
    InForce,
    /// The file has another valid text, which an earlier process put in force.
    Newer,
}

/// Fills the caches from disk before this process owns the data directory. Returns the trust
/// anchors on which the contents of the caches depend.
pub(crate) fn load_caches_early(
    directory: &Path,
    shared: &Shared,
    unconfigured: Unconfigured,
) -> Unconfigured {
    let trust = Arc::new(KeptTrust::load(directory, shared).learnt());
    let unconfigured = Unconfigured { trust, ..unconfigured };
    let state = shared.snapshot();
    match state.replaced(state.config.clone(), &unconfigured, state.parts.clone()) {
        Ok(snapshot) => shared.replace(snapshot),
        Err(error) => tracing::error!(%error, "cannot apply the trust anchors"),
    }
    CacheFile::new(directory).load(shared);
    unconfigured
}

impl Running {
    /// Puts the state in force that another process may have changed until it released the data
    /// directory: zones, trust anchors, pauses, grants, members of catalogs and the configuration.
    pub(super) fn begin_as_successor(&self, text: ConfigText) {
        let ended = self.begin_trust();
        self.drop_below(&ended);
        let config = self.shared.snapshot().config.clone();
        write_catalogs(&config.zones);
        self.reloader.begin_zones(&config.zones);
        let saved = switches::load(&config.data.directory, wall_secs());
        if self.shared.snapshot().parts.switches != saved
            && let Err(error) = self.reloader.change_policy(|parts| parts.switches = saved)
        {
            tracing::error!(%error, "cannot apply pauses and grants");
        }
        let mut present = Config::clone(&config);
        self.reloader.catalogs.extend(&mut present);
        if present.zones != config.zones || text == ConfigText::Newer {
            // The reload itself logs its errors.
            drop(self.reloader.reload());
        }
    }
}
