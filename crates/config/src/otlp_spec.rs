//! The keys of `[otlp]` and `[[trace]]` in the file.

use std::borrow::Cow;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::error::SettingError;
use super::name::Name;
use super::outcome::OutcomeKind;
use super::setting::{FromText, Int, List, Raw, Setting, Text, Value};

/// The table `[otlp]`: the export of traces to a collector of OpenTelemetry.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct OtlpSpec {
    /// URL of the collector, such as "http://127.0.0.1:4318". The server sends traces to the path
    /// /v1/traces below this URL. "" exports nothing.
    #[schemars(extend("default" = ""))]
    pub(super) endpoint: Setting<String>,
    /// Encoding of the requests to the collector: "protobuf" or "json".
    #[schemars(extend("default" = "protobuf"))]
    pub(super) encoding: Setting<Text<OtlpEncoding>>,
    /// File with header fields for each request to the collector, one on each line, such as
    /// "Authorization: Bearer SECRET"; "" adds none.
    #[schemars(extend("default" = ""))]
    pub(super) headers_file: Setting<String>,
    /// File with the certificates of the authorities that may issue the certificate of the
    /// collector, in PEM form; "" trusts the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// Name of this server in each trace.
    #[schemars(extend("default" = "avocet"))]
    pub(super) service_name: Setting<String>,
    /// Share of all queries with an exported trace, from 0 to 1, chosen at random.
    #[schemars(extend("default" = 0.0))]
    pub(super) sample_share: Setting<Share>,
    /// Maximum number of exported traces per second.
    #[schemars(extend("default" = 100))]
    pub(super) per_second: Setting<Int<1, 100_000>>,
}

/// A table `[[trace]]`: a selection of queries with an exported trace. A query must meet all
/// conditions of the table.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct TraceSpec {
    /// Name of the selection, which its traces contain.
    pub(super) name: Setting<String>,
    /// Names: only queries for these names and the names below them are selected. By default, all
    /// names.
    #[schemars(extend("default" = []))]
    pub(super) names: Setting<List<Text<Name>>>,
    /// Addresses and networks: only queries of these clients are selected. By default, all clients.
    #[schemars(extend("default" = []))]
    pub(super) clients: Setting<List<Text<IpNet>>>,
    /// Outcomes such as "failed": only queries with these outcomes are selected. By default, all
    /// outcomes.
    #[schemars(extend("default" = []))]
    pub(super) outcomes: Setting<List<Text<OutcomeKind>>>,
    /// Shortest time to the answer in milliseconds: only queries that take at least this time are
    /// selected.
    #[schemars(extend("default" = 0))]
    pub(super) slower_than_ms: Setting<Int<0, 60_000>>,
    /// Share of the queries that meet the conditions, from 0 to 1: only this share is selected, at
    /// random.
    #[schemars(extend("default" = 1.0))]
    pub(super) share: Setting<Share>,
}

/// The encoding of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtlpEncoding {
    /// Protocol buffers.
    #[default]
    Protobuf,
    /// JSON.
    Json,
}

impl OtlpEncoding {
    /// Returns the word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Protobuf => "protobuf",
            Self::Json => "json",
        }
    }
}

impl FromText for OtlpEncoding {
    const EXPECTED: &'static str = "\"protobuf\" or \"json\"";
    const CHOICES: &'static [&'static str] = &["protobuf", "json"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "protobuf" => Ok(Self::Protobuf),
            "json" => Ok(Self::Json),
            _ => Err(None),
        }
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(pub(super) f64);

impl Value for Share {
    fn expected() -> String {
        "a number from 0 to 1, such as 0.001".to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        let share = match raw {
            Raw::Fraction(share) => *share,
            Raw::Integer(0) => 0.0,
            Raw::Integer(1) => 1.0,
            _ => return Err(Self::mismatch(raw)),
        };
        let is_share = (0.0..=1.0).contains(&share);
        if is_share { Ok(Self(share)) } else { Err(Self::mismatch(raw)) }
    }
}

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}
