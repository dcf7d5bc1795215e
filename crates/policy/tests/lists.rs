//! Lists, from their texts to the look-up of a name.

#![allow(clippy::unwrap_used)] // a panic here fails the test

#[path = "lists/corpus.rs"]
mod corpus;
#[path = "lists/hostile.rs"]
mod hostile;
#[path = "lists/images.rs"]
mod images;
#[path = "lists/invariants.rs"]
mod invariants;
#[path = "lists/material.rs"]
mod material;
#[path = "lists/merging.rs"]
mod merging;
#[path = "lists/model.rs"]
mod model;
#[path = "lists/octets.rs"]
mod octets;
#[path = "lists/work.rs"]
mod work;
