//! ID tokens: signature by a key of the issuer, and claims (OpenID Connect Core 1.0 §3.1.3.7,
//! RFC 7515, RFC 8725).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::Value;

use super::{Claims, OidcFault, OidcSettings};

/// Maximum number of octets of a token.
const MAX_TOKEN: usize = 64 << 10;
/// Maximum number of keys of an issuer that are considered.
const MAX_KEYS: usize = 64;
/// Seconds by which the clocks of issuer and server may differ.
const CLOCK_SKEW_SECS: u64 = 60;
/// Maximum number of octets of the subject (OpenID Connect Core 1.0 §2).
const MAX_SUBJECT: usize = 255;

/// The keys of an issuer (RFC 7517).
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct KeySet {
    keys: Vec<Value>,
}

/// A key. Parts that its type does not have are missing.
#[derive(Deserialize)]
struct IssuerKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a receiver must understand. None is supported.
    crit: Option<Value>,
}

/// The claims that a token must have.
pub(super) struct Expected<'a> {
    pub(super) settings: &'a OidcSettings,
    pub(super) nonce: &'a str,
    /// The time in Unix seconds.
    pub(super) now: u64,
}

/// The reason why a token is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenFault {
    /// No key of the set verifies the token. The issuer may have new keys.
    NoKey,
    /// The token is wrong. Holds the reason.
    Wrong(&'static str),
}

impl From<TokenFault> for OidcFault {
    fn from(fault: TokenFault) -> Self {
        match fault {
            TokenFault::NoKey => Self::Token("no key of the issuer verifies its signature"),
            TokenFault::Wrong(reason) => Self::Token(reason),
        }
    }
}

/// Verifies a token and returns its claims.
///
/// # Errors
/// See [`TokenFault`].
pub(super) fn verify(
    token: &str,
    keys: &KeySet,
    expected: &Expected<'_>,
) -> Result<Claims, TokenFault> {
    let malformed = || TokenFault::Wrong("it is malformed");
    if token.len() > MAX_TOKEN {
        return Err(TokenFault::Wrong("it is too long"));
    }
    let (signed, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
    let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
    let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| malformed());
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
    if header.crit.is_some() {
        return Err(TokenFault::Wrong("it has critical extensions"));
    }
    let scheme =
        Scheme::of(&header.alg).ok_or(TokenFault::Wrong("its algorithm is not allowed"))?;
    let signature = decode(signature)?;
    let mut fitting = keys.fitting(&header);
    if !fitting.any(|key| scheme.verifies(&key, signed.as_bytes(), &signature)) {
        return Err(TokenFault::NoKey);
    }
    let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| malformed())?;
    expected.check(&claims).map_err(TokenFault::Wrong)?;
    Ok(claims)
}

impl KeySet {
    /// Returns the keys that may verify a signature with this header.
    fn fitting<'a>(&'a self, header: &'a Header) -> impl Iterator<Item = IssuerKey> + 'a {
        let keys = self.keys.iter().take(MAX_KEYS);
        keys.filter_map(|key| IssuerKey::deserialize(key).ok()).filter(|key| {
            let is_named = header.kid.is_none() || key.kid.is_none() || key.kid == header.kid;
            let is_of_scheme = key.alg.as_ref().is_none_or(|alg| *alg == header.alg);
            is_named && is_of_scheme && key.purpose.as_deref().is_none_or(|one| one == "sig")
        })
    }
}

/// An algorithm of signatures (RFC 7518 §3, RFC 8037). None of them uses a shared secret.
enum Scheme {
    Rsa(&'static RsaParameters),
    /// The algorithm, the kind of key, and its curve.
    Curve(&'static dyn VerificationAlgorithm, &'static str, &'static str),
}

impl Scheme {
    fn of(alg: &str) -> Option<Self> {
        Some(match alg {
            "RS256" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Curve(&ECDSA_P256_SHA256_FIXED, "EC", "P-256"),
            "ES384" => Self::Curve(&ECDSA_P384_SHA384_FIXED, "EC", "P-384"),
            "EdDSA" => Self::Curve(&ED25519, "OKP", "Ed25519"),
            _ => return None,
        })
    }

    /// Returns whether a key of the right kind verifies a signature.
    fn verifies(&self, key: &IssuerKey, message: &[u8], signature: &[u8]) -> bool {
        let part = |part: &Option<String>| {
            part.as_ref().and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok())
        };
        match self {
            Self::Rsa(scheme) => {
                let (Some(n), Some(e)) = (part(&key.n), part(&key.e)) else { return false };
                let key_of = RsaPublicKeyComponents { n: &n, e: &e };
                key.kty == "RSA" && key_of.verify(scheme, message, signature).is_ok()
            }
            Self::Curve(scheme, kind, curve) => {
                let Some(x) = part(&key.x) else { return false };
                let point = match part(&key.y) {
                    // An uncompressed point (SEC 1 §2.3.3).
                    Some(y) => [&[4][..], &x, &y].concat(),
                    None => x,
                };
                key.kty == *kind
                    && key.crv.as_deref() == Some(curve)
                    && UnparsedPublicKey::new(*scheme, point).verify(message, signature).is_ok()
            }
        }
    }
}

impl Expected<'_> {
    fn check(&self, claims: &Claims) -> Result<(), &'static str> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|time| time as u64);
        let client = self.settings.client_id.as_str();
        if text("iss") != Some(self.settings.issuer.as_str()) {
            return Err("it is of another issuer");
        }
        let (is_for_us, is_for_others) = match claims.get("aud") {
            Some(Value::String(one)) => (one == client, false),
            Some(Value::Array(all)) => (all.iter().any(|one| one == client), all.len() > 1),
            _ => (false, false),
        };
        let party = claims.get("azp");
        let is_other_party = party.is_some_and(|party| party.as_str() != Some(client));
        if !is_for_us || is_other_party || (is_for_others && party.is_none()) {
            return Err("it is for another audience");
        }
        let latest = self.now.saturating_add(CLOCK_SKEW_SECS);
        let is_alive =
            time("exp").is_some_and(|exp| exp.saturating_add(CLOCK_SKEW_SECS) > self.now);
        if !is_alive {
            return Err("it has expired");
        }
        if time("iat").is_none_or(|iat| iat > latest) || time("nbf").is_some_and(|nbf| nbf > latest)
        {
            return Err("it is of the future: compare the clocks of issuer and server");
        }
        let is_nonce =
            |nonce: &str| crate::access::is_equal(nonce.as_bytes(), self.nonce.as_bytes());
        if !text("nonce").is_some_and(is_nonce) {
            return Err("it is of another log-in");
        }
        match text("sub") {
            Some(subject) if (1..=MAX_SUBJECT).contains(&subject.len()) => Ok(()),
            _ => Err("it has no subject"),
        }
    }
}
