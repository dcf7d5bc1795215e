//! Tests of the protocol with an authority that checks each request and can fail at each step.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use avocet_acme::renewal::{Window, identifier, window};
use avocet_acme::{
    Account, AccountKey, AcmeError, AlpnCertificate, Authority, AuthorityRequest,
    AuthorityResponse, ChallengeKind, Issued, MAX_AUTHORITY_BODY, PresentFault, Proof, Silence,
    Stopped, Wanted, World, alpn_certificate, obtain,
};
use avocet_testkit::authority::{Answered, Asked, AuthorityFault, TestAuthority};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

const BASE: &str = "https://ca.example";
const DIRECTORY: &str = "https://ca.example/directory";
const NOW: u64 = 1_800_000_000;

/// A [`World`] in which waiting takes no time.
struct Virtual {
    authority: TestAuthority,
    shown: Arc<Mutex<Vec<Proof>>>,
    waited: Duration,
    /// The number of requests after which the network fails.
    requests_left: usize,
    requests: usize,
    /// Whether the server ends at the next wait.
    is_stopped: bool,
}

impl Virtual {
    fn new() -> Self {
        let shown: Arc<Mutex<Vec<Proof>>> = Arc::default();
        let seen = shown.clone();
        let authority = TestAuthority::new(BASE, NOW, move |sought| {
            let seen = seen.lock().unwrap();
            seen.iter().any(|proof| {
                proof.kind.text() == sought.kind
                    && proof.name == sought.name
                    && proof.token == sought.token
                    && proof.authorization == sought.authorization
            })
        });
        Self {
            authority,
            shown,
            waited: Duration::ZERO,
            requests_left: usize::MAX,
            requests: 0,
            is_stopped: false,
        }
    }

    fn failing(faults: &[AuthorityFault]) -> Self {
        let mut world = Self::new();
        world.authority.faults.extend(faults);
        world
    }

    fn obtain(&mut self, account: &mut Account, wanted: &Wanted<'_>) -> Result<Issued, AcmeError> {
        Authority::open(self, DIRECTORY)
            .and_then(|mut authority| obtain(&mut authority, account, wanted))
    }
}

impl World for Virtual {
    fn exchange(&mut self, request: &AuthorityRequest) -> Result<AuthorityResponse, Silence> {
        self.requests += 1;
        if self.requests_left == 0 {
            let reason = "connection refused".to_owned();
            return Err(Silence { url: request.url.clone(), reason });
        }
        self.requests_left -= 1;
        let asked = Asked { url: &request.url, body: request.body.as_deref() };
        let Answered { status, mut fields, body } = self.authority.respond(asked);
        let retry_after_secs = fields.remove("retry-after").and_then(|text| text.parse().ok());
        Ok(AuthorityResponse {
            status,
            nonce: fields.remove("replay-nonce"),
            location: fields.remove("location"),
            retry_after_secs,
            body,
        })
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        self.waited += time;
        if self.is_stopped { Err(Stopped) } else { Ok(()) }
    }

    fn present(&mut self, proof: &Proof) -> Result<(), PresentFault> {
        self.shown.lock().unwrap().push(proof.clone());
        Ok(())
    }

    fn withdraw(&mut self) {
        self.shown.lock().unwrap().clear();
    }
}

fn account() -> Account {
    Account { key: AccountKey::draw().unwrap(), url: None }
}

fn names() -> Vec<String> {
    vec!["dns.example".to_owned(), "www.dns.example".to_owned()]
}

fn wanted(names: &[String]) -> Wanted<'_> {
    let challenge = ChallengeKind::Http01;
    Wanted { names, challenge, email: Some("ops@example.org"), replaces: None }
}

/// Checks that a chain in PEM leads to the authority and has the names, and that the key belongs to
/// the certificate.
fn verify(world: &Virtual, issued: &Issued, names: &[String]) {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(issued.chain.as_bytes()).collect::<Result<_, _>>().unwrap();
    let root = CertificateDer::from(world.authority.root());
    let anchor = webpki::anchor_from_trusted_cert(&root).unwrap();
    let leaf = webpki::EndEntityCert::try_from(&chain[0]).unwrap();
    let algorithms =
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    leaf.verify_for_usage(
        algorithms.all,
        &[anchor],
        &chain[1..],
        UnixTime::since_unix_epoch(Duration::from_secs(NOW + 60)),
        webpki::KeyUsage::server_auth(),
        None,
        None,
    )
    .unwrap();
    assert!(leaf.valid_dns_names().eq(names.iter().map(String::as_str)));
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
}

/// Returns the error of an attempt at an authority with this fault, and the state of the world
/// after it.
fn refused(fault: AuthorityFault) -> (String, AcmeError, Virtual) {
    let mut world = Virtual::failing(&[fault]);
    let error = world.obtain(&mut account(), &wanted(&names())).err().unwrap();
    assert!(world.shown.lock().unwrap().is_empty(), "{fault:?}: a proof stays");
    (error.to_string(), error, world)
}

#[test]
fn a_certificate_is_issued_and_renewed_by_each_kind_of_challenge() {
    for challenge in [ChallengeKind::Http01, ChallengeKind::TlsAlpn01, ChallengeKind::Dns01] {
        let (mut world, mut account, names) = (Virtual::new(), account(), names());
        world.authority.window = Some([NOW + 100, NOW + 200]);
        let first = wanted(&names);
        let issued = world.obtain(&mut account, &Wanted { challenge, ..first }).unwrap();
        verify(&world, &issued, &names);
        assert!(account.url.is_some());

        let leaf = CertificateDer::from_pem_slice(issued.chain.as_bytes()).unwrap();
        let id = identifier(&leaf).unwrap();
        let mut authority = Authority::open(&mut world, DIRECTORY).unwrap();
        let expected = Window { start: NOW + 100, end: NOW + 200, again_secs: 21_600 };
        assert_eq!(window(&mut authority, &id).unwrap(), Some(expected));
        let renewed = Wanted { replaces: Some(&id), ..wanted(&names) };
        let issued = world.obtain(&mut account, &renewed).unwrap();
        verify(&world, &issued, &names);
        assert_eq!((&world.authority.replaced[..], world.authority.ordered), (&[id][..], 2));
        assert_eq!(world.authority.accounts(), 1, "the account is used again");
    }
}

#[test]
fn nonces_that_the_authority_refuses_are_replaced() {
    use AuthorityFault::{NoNonce, Nonce};
    let mut world = Virtual::failing(&[NoNonce, Nonce, Nonce]);
    world.obtain(&mut account(), &wanted(&names())).unwrap();
    let mut world = Virtual::failing(&[Nonce; 8]);
    let error = world.obtain(&mut account(), &wanted(&names())).err().unwrap().to_string();
    assert!(error.contains("badNonce"), "{error}");
    assert!(world.requests < 10, "{}", world.requests);
}

#[test]
fn a_forgotten_account_is_created_again() {
    let (mut world, mut account, names) = (Virtual::new(), account(), names());
    world.obtain(&mut account, &wanted(&names)).unwrap();
    let url = account.url.clone();
    world.authority.faults.push_back(AuthorityFault::Account);
    world.obtain(&mut account, &wanted(&names)).unwrap();
    assert_ne!(account.url, url);
}

#[test]
fn an_order_that_may_not_replace_another_certificate_is_placed_without_that() {
    let (mut world, names) = (Virtual::failing(&[AuthorityFault::Replaces]), names());
    world.authority.window = Some([NOW, NOW + 1]);
    let replacing = Wanted { replaces: Some("a.b"), ..wanted(&names) };
    world.obtain(&mut account(), &replacing).unwrap();
    assert!(world.authority.replaced.is_empty());
}

#[test]
fn the_reason_of_the_authority_is_in_the_error() {
    let (text, ..) = refused(AuthorityFault::Proof);
    let expected = "the authority does not accept the proof for dns.example (http-01): no proof at \
                    this name (unauthorized)";
    assert_eq!(text, expected);
    let (text, error, _) = refused(AuthorityFault::RateLimit(7_200));
    assert!(text.contains("too many certificates already issued (rateLimited)"), "{text}");
    assert!(error.is_rate_limit() && error.retry_after_secs() == Some(7_200));
    let (text, ..) = refused(AuthorityFault::Expired);
    assert!(text.contains("the order has expired"), "{text}");
}

#[test]
fn texts_that_are_no_responses_end_the_attempt() {
    let (text, ..) = refused(AuthorityFault::Garbage);
    assert!(text.contains("the request for its directory is invalid"), "{text}");
    let (text, _, world) = refused(AuthorityFault::Endless);
    assert!(text.contains("too long"), "{text}");
    assert!(world.requests < 8 && MAX_AUTHORITY_BODY < 8 << 20);
}

#[test]
fn an_authority_that_stalls_is_left_after_minutes() {
    let (text, _, world) = refused(AuthorityFault::Stall);
    assert_eq!(text, "the authority did not complete the certificate in time");
    let minutes = world.waited.as_secs() / 60;
    assert!((5..6).contains(&minutes), "{minutes}");
    assert!(world.requests < 200, "{}", world.requests);
}

#[test]
fn an_attempt_ends_when_the_server_does() {
    let mut world = Virtual::failing(&[AuthorityFault::Stall]);
    world.is_stopped = true;
    let error = world.obtain(&mut account(), &wanted(&names())).err().unwrap();
    assert!(matches!(error, AcmeError::Stopped(_)), "{error}");
}

#[test]
fn a_network_that_fails_at_any_request_leaves_no_proof() {
    let mut complete = Virtual::new();
    complete.obtain(&mut account(), &wanted(&names())).unwrap();
    for left in 0..complete.requests {
        let mut world = Virtual::new();
        world.requests_left = left;
        let error = world.obtain(&mut account(), &wanted(&names())).err().unwrap();
        assert!(error.to_string().ends_with("connection refused"), "{left}: {error}");
        assert!(world.shown.lock().unwrap().is_empty());
    }
}

#[test]
fn each_octet_of_each_response_may_be_wrong() {
    let mut complete = Virtual::new();
    complete.obtain(&mut account(), &wanted(&names())).unwrap();
    for at in 0..complete.requests {
        for damage in [Damage::Cut, Damage::Null, Damage::List, Damage::Nested, Damage::Status] {
            let mut world = Damaged { world: Virtual::new(), at, damage };
            let result = Authority::open(&mut world, DIRECTORY)
                .and_then(|mut all| obtain(&mut all, &mut account(), &wanted(&names())));
            // Of some responses, only the status is read.
            if let Err(error) = result {
                assert!(!error.to_string().is_empty());
            }
            assert!(world.world.requests < 400, "{at}");
        }
    }
}

#[derive(Clone, Copy)]
enum Damage {
    Cut,
    Null,
    List,
    Nested,
    Status,
}

/// A [`World`] in which one response is damaged.
struct Damaged {
    world: Virtual,
    at: usize,
    damage: Damage,
}

impl World for Damaged {
    fn exchange(&mut self, request: &AuthorityRequest) -> Result<AuthorityResponse, Silence> {
        let is_damaged = self.world.requests == self.at;
        let mut response = self.world.exchange(request)?;
        if is_damaged {
            match self.damage {
                Damage::Cut => response.body.truncate(response.body.len() / 2),
                Damage::Null => response.body = b"null".to_vec(),
                Damage::List => response.body = b"[1,{}]".to_vec(),
                Damage::Nested => response.body = vec![b'['; 100_000],
                Damage::Status => {
                    response = AuthorityResponse { status: 500, ..AuthorityResponse::default() }
                }
            }
        }
        Ok(response)
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        self.world.wait(time)
    }

    fn present(&mut self, proof: &Proof) -> Result<(), PresentFault> {
        self.world.present(proof)
    }

    fn withdraw(&mut self) {
        self.world.withdraw();
    }
}

#[test]
fn the_certificate_of_tls_alpn_has_the_name_and_the_digest() {
    let proof = Proof {
        kind: ChallengeKind::TlsAlpn01,
        name: "dns.example".to_owned(),
        token: "abc".to_owned(),
        authorization: "abc.def".to_owned(),
    };
    let AlpnCertificate { certificate, .. } = alpn_certificate(&proof).unwrap();
    let der = CertificateDer::from(certificate.clone());
    // The crate webpki does not know the critical extension, so no client trusts the certificate.
    assert!(webpki::EndEntityCert::try_from(&der).is_err());
    let digest = data_encoding::BASE64URL_NOPAD.decode(proof.record().as_bytes()).unwrap();
    assert!(certificate.windows(32).any(|part| part == digest));
    assert!(certificate.windows(11).any(|part| part == b"dns.example"));
}
