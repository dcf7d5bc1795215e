//! Tests of what the crate keeps to itself.

mod vectors;
