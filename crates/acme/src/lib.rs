//! Certificates by ACME (RFC 8555), the protocol of Let's Encrypt and of private authorities.
//!
//! The crate opens no socket and no file and has no clock: the caller provides a [`World`], which
//! sends requests, waits, and presents proofs to the authority. [`obtain`] takes these steps:
//!
//! ```text
//! directory -> account -> order -> authorizations -> proofs shown -> challenges answered
//!           -> request with the key (PKCS #10) -> certificate
//! ```
//! The responses of the authority are untrusted: sizes, counts and waits have bounds. [`schedule`]
//! computes when to renew a certificate (RFC 9773). The file `der.rs` reads and writes DER.

#![forbid(unsafe_code)]

mod der;
mod error;
pub mod issue;
mod key;
mod message;
mod order;
mod proof;
pub mod renewal;
mod requests;
pub mod schedule;
mod world;

pub use error::{AcmeError, AuthorityProblem};
pub use key::{AccountKey, CertificateKey, KeyFault, pem};
pub use order::{Account, Issued, Wanted, obtain};
pub use proof::{AlpnCertificate, ChallengeKind, Proof, alpn_certificate};
pub use requests::{Authority, MAX_AUTHORITY_BODY};
pub use world::{AuthorityRequest, AuthorityResponse, PresentFault, Silence, Stopped, World};
