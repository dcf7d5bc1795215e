//! Certificates by ACME (RFC 8555), the protocol of Let's Encrypt and of private authorities.
//!
//! The crate opens no socket and no file and has no clock: a [`World`] sends requests, waits, and
//! shows proofs to the authority. [`obtain`] leads from the directory to a certificate:
//!
//! ```text
//! directory -> account -> order -> authorizations -> proofs shown -> challenges answered
//!           -> request with the key (PKCS #10) -> certificate
//! ```
//! Each text of the authority is untrusted: sizes, counts and waits have bounds. When to renew a
//! certificate is in [`schedule`] (RFC 9773). The reader and writer of DER is in `der.rs`.

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
