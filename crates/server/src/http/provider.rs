//! Requests to the OpenID Connect provider of the configuration. Names are resolved by this server,
//! and private addresses are allowed, because the configuration names the provider.

use std::sync::OnceLock;
use std::time::Duration;

use avocet_web::oidc::{ProviderRequest, ProviderResponse, ProviderSilence};
use ureq::Agent;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};

use crate::lists::fetch::{Bounds, agent_for_configured};
use crate::running::Running;
use crate::trace::own_questions;

/// The limits of one request. They are short, because a browser waits for it.
const BOUNDS: Bounds =
    Bounds { time: Duration::from_secs(10), connect: Duration::from_secs(5), octets: 512 << 10 };

/// The client of the provider.
#[derive(Default)]
pub(super) struct ProviderClient(OnceLock<Agent>);

impl ProviderClient {
    /// Sends a request and waits for the response. The client follows no redirect.
    ///
    /// # Errors
    /// There is no response, or it is too large.
    pub(super) fn ask(
        &self,
        running: &Running,
        request: &ProviderRequest,
    ) -> Result<ProviderResponse, ProviderSilence> {
        let agent = self.0.get_or_init(|| {
            let shared = running.shared.clone();
            let lookup = Box::new(move |host: &str| own_questions::addresses(&shared, host));
            agent_for_configured(lookup, BOUNDS)
        });
        let silent = |error: ureq::Error| ProviderSilence(format!("{}: {error}", request.url));
        let authorization = request.authorization.as_ref().map(|one| one.reveal().to_owned());
        let response = match &request.form {
            None => {
                let mut get = agent.get(&request.url).header(ACCEPT, "application/json");
                if let Some(authorization) = authorization {
                    get = get.header(AUTHORIZATION, authorization);
                }
                get.call()
            }
            Some(form) => {
                let mut post = agent
                    .post(&request.url)
                    .header(ACCEPT, "application/json")
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                if let Some(authorization) = authorization {
                    post = post.header(AUTHORIZATION, authorization);
                }
                post.send(form.reveal())
            }
        };
        let mut response = response.map_err(silent)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BOUNDS.octets).read_to_vec();
        Ok(ProviderResponse { status, body: body.map_err(silent)? })
    }
}
