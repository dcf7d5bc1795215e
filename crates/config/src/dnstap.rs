//! `[dnstap]`: where replies to clients are sent as dnstap messages.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use toml::{Table, Value};

use super::check::Check;
use super::setting::Setting;
use super::spec::DnstapSpec;

/// `[dnstap]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnstapConfig {
    /// The receiver; `None` if nothing is sent.
    pub output: Option<TapOutput>,
    /// The name of this server in each message; empty for none.
    pub identity: String,
}

/// A receiver of frame streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapOutput {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address with port, over TCP.
    Tcp(SocketAddr),
}

impl fmt::Display for TapOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// Validates the table.
pub(super) fn dnstap(spec: DnstapSpec, check: &mut Check) -> DnstapConfig {
    DnstapConfig {
        output: output(spec.output, check),
        identity: check.client_text(spec.identity).unwrap_or_default(),
    }
}

fn output(setting: Setting<String>, check: &mut Check) -> Option<TapOutput> {
    let span: Range<usize> = setting.span()?;
    let text = check.take(setting).filter(|text| !text.is_empty())?;
    let unix = text.strip_prefix("unix:").filter(|path| !path.is_empty());
    let tcp = text.strip_prefix("tcp://").and_then(|address| address.parse().ok());
    let found = unix.map(|path| TapOutput::Unix(check.path(path))).or(tcp.map(TapOutput::Tcp));
    if found.is_none() {
        check.fault(
            span,
            format!(
                "expected \"unix:PATH\", \"tcp://ADDRESS:PORT\", or \"\" to turn it off; found \
                 {text:?}"
            ),
        );
    }
    found
}

/// Returns the table in the syntax of the configuration file.
pub(super) fn shown(dnstap: &DnstapConfig) -> Table {
    let output = dnstap.output.as_ref().map(ToString::to_string).unwrap_or_default();
    let entries: [(&str, Value); 2] =
        [("output", output.into()), ("identity", dnstap.identity.clone().into())];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
