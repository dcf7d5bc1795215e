//! Numbers by which a resolver and its driver name upstreams and sockets.

/// An upstream's number within a resolver, kept over reloads while its address and transport
/// stay in the plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct UpstreamId(pub u16);

/// A local socket of an upstream. Below the pool's size: a slot of the pool; from there on: a
/// socket for one query.
pub type SocketId = u32;
