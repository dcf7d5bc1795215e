//! Lists, from their texts to the look-up of a name.

mod corpus;
mod hostile;
mod images;
mod invariants;
mod material;
mod merging;
mod model;
mod octets;
mod work;
