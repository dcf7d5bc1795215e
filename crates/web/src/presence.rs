//! Whether the client of a request still waits for the reply. A request that only reads ends early
//! if its client has disconnected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use avocet_control::Disconnected;

/// The presence of a client, for the thread that works on its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    is_gone: Arc<AtomicBool>,
}

/// The client of a request that is being served. The connection owns this value and drops it when
/// the reply is complete or the client has disconnected.
#[derive(Debug)]
pub(crate) struct WaitingClient {
    presence: Presence,
}

impl Presence {
    /// Returns the client, until whose drop [`check`](Self::check) succeeds.
    pub(crate) fn begin(&self) -> WaitingClient {
        WaitingClient { presence: self.clone() }
    }

    /// Checks whether the client still waits.
    ///
    /// # Errors
    /// The client has disconnected.
    pub(crate) fn check(&self) -> Result<(), Disconnected> {
        match self.is_gone.load(Ordering::Relaxed) {
            true => Err(Disconnected),
            false => Ok(()),
        }
    }
}

impl Drop for WaitingClient {
    fn drop(&mut self) {
        self.presence.is_gone.store(true, Ordering::Relaxed);
    }
}
