//! Reads and shows the keys of a `[[forward]]` for the proofs that its servers with TLS must
//! provide.

use std::mem;
use std::path::PathBuf;

use data_encoding::BASE64;
use toml::{Table, Value};

use super::certificate_files::CertificateFiles;
use super::check::Check;
use super::discover::Discovery;
use super::setting::{List, Setting, Text};
use super::spec::ForwardSpec;
use super::upstream_tls::{AnnouncedH3, Authentication, HttpsMethod, Pin, UpstreamTls};
use super::{ForwardConfig, Upstream, UpstreamTransport};

/// Maximum number of pins of a rule.
const MAX_PINS: usize = 64;

/// The transports that a rule may use: those of its servers, and all encrypted transports if the
/// servers may designate others.
#[derive(Clone, Copy)]
pub(super) struct UsedTransports<'u> {
    pub(super) upstreams: &'u [Upstream],
    pub(super) discover: Discovery,
}

impl UsedTransports<'_> {
    /// Returns whether a transport that the rule may use passes the test.
    fn any(self, holds: impl Fn(UpstreamTransport) -> bool) -> bool {
        let mut written = self.upstreams.iter().map(|one| one.transport);
        let discovers = |transport: UpstreamTransport| {
            self.discover != Discovery::Off && !transport.is_encrypted()
        };
        written.any(|transport| holds(transport) || discovers(transport))
    }
}

/// Reads the keys of a rule about TLS.
pub(super) fn read(
    spec: &mut ForwardSpec,
    used: UsedTransports<'_>,
    check: &mut Check,
) -> UpstreamTls {
    let [ca_at, pins_at, client_at, authentication_at] =
        [spec.ca.span(), spec.pins.span(), spec.client_cert.span(), spec.authentication.span()];
    let authentication =
        check.take(mem::take(&mut spec.authentication)).map_or_else(Default::default, |one| one.0);
    let tls = UpstreamTls {
        authentication,
        ca: check.optional_path(mem::take(&mut spec.ca)),
        pins: pins(mem::take(&mut spec.pins), check),
        client: client_files(
            mem::take(&mut spec.client_cert),
            mem::take(&mut spec.client_key),
            check,
        ),
    };
    let is_lax = tls.authentication == Authentication::Opportunistic;
    let (has_ca, has_pins) = (tls.ca.is_some(), !tls.pins.is_empty());
    let proof = ca_at.clone().filter(|_| has_ca).or(pins_at.clone().filter(|_| has_pins));
    if let Some(at) = proof.filter(|_| is_lax) {
        let message = "authentication = \"opportunistic\" accepts each certificate; remove it, or \
                       `ca` and `pins`";
        check.fault(at, message);
    }
    let set = [
        ("ca", ca_at, has_ca),
        ("pins", pins_at, has_pins),
        ("client-cert", client_at, tls.client.is_some()),
        ("authentication", authentication_at, is_lax),
    ];
    if !used.any(UpstreamTransport::is_encrypted) {
        for (key, at, _) in set.into_iter().filter(|(.., is_set)| *is_set) {
            let message = format!("`{key}` has no effect: no server of the rule is encrypted");
            check.doubt(at.unwrap_or_default(), message);
        }
    }
    tls
}

/// Reads the method of requests to servers with HTTPS.
pub(super) fn https_method(
    spec: &mut ForwardSpec,
    used: UsedTransports<'_>,
    check: &mut Check,
) -> HttpsMethod {
    let at = spec.https_method.span();
    let method =
        check.take(mem::take(&mut spec.https_method)).map_or_else(Default::default, |one| one.0);
    if let Some(at) = at.filter(|_| method != HttpsMethod::default())
        && !used.any(UpstreamTransport::is_http)
    {
        check.doubt(at, "`https-method` has no effect: no server has https:// or h3://".to_owned());
    }
    method
}

/// Reads how the server uses HTTP/3 that servers with HTTPS announce.
pub(super) fn h3(
    spec: &mut ForwardSpec,
    used: UsedTransports<'_>,
    check: &mut Check,
) -> AnnouncedH3 {
    let at = spec.h3.span();
    let h3 = check.take(mem::take(&mut spec.h3)).map_or_else(Default::default, |one| one.0);
    if let Some(at) = at.filter(|_| h3 != AnnouncedH3::default())
        && !used.any(|transport| transport == UpstreamTransport::Https)
    {
        check.doubt(at, "`h3` has no effect: no server has https://".to_owned());
    }
    h3
}

/// Reads the pins. Each server must have a key that matches one of them.
pub(super) fn pins(setting: Setting<List<Text<Pin>>>, check: &mut Check) -> Vec<Pin> {
    let span = setting.span();
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    if let Some(at) = span.filter(|_| items.len() > MAX_PINS) {
        check.fault(at, format!("more than {MAX_PINS} pins"));
    }
    items.into_iter().map(|item| item.into_inner().0).collect()
}

/// Reads the client certificate that this server shows to other servers.
pub(super) fn client_files(
    chain: Setting<String>,
    key: Setting<String>,
    check: &mut Check,
) -> Option<CertificateFiles> {
    let (chain_at, key_at) = (chain.span(), key.span());
    let (chain, key) = (check.optional_secret(chain), check.optional_secret(key));
    match (chain, key) {
        (Some(chain), Some(key)) => Some(CertificateFiles { chain, key }),
        (None, None) => None,
        (Some(_), None) => {
            check.fault(chain_at.unwrap_or_default(), "`client-cert` needs `client-key`");
            None
        }
        (None, Some(_)) => {
            check.fault(key_at.unwrap_or_default(), "`client-key` needs `client-cert`");
            None
        }
    }
}

/// Adds the keys to the table of a rule, in the syntax of the configuration file.
pub(super) fn show(rule: &ForwardConfig, out: &mut Table) {
    let tls = &rule.tls;
    let authentication = match tls.authentication {
        Authentication::Strict => "strict",
        Authentication::Opportunistic => "opportunistic",
    };
    let https_method = match rule.https_method {
        HttpsMethod::Get => "get",
        HttpsMethod::Post => "post",
    };
    let h3 = match rule.h3 {
        AnnouncedH3::Auto => "auto",
        AnnouncedH3::Off => "off",
    };
    let bootstrap = rule.bootstrap.iter().map(|server| Value::from(server.to_string()));
    let shown = [
        ("authentication", authentication.into()),
        ("https-method", https_method.into()),
        ("h3", h3.into()),
        ("discover", rule.discover.word().into()),
        ("bootstrap", Value::Array(bootstrap.collect())),
    ];
    out.extend(shown.map(|(key, value)| (key.to_owned(), value)));
    out.extend(shown_proof(tls));
}

/// Returns the keys for the proofs that servers must provide, and for the certificate that this
/// server presents.
pub(super) fn shown_proof(tls: &UpstreamTls) -> [(String, Value); 4] {
    let path = |path: Option<&PathBuf>| {
        Value::from(path.map_or_else(String::new, |path| path.to_string_lossy().into_owned()))
    };
    let pins = tls.pins.iter().map(|pin| Value::from(BASE64.encode(&pin.0)));
    let client = tls.client.as_ref();
    [
        ("ca".to_owned(), path(tls.ca.as_ref())),
        ("pins".to_owned(), Value::Array(pins.collect())),
        ("client-cert".to_owned(), path(client.map(|files| &files.chain))),
        ("client-key".to_owned(), path(client.map(|files| &files.key))),
    ]
}
