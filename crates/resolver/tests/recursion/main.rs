//! Recursion through a small network of scripted authoritative servers, with virtual time: the
//! queries that are sent, and the answers that clients get.

#![expect(clippy::unwrap_used, reason = "a failure is the test's result")]

mod amplification;
mod attacks;
mod breakdowns;
mod chains;
mod dns64;
mod encrypted;
mod faults;
mod floods;
mod glue;
mod letters;
mod limits;
mod local_root;
mod own;
mod replies;
mod reports;
mod secure;
mod shortened;
mod signatures;
mod synthesis;
mod traces;
mod verdicts;
mod walk;
mod work;
mod world;
