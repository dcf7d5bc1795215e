//! Client addresses in dnstap and traces: concealed as in the query log, by the `privacy` of each
//! client.

use std::net::IpAddr;

use avocet_config::Config;
use avocet_config::privacy::Privacy;
use avocet_querylog::{Concealment, Privacy as LogPrivacy};

use crate::query_log::files::pseudonym_key;

/// Conceals the addresses of clients.
pub(super) struct Concealed {
    /// Truncates addresses; needs no key.
    truncation: Concealment,
    /// The cipher for pseudonyms; `None` until the first address, and without a key.
    pseudonyms: Option<Concealment>,
}

impl Concealed {
    /// Creates a value without a key.
    pub(super) fn new() -> Self {
        Self { truncation: Concealment::new(&[0; 16]), pseudonyms: None }
    }

    /// Returns the address of a client as a message or a trace may show it.
    pub(super) fn shown(
        &mut self,
        config: &Config,
        client: IpAddr,
        privacy: Privacy,
    ) -> Option<IpAddr> {
        match privacy {
            Privacy::Full | Privacy::NoNames => Some(client),
            Privacy::Truncated => self.truncation.shown(client, LogPrivacy::Truncated),
            Privacy::Pseudonym => {
                if self.pseudonyms.is_none() {
                    // Without a key, pseudonyms cannot be made, and the address is omitted.
                    let directory = config.query_log.directory_in(&config.data.directory);
                    let key = pseudonym_key(&directory).ok()?;
                    self.pseudonyms = Some(Concealment::new(&key));
                }
                self.pseudonyms.as_ref()?.shown(client, LogPrivacy::Pseudonym)
            }
            Privacy::Off => None,
        }
    }
}
