//! How a query ended.

/// How a query ended: the last stage of the path that it reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// FORMERR, NOTIMP, BADVERS, or a question that is never answered with data.
    Malformed,
    /// The client's address is not allowed.
    Refused,
    /// No answer: not a query at all, or too short to answer.
    Ignored,
    /// From the packet cache.
    PacketHit,
    /// Expired data, as resolution failed or took long.
    Stale,
    /// Local records.
    Local,
    /// Special names, and cookies asked for without a question.
    Special,
    /// Class CH.
    Chaos,
    /// Assembled from the RRset cache.
    RrsetHit,
    /// Resolved by asking upstream.
    Resolved,
    /// Resolution failed.
    Failed,
    /// A failure remembered (RFC 9520).
    FailureHit,
    /// RD was not set, and it is not in the caches.
    NotRecursive,
    /// Turned away as too much is in flight.
    Shed,
    /// Blocked by a list or a rule.
    Blocked,
    /// Answered by a rule with something else: addresses, a safe form of a search engine.
    Rewritten,
    /// Refused or truncated by a rule's rate limit.
    Limited,
    /// No answer, as a rule says.
    Dropped,
}

/// Names of the stages in metrics, in the order of [`Stage`].
pub const STAGES: [&str; 18] = [
    "malformed",
    "refused",
    "ignored",
    "packet-hit",
    "stale",
    "local",
    "special",
    "chaos",
    "rrset-hit",
    "resolved",
    "failed",
    "failure-hit",
    "not-recursive",
    "shed",
    "blocked",
    "rewritten",
    "limited",
    "dropped",
];
