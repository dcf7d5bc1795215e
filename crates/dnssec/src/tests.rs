//! Tests of private items.

mod vectors;
