//! Answers the questions of the HTTP interface about the configuration and the network.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_config::oidc::OidcConfig;
use avocet_control::access::{Role, Secret};
use avocet_web::Surroundings;
use avocet_web::host::{HostOwner, owner_of};
use avocet_web::oidc::{OidcSettings, ProviderRequest, ProviderResponse, ProviderSilence};
use avocet_wire::FoldedNameBuf;
use avocet_wire::name::MAX_NAME;
use avocet_wire::special_purpose::Scope;
use hyper::HeaderMap;

use super::provider::ProviderClient;
use crate::running::Running;

/// The running server, in the form that the HTTP interface uses.
pub(super) struct RunningSurroundings {
    running: Arc<Running>,
    provider: ProviderClient,
}

impl RunningSurroundings {
    pub(super) fn new(running: Arc<Running>) -> Self {
        Self { running, provider: ProviderClient::default() }
    }
}

impl Surroundings for RunningSurroundings {
    fn is_known_host(&self, name: &str) -> bool {
        is_known_host(name, &self.running)
    }

    fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        let state = self.running.shared.snapshot();
        state.config.web.trusted_proxies.iter().any(|network| network.contains(&address))
    }

    fn is_local(&self, address: IpAddr) -> bool {
        Scope::Local.contains(address)
    }

    fn oidc(&self) -> Option<OidcSettings> {
        let state = self.running.shared.snapshot();
        state.config.oidc.clone().map(settings)
    }

    fn ask_provider(&self, request: &ProviderRequest) -> Result<ProviderResponse, ProviderSilence> {
        self.provider.ask(&self.running, request)
    }
}

fn settings(oidc: OidcConfig) -> OidcSettings {
    let roles = [
        (Role::Admin, oidc.admins),
        (Role::Operator, oidc.operators),
        (Role::Viewer, oidc.viewers),
    ];
    OidcSettings {
        issuer: oidc.issuer,
        client_id: oidc.client_id,
        client_secret: oidc.client_secret.map(Secret::new),
        public_url: oidc.public_url,
        scopes: oidc.scopes,
        name_claim: oidc.name_claim,
        role_claim: oidc.role_claim,
        roles: roles.into(),
    }
}

/// Returns the owner of the name that a request is for.
pub(super) fn owner_of_host(headers: &HeaderMap, running: &Running) -> HostOwner {
    owner_of(headers, |name| is_known_host(name, running))
}

/// Returns whether a name is configured as one of this server, or has a local record.
fn is_known_host(name: &str, running: &Running) -> bool {
    let state = running.shared.snapshot();
    let is_record = || text_to_name(name).is_some_and(|name| state.names.local.has(name.view()));
    state.config.server.http_names.iter().any(|known| known == name) || is_record()
}

fn text_to_name(text: &str) -> Option<FoldedNameBuf> {
    let mut wire = [0; MAX_NAME];
    let len = avocet_wire::text::name_to_wire(text.as_bytes(), Some(&[0]), &mut wire).ok()?;
    FoldedNameBuf::from_wire(wire.get(..len)?).ok()
}
