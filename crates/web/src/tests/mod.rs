//! The interface as clients see it, with a server that only remembers requests.

mod attacks;
mod issuer;
mod limits;
mod oidc;
mod replies;
mod routes;
mod server;
mod sessions;
mod site;
mod streams;
mod tables;
mod uploads;
mod writes;
