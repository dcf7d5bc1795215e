//! A provider of OpenID Connect in this process, which can be made to lie.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use avocet_control::access::{Role, Secret};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

use crate::oidc::{OidcSettings, ProviderRequest, ProviderResponse, ProviderSilence};

const ISSUER: &str = "https://login.example/realm";

/// A key of the issuer.
enum SigningKey {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// The way in which tokens are signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signing {
    /// The token is signed by the key of the issuer.
    Honest,
    /// The token is signed by another key under the same name.
    OtherKey,
    /// The token is not signed (`alg: none`).
    None,
    /// The token is signed by HMAC with the public key as the secret.
    PublicKeyAsSecret,
}

/// A change of header and claims.
type Edit = Box<dyn Fn(&mut Value, &mut Value) + Send>;

/// The behaviour of the issuer.
pub(super) struct Behaviour {
    pub(super) signing: Signing,
    /// Changes header and claims of tokens.
    pub(super) edit: Edit,
    /// Changes the endpoints that the issuer announces.
    pub(super) announce: Box<dyn Fn(&mut Value) + Send>,
    /// The reply of the userinfo endpoint.
    pub(super) userinfo: Value,
    pub(super) status: u16,
}

struct Code {
    nonce: String,
    challenge: String,
}

pub(super) struct FakeIssuer {
    keys: Mutex<(String, SigningKey)>,
    pub(super) behaviour: Mutex<Behaviour>,
    /// The client in the settings of the server.
    pub(super) client_id: Mutex<&'static str>,
    codes: Mutex<HashMap<String, Code>>,
    asked: Mutex<Vec<String>>,
    now: OnceLock<Arc<AtomicU64>>,
}

fn encode(octets: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(octets.as_ref())
}

fn ec_key() -> SigningKey {
    SigningKey::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
}

impl SigningKey {
    fn alg(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    fn jwk(&self, kid: &str) -> Value {
        let mut key = match self {
            Self::P256(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]),
                       "y": encode(&point[33..])})
            }
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key())})
            }
            Self::Rsa(key) => {
                // SEQUENCE { INTEGER n, INTEGER e } of a key with 2048 bits (RFC 8017 A.1.1).
                let der = key.public_key().as_ref();
                json!({"kty": "RSA", "n": encode(&der[9..265]), "e": encode(&der[267..])})
            }
        };
        key["kid"] = kid.into();
        key["use"] = "sig".into();
        key
    }
}

impl FakeIssuer {
    pub(super) fn new() -> Self {
        let behaviour = Behaviour {
            signing: Signing::Honest,
            edit: Box::new(|_, _| {}),
            announce: Box::new(|_| {}),
            userinfo: json!({"sub": "7"}),
            status: 200,
        };
        Self {
            keys: Mutex::new(("1".to_owned(), ec_key())),
            behaviour: Mutex::new(behaviour),
            client_id: Mutex::new("avocet"),
            codes: Mutex::default(),
            asked: Mutex::default(),
            now: OnceLock::new(),
        }
    }

    /// Makes the issuer use this clock.
    pub(super) fn follow(&self, now: Arc<AtomicU64>) {
        self.now.get_or_init(|| now);
    }

    pub(super) fn now(&self) -> u64 {
        self.now.get().unwrap().load(Ordering::Relaxed)
    }

    pub(super) fn settings(&self) -> OidcSettings {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        OidcSettings {
            issuer: ISSUER.to_owned(),
            client_id: (*self.client_id.lock().unwrap()).to_owned(),
            client_secret: Some(Secret::new("s&cret".to_owned())),
            public_url: "http://127.0.0.1:8053".to_owned(),
            scopes: texts(&["profile"]),
            name_claim: "preferred_username".to_owned(),
            role_claim: "groups".to_owned(),
            roles: vec![
                (Role::Admin, texts(&["dns-admins"])),
                (Role::Operator, texts(&["dns", "helpdesk"])),
                (Role::Viewer, texts(&["staff"])),
            ],
        }
    }

    /// Changes the claims of tokens.
    pub(super) fn edit(&self, edit: impl Fn(&mut Value, &mut Value) + Send + 'static) {
        self.behaviour.lock().unwrap().edit = Box::new(edit);
    }

    /// Replaces the key.
    pub(super) fn rotate(&self, kid: &str, alg: &str) {
        let key = match alg {
            "ES256" => ec_key(),
            "EdDSA" => SigningKey::Ed25519(Ed25519KeyPair::generate().unwrap()),
            _ => SigningKey::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
        };
        *self.keys.lock().unwrap() = (kid.to_owned(), key);
    }

    /// Returns the paths that were asked for since the last call.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Logs in the user of the browser that requests this URL. Returns the query with which the
    /// browser comes back.
    pub(super) fn authorize(&self, location: &str) -> String {
        let (endpoint, query) = location.split_once('?').unwrap();
        assert_eq!(endpoint, format!("{ISSUER}/auth"));
        let fields: HashMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        assert_eq!(fields["response_type"], "code");
        assert_eq!(fields["client_id"], "avocet");
        assert_eq!(fields["redirect_uri"], self.redirect_uri());
        assert_eq!(fields["scope"], "openid profile");
        assert_eq!(fields["code_challenge_method"], "S256");
        let mut codes = self.codes.lock().unwrap();
        let code = format!("code-{}", codes.len());
        let (nonce, challenge) = (fields["nonce"].clone(), fields["code_challenge"].clone());
        codes.insert(code.clone(), Code { nonce, challenge });
        format!("code={code}&state={}&iss=https%3A%2F%2Flogin.example%2Frealm", fields["state"])
    }

    fn redirect_uri(&self) -> String {
        format!("{}/api/v1/session/oidc/callback", self.settings().public_url)
    }

    /// Responds to a request of the server.
    pub(super) fn ask(
        &self,
        request: &ProviderRequest,
    ) -> Result<ProviderResponse, ProviderSilence> {
        let path = request.url.strip_prefix(ISSUER).unwrap().to_owned();
        self.asked.lock().unwrap().push(path.clone());
        let behaviour = self.behaviour.lock().unwrap();
        let body = match path.as_str() {
            "/.well-known/openid-configuration" => {
                let url = |end: &str| format!("{ISSUER}/{end}");
                let mut endpoints = json!({
                    "issuer": ISSUER, "authorization_endpoint": url("auth"),
                    "token_endpoint": url("token"), "jwks_uri": url("keys"),
                    "userinfo_endpoint": url("me"),
                });
                (behaviour.announce)(&mut endpoints);
                endpoints
            }
            "/keys" => {
                let (kid, key) = &*self.keys.lock().unwrap();
                json!({"keys": [{"kty": "oct", "k": "AAAA"}, key.jwk(kid)]})
            }
            "/token" => self.redeem(request, &behaviour),
            "/me" => {
                assert_eq!(request.authorization.as_ref().unwrap().reveal(), "Bearer access");
                behaviour.userinfo.clone()
            }
            other => panic!("{other}"),
        };
        Ok(ProviderResponse { status: behaviour.status, body: body.to_string().into_bytes() })
    }

    fn redeem(&self, request: &ProviderRequest, behaviour: &Behaviour) -> Value {
        let expected = format!("Basic {}", BASE64.encode(b"avocet:s%26cret"));
        assert_eq!(request.authorization.as_ref().unwrap().reveal(), expected);
        let form = request.form.as_ref().unwrap().reveal().as_bytes();
        let fields: HashMap<_, _> = form_urlencoded::parse(form).into_owned().collect();
        assert_eq!(fields["redirect_uri"], self.redirect_uri());
        let Code { nonce, challenge } = self.codes.lock().unwrap().remove(&fields["code"]).unwrap();
        assert_eq!(encode(digest(&SHA256, fields["code_verifier"].as_bytes())), challenge);
        json!({"token_type": "Bearer", "access_token": "access",
               "id_token": self.token(&nonce, behaviour)})
    }

    fn token(&self, nonce: &str, behaviour: &Behaviour) -> String {
        let (kid, key) = &*self.keys.lock().unwrap();
        let now = self.now();
        let mut header = json!({"alg": key.alg(), "kid": kid, "typ": "JWT"});
        let mut claims = json!({
            "iss": ISSUER, "aud": "avocet", "sub": "7", "nonce": nonce, "iat": now,
            "exp": now + 300, "preferred_username": "ada", "groups": ["dns", "other"],
        });
        (behaviour.edit)(&mut header, &mut claims);
        match behaviour.signing {
            Signing::None => header["alg"] = "none".into(),
            Signing::PublicKeyAsSecret => header["alg"] = "HS256".into(),
            Signing::Honest | Signing::OtherKey => {}
        }
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = match behaviour.signing {
            Signing::Honest => key.sign(signed.as_bytes()),
            Signing::OtherKey => ec_key().sign(signed.as_bytes()),
            Signing::None => Vec::new(),
            Signing::PublicKeyAsSecret => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, key.jwk(kid).to_string().as_bytes());
                hmac::sign(&secret, signed.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{signed}.{}", encode(signature))
    }
}
