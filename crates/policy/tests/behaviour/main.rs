//! What lists, rules, response policy zones and geo databases decide, and how they are read.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

mod expressions;
mod geo;
mod lists;
mod model;
mod order;
mod originals;
mod response_policy_zones;
mod zones_model;
