//! An authority of ACME (RFC 8555) for tests: it checks signatures, nonces and URLs, and issues
//! certificates that end soon. It has no socket. The test chooses the faults that occur.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use avocet_acme::CertificateKey;
use avocet_acme::issue::{CertificateFacts, Issuer, Role, issue};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

const SUBJECT: &str = "Avocet test authority";
const SEQUENCE: u8 = 0x30;

/// A fault that occurs once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorityFault {
    /// A nonce is refused although it is fresh.
    Nonce,
    /// A response has no nonce.
    NoNonce,
    /// The order is refused because of too many requests. Holds the seconds to wait.
    RateLimit(u64),
    /// The order is refused because it replaces another certificate.
    Replaces,
    /// The directory is not JSON.
    Garbage,
    /// The body of the order never ends.
    Endless,
    /// The proof is not found.
    Proof,
    /// The order has expired when the certificate is requested.
    Expired,
    /// The authority never completes the order.
    Stall,
    /// The authority has forgotten the account.
    Account,
}

/// A request to the authority.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The URL.
    pub url: &'a str,
    /// The body of POST; `None` for GET.
    pub body: Option<&'a [u8]>,
}

/// A response of the authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The header fields.
    pub fields: BTreeMap<&'static str, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// The proof that the authority looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// The kind of challenge.
    pub kind: String,
    /// The host name to prove.
    pub name: String,
    /// The token of the challenge.
    pub token: String,
    /// The text at the path of HTTP-01.
    pub authorization: String,
}

impl Sought {
    /// Returns the text of the record for dns-01 (RFC 8555 §8.4).
    #[must_use]
    pub fn record(&self) -> String {
        BASE64URL_NOPAD.encode(digest(&SHA256, self.authorization.as_bytes()).as_ref())
    }
}

struct Order {
    names: Vec<String>,
    /// For each name, whether its control is proven; `None` before the authority looked for the
    /// proof.
    proven: Vec<Option<bool>>,
    certificate: Option<Vec<u8>>,
    is_stalled: bool,
}

/// An authority of ACME for tests.
pub struct TestAuthority {
    base: String,
    key: CertificateKey,
    root: Vec<u8>,
    next: u64,
    nonces: BTreeSet<String>,
    /// Public keys by URL.
    accounts: BTreeMap<String, Vec<u8>>,
    orders: Vec<Order>,
    /// The function with which the authority looks for a proof.
    look: Box<dyn FnMut(&Sought) -> bool + Send>,
    /// The faults that have not occurred yet.
    pub faults: VecDeque<AuthorityFault>,
    /// The present time, in Unix seconds.
    pub now: u64,
    /// The life of certificates, in seconds.
    pub life_secs: u64,
    /// The window of renewal, in Unix seconds; `None` if the authority does not offer it.
    pub window: Option<[u64; 2]>,
    /// The identifiers of certificates that orders have replaced.
    pub replaced: Vec<String>,
    /// The number of orders.
    pub ordered: usize,
}

/// A request that was verified.
struct Verified {
    payload: Value,
    public: Vec<u8>,
}

impl TestAuthority {
    /// Creates an authority whose URLs begin with `base`. `look` looks for a proof.
    ///
    /// # Panics
    /// The random source fails.
    pub fn new(base: &str, now: u64, look: impl FnMut(&Sought) -> bool + Send + 'static) -> Self {
        let key = CertificateKey::draw().expect("random source");
        let facts = CertificateFacts {
            role: Role::Authority,
            subject: SUBJECT,
            names: &[],
            addresses: &[],
            public: &key.public(),
            serial: [1; 16],
            not_before: now - 3_600,
            not_after: now + 3_600 * 24 * 365,
        };
        let root = issue(&facts, Issuer { subject: SUBJECT, key: &key }).expect("signature");
        Self {
            base: base.to_owned(),
            key,
            root,
            next: 1,
            nonces: BTreeSet::new(),
            accounts: BTreeMap::new(),
            orders: Vec::new(),
            look: Box::new(look),
            faults: VecDeque::new(),
            now,
            life_secs: 90 * 86_400,
            window: None,
            replaced: Vec::new(),
            ordered: 0,
        }
    }

    /// Returns the certificate of the authority in DER.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// Returns the certificate of the authority in PEM form.
    pub fn root_pem(&self) -> String {
        pem(&self.root)
    }

    /// Returns the number of accounts.
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    fn take(&mut self, fault: AuthorityFault) -> bool {
        let is_next = self.faults.front() == Some(&fault);
        if is_next {
            self.faults.pop_front();
        }
        is_next
    }

    /// Responds to a request.
    pub fn respond(&mut self, asked: Asked<'_>) -> Answered {
        let path = asked.url.strip_prefix(&self.base).unwrap_or_default().to_owned();
        let mut answered = match (asked.body, path.as_str()) {
            (None, "/directory") if self.take(AuthorityFault::Garbage) => Answered {
                status: 200,
                body: b"<html>this is no directory</html>".to_vec(),
                ..Answered::default()
            },
            (None, "/directory") => self.directory(),
            (None, "/nonce") => Answered { status: 204, ..Answered::default() },
            (None, path) if path.starts_with("/renewal/") => self.renewal(),
            (None, _) => problem(405, "malformed", "only POST"),
            (Some(body), path) => match self.verified(asked.url, body) {
                Ok(verified) => self.posted(path, &verified),
                Err(refused) => refused,
            },
        };
        if !self.take(AuthorityFault::NoNonce) {
            let nonce = format!("nonce-{}", self.number());
            self.nonces.insert(nonce.clone());
            answered.fields.insert("replay-nonce", nonce);
        }
        answered
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn directory(&self) -> Answered {
        let url = |path: &str| format!("{}{path}", self.base);
        let mut directory = json!({
            "newNonce": url("/nonce"), "newAccount": url("/account"), "newOrder": url("/order"),
            "meta": { "termsOfService": "https://ca.example/terms" },
        });
        if self.window.is_some() {
            directory["renewalInfo"] = url("/renewal").into();
        }
        reply(200, &directory)
    }

    fn renewal(&self) -> Answered {
        let Some(window) = self.window else { return problem(404, "malformed", "no such") };
        let [start, end] = window.map(|secs| {
            let days = secs / 86_400;
            date_text(days, secs % 86_400)
        });
        reply(200, &json!({ "suggestedWindow": { "start": start, "end": end } }))
    }

    /// Checks the signature, the nonce and the URL of a request.
    fn verified(&mut self, url: &str, body: &[u8]) -> Result<Verified, Answered> {
        let malformed = || problem(400, "malformed", "the request cannot be read");
        let body: Value = serde_json::from_slice(body).map_err(|_| malformed())?;
        let part = |name: &str| body[name].as_str().ok_or_else(malformed);
        let decoded = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| malformed());
        let (protected, payload) = (part("protected")?, part("payload")?);
        let header: Value =
            serde_json::from_slice(&decoded(protected)?).map_err(|_| malformed())?;
        let nonce = header["nonce"].as_str().unwrap_or_default();
        if !self.nonces.remove(nonce) || self.take(AuthorityFault::Nonce) {
            return Err(problem(400, "badNonce", "this nonce is unknown"));
        }
        if header["url"] != url || header["alg"] != "ES256" {
            return Err(problem(401, "unauthorized", "the header is wrong"));
        }
        let account = header["kid"].as_str().unwrap_or_default().to_owned();
        if self.take(AuthorityFault::Account) {
            self.accounts.clear();
        }
        let public = match header["jwk"].as_object() {
            Some(key) => {
                let coordinate = |name: &str| decoded(key[name].as_str().unwrap_or_default());
                [vec![4], coordinate("x")?, coordinate("y")?].concat()
            }
            None => match self.accounts.get(&account) {
                Some(public) => public.clone(),
                None => return Err(problem(400, "accountDoesNotExist", "unknown account")),
            },
        };
        let signed = format!("{protected}.{payload}");
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &public)
            .verify(signed.as_bytes(), &decoded(part("signature")?)?)
            .map_err(|_| problem(401, "unauthorized", "the signature is wrong"))?;
        let payload = serde_json::from_slice(&decoded(payload)?).unwrap_or(Value::Null);
        Ok(Verified { payload, public })
    }

    fn posted(&mut self, path: &str, verified: &Verified) -> Answered {
        let mut words = path.trim_start_matches('/').split('/');
        let kind = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        match (kind, &numbers[..]) {
            ("account", _) => self.account(verified),
            ("order", []) => self.order(verified),
            ("order", [order]) => self.order_state(*order),
            ("proof", [order, place]) => self.authorization(*order, *place),
            ("challenge", [order, place]) => {
                let kind = path.rsplit('/').next().unwrap_or_default();
                self.challenge((*order, *place), kind, verified)
            }
            ("finalize", [order]) => self.finalize(*order, verified),
            ("certificate", [order]) => {
                let chain = self.orders.get(*order).and_then(|order| order.certificate.clone());
                let body = chain.map(|leaf| pem(&leaf) + &pem(&self.root)).unwrap_or_default();
                Answered { status: 200, body: body.into_bytes(), ..Answered::default() }
            }
            _ => problem(404, "malformed", "no such resource"),
        }
    }

    fn account(&mut self, verified: &Verified) -> Answered {
        if verified.payload["termsOfServiceAgreed"] != true {
            return problem(403, "userActionRequired", "agree to the terms");
        }
        let number = self.number();
        let known = self.accounts.iter().find(|(_, public)| **public == verified.public);
        let url = match known {
            Some((url, _)) => url.clone(),
            None => format!("{}/account/{number}", self.base),
        };
        self.accounts.insert(url.clone(), verified.public.clone());
        let mut answered = reply(201, &json!({ "status": "valid" }));
        answered.fields.insert("location", url);
        answered
    }

    fn order(&mut self, verified: &Verified) -> Answered {
        if self.take(AuthorityFault::Endless) {
            return Answered { status: 200, body: vec![b' '; 8 << 20], ..Answered::default() };
        }
        if let Some(AuthorityFault::RateLimit(secs)) = self.faults.front().copied() {
            self.faults.pop_front();
            let mut refused = problem(429, "rateLimited", "too many certificates already issued");
            refused.fields.insert("retry-after", secs.to_string());
            return refused;
        }
        if let Some(replaced) = verified.payload["replaces"].as_str() {
            if self.take(AuthorityFault::Replaces) {
                return problem(409, "alreadyReplaced", "this certificate was replaced");
            }
            self.replaced.push(replaced.to_owned());
        }
        let names = verified.payload["identifiers"].as_array().into_iter().flatten();
        let names: Vec<_> =
            names.filter_map(|one| one["value"].as_str().map(str::to_owned)).collect();
        let is_stalled = self.take(AuthorityFault::Stall);
        let proven = vec![None; names.len()];
        self.orders.push(Order { names, proven, certificate: None, is_stalled });
        self.ordered += 1;
        let number = self.orders.len() - 1;
        let mut answered = self.order_state(number);
        answered.status = 201;
        answered.fields.insert("location", format!("{}/order/{number}", self.base));
        answered
    }

    fn order_state(&self, number: usize) -> Answered {
        let Some(order) = self.orders.get(number) else { return problem(404, "malformed", "none") };
        let status = match &order.certificate {
            Some(_) if order.is_stalled => "processing",
            Some(_) => "valid",
            None if order.proven.contains(&Some(false)) => "invalid",
            None if order.proven.iter().all(|one| *one == Some(true)) => "ready",
            None => "pending",
        };
        let url = |kind: &str| format!("{}/{kind}/{number}", self.base);
        let proofs: Vec<_> =
            (0..order.names.len()).map(|place| format!("{}/{place}", url("proof"))).collect();
        let mut state =
            json!({ "status": status, "authorizations": proofs, "finalize": url("finalize") });
        if status == "valid" {
            state["certificate"] = url("certificate").into();
        }
        reply(200, &state)
    }

    fn authorization(&self, number: usize, place: usize) -> Answered {
        let Some(order) = self.orders.get(number) else { return problem(404, "malformed", "none") };
        let status = match order.proven.get(place) {
            Some(Some(true)) => "valid",
            Some(Some(false)) => "invalid",
            _ => "pending",
        };
        let challenge = |kind: &str| {
            let url = format!("{}/challenge/{number}/{place}/{kind}", self.base);
            let mut one = json!({ "type": kind, "url": url, "token": token(number, place) });
            if status == "invalid" {
                let reason = "no proof at this name";
                let kind = "urn:ietf:params:acme:error:unauthorized";
                one["error"] = json!({ "type": kind, "detail": reason });
            }
            one
        };
        let challenges = ["dns-01", "http-01", "tls-alpn-01"].map(challenge);
        let name = order.names.get(place).cloned().unwrap_or_default();
        reply(
            200,
            &json!({
                "status": status, "challenges": challenges,
                "identifier": { "type": "dns", "value": name },
            }),
        )
    }

    fn challenge(
        &mut self,
        (number, place): (usize, usize),
        kind: &str,
        verified: &Verified,
    ) -> Answered {
        let is_refused = self.take(AuthorityFault::Proof);
        let Some(order) = self.orders.get_mut(number) else {
            return problem(404, "malformed", "none");
        };
        let token = token(number, place);
        let sought = Sought {
            kind: kind.to_owned(),
            name: order.names.get(place).cloned().unwrap_or_default(),
            authorization: format!("{token}.{}", thumbprint(&verified.public)),
            token,
        };
        let is_proven = !is_refused && (self.look)(&sought);
        if let Some(one) = order.proven.get_mut(place) {
            *one = Some(is_proven);
        }
        reply(200, &json!({ "status": "processing" }))
    }

    fn finalize(&mut self, number: usize, verified: &Verified) -> Answered {
        if self.take(AuthorityFault::Expired) {
            return problem(404, "malformed", "the order has expired");
        }
        let text = verified.payload["csr"].as_str().unwrap_or_default();
        let request = BASE64URL_NOPAD.decode(text.as_bytes()).unwrap_or_default();
        let Some(public) = public_of(&request) else {
            return problem(400, "badCSR", "the request cannot be read");
        };
        let serial = self.number().to_be_bytes();
        let (now, life_secs) = (self.now, self.life_secs);
        let Some(order) = self.orders.get_mut(number) else {
            return problem(404, "malformed", "none");
        };
        let missing = order
            .names
            .iter()
            .find(|name| !request.windows(name.len()).any(|part| part == name.as_bytes()));
        if let Some(name) = missing {
            return problem(400, "badCSR", &format!("the request lacks {name}"));
        }
        let facts = CertificateFacts {
            role: Role::Server,
            subject: &order.names[0],
            names: &order.names,
            addresses: &[],
            public,
            serial: [[1; 8], serial].concat().try_into().unwrap_or([1; 16]),
            not_before: now,
            not_after: now + life_secs,
        };
        order.certificate = issue(&facts, Issuer { subject: SUBJECT, key: &self.key }).ok();
        self.order_state(number)
    }
}

fn token(order: usize, place: usize) -> String {
    format!("token-{order}_{place}")
}

/// Returns the thumbprint of a point on P-256 (RFC 7638).
fn thumbprint(public: &[u8]) -> String {
    let [x, y] = [1, 33].map(|at| BASE64URL_NOPAD.encode(&public[at..at + 32]));
    let text = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    BASE64URL_NOPAD.encode(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Returns the public key in a request for a certificate, in DER: its third field.
fn public_of(request: &[u8]) -> Option<&[u8]> {
    let facts = field(field(request)?.content)?.content;
    let after_version = field(facts)?.rest;
    let key = field(field(after_version)?.rest)?;
    (key.tag == SEQUENCE).then_some(key.whole)
}

struct Field<'d> {
    tag: u8,
    whole: &'d [u8],
    content: &'d [u8],
    rest: &'d [u8],
}

fn field(octets: &[u8]) -> Option<Field<'_>> {
    let (tag, first) = (*octets.first()?, *octets.get(1)?);
    let (head, len) = match first {
        0x81 => (3, usize::from(*octets.get(2)?)),
        0x82 => (4, usize::from(*octets.get(2)?) << 8 | usize::from(*octets.get(3)?)),
        short => (2, usize::from(short)),
    };
    let whole = octets.get(..head + len)?;
    Some(Field { tag, whole, content: &whole[head..], rest: &octets[head + len..] })
}

fn pem(certificate: &[u8]) -> String {
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in BASE64.encode(certificate).as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

fn reply(status: u16, body: &Value) -> Answered {
    Answered { status, body: body.to_string().into_bytes(), ..Answered::default() }
}

fn problem(status: u16, kind: &str, detail: &str) -> Answered {
    let kind = format!("urn:ietf:params:acme:error:{kind}");
    reply(status, &json!({ "type": kind, "detail": detail, "status": status }))
}

/// Returns a time of RFC 3339, for these days since 1970 and seconds of the day.
fn date_text(days: u64, secs: u64) -> String {
    // Days since March 1st of year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + carry;
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}
