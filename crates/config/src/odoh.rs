//! `[odoh]`: Oblivious DNS over HTTPS (RFC 9230).

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;

use super::check::Check;
use super::listen::Protocol;
use super::setting::Setting;

/// `[odoh]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct OdohSpec {
    /// Answer oblivious queries, which come through proxies of other operators, at all addresses
    /// with https://.
    #[schemars(extend("default" = false))]
    pub(super) target: Setting<bool>,
}

/// The settings of Oblivious DNS over HTTPS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OdohConfig {
    /// Whether the server is a target.
    pub target: bool,
}

/// Checks `[odoh]`. `served` are the protocols of the addresses of the server.
pub(super) fn odoh(
    spec: OdohSpec,
    mut served: impl Iterator<Item = Protocol>,
    check: &mut Check,
) -> OdohConfig {
    let at = spec.target.span();
    let target = check.take(spec.target).unwrap_or(false);
    if let Some(at) = at.filter(|_| target)
        && !served.any(|protocol| protocol == Protocol::Https)
    {
        check.doubt(at, "`target` has no effect: no address has https://".to_owned());
    }
    OdohConfig { target }
}

/// Returns the table with the settings in force.
pub(super) fn shown(odoh: OdohConfig) -> Table {
    [("target".to_owned(), odoh.target.into())].into_iter().collect()
}
