//! shared_vectors
