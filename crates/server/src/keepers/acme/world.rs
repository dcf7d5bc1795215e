//! Implements [`World`] for the server: requests over HTTPS, names resolved by this server, and
//! proofs on its listeners.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use avocet_acme::{
    AlpnCertificate, AuthorityRequest, AuthorityResponse, ChallengeKind, MAX_AUTHORITY_BODY,
    PresentFault, Proof, Silence, Stopped, World, alpn_certificate,
};
use avocet_config::acme::AcmeConfig;
use avocet_io::file::read_regular;
use avocet_session::trust::authority_certificates;
use thiserror::Error;
use ureq::Agent;
use ureq::http::HeaderMap;
use ureq::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};

use super::dns01::ProofRecords;
use super::http01::ProofListener;
use crate::lists::fetch::{Bounds, agent_for_authority};
use crate::running::Running;
use crate::trace::own_questions;
use avocet_worker::certificates::MAX_PEM;

/// The limits of one request.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(30),
    connect: Duration::from_secs(10),
    octets: MAX_AUTHORITY_BODY as u64,
};

/// The reason why no request to the authority can be made.
#[derive(Debug, Error)]
pub(super) enum WorldFault {
    #[error("[acme] ca: {} cannot be read: {}", .0.display(), .1)]
    Ca(PathBuf, io::Error),
}

/// The [`World`] of one attempt of the running server.
pub(super) struct RunningWorld<'r> {
    running: &'r Running,
    config: &'r AcmeConfig,
    agent: Agent,
    listener: Option<ProofListener>,
    records: ProofRecords<'r>,
}

impl<'r> RunningWorld<'r> {
    pub(super) fn new(running: &'r Running, config: &'r AcmeConfig) -> Result<Self, WorldFault> {
        let authorities = match &config.ca {
            None => None,
            Some(path) => {
                let read =
                    read_regular(path, MAX_PEM).and_then(|octets| authority_certificates(&octets));
                Some(read.map_err(|error| WorldFault::Ca(path.clone(), error))?)
            }
        };
        let shared = running.shared.clone();
        let lookup = Box::new(move |host: &str| {
            // Tests and private networks use an address as the host of the authority.
            match host.parse::<IpAddr>() {
                Ok(address) => Ok(vec![address]),
                Err(_) => own_questions::addresses(&shared, host),
            }
        });
        let agent = agent_for_authority(lookup, BOUNDS, authorities.as_deref());
        let records = ProofRecords::of(running, config);
        Ok(Self { running, config, agent, listener: None, records })
    }
}

impl World for RunningWorld<'_> {
    fn exchange(&mut self, request: &AuthorityRequest) -> Result<AuthorityResponse, Silence> {
        let silent = |reason: String| Silence { url: request.url.clone(), reason };
        let response = match &request.body {
            None => self.agent.get(&request.url).call(),
            Some(body) => self
                .agent
                .post(&request.url)
                .header(CONTENT_TYPE, "application/jose+json")
                .send(&body[..]),
        };
        let mut response = response.map_err(|error| silent(error.to_string()))?;
        let headers = response.headers();
        let parsed = AuthorityResponse {
            status: response.status().as_u16(),
            nonce: text(headers, "replay-nonce"),
            location: text(headers, LOCATION.as_str()),
            retry_after_secs: text(headers, RETRY_AFTER.as_str())
                .and_then(|text| text.parse().ok()),
            body: Vec::new(),
        };
        let body = response.body_mut().with_config().limit(BOUNDS.octets).read_to_vec();
        let body = body.map_err(|error| silent(error.to_string()))?;
        Ok(AuthorityResponse { body, ..parsed })
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        super::wait(self.running, self.config, time)
    }

    fn present(&mut self, proof: &Proof) -> Result<(), PresentFault> {
        match proof.kind {
            ChallengeKind::Http01 => {
                let proofs = &self.running.acme.proofs;
                proofs.put(proof.clone());
                if self.listener.is_none() {
                    let own = super::http01::own_addresses(self.running);
                    let opened =
                        ProofListener::open(&self.config.http_listen, &own, proofs.clone());
                    self.listener = Some(opened.map_err(|fault| PresentFault(fault.to_string()))?);
                }
                Ok(())
            }
            ChallengeKind::TlsAlpn01 => {
                let fault = |error: &dyn std::fmt::Display| PresentFault(error.to_string());
                let AlpnCertificate { certificate, key } =
                    alpn_certificate(proof).map_err(|error| fault(&error))?;
                let key = key.to_pkcs8().map_err(|error| fault(&error))?;
                let shown = self.running.shared.tls.put_proof(&proof.name, &certificate, &key);
                shown.map_err(|error| fault(&error))
            }
            ChallengeKind::Dns01 => {
                self.records.put(proof).map_err(|fault| PresentFault(fault.to_string()))
            }
        }
    }

    fn withdraw(&mut self) {
        self.running.acme.proofs.clear();
        self.running.shared.tls.clear_proofs();
        self.listener = None;
        self.records.clear();
    }
}

impl Drop for RunningWorld<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
