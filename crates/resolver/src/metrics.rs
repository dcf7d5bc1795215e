//! The counters of a resolver. One thread owns these plain numbers; the server adds them up.

use crate::exchange::endpoint::TlsFault;

/// Upper bounds in ms of the buckets of [`UpstreamCounters::rtt_buckets`]; the last bucket has
/// none.
pub const RTT_BUCKETS_MS: [u64; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

/// The counters of one resolver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Questions that were not joined to an equal question, and became tasks.
    pub started: u64,
    /// Questions that joined the task of an equal question.
    pub joined: u64,
    /// Questions that were answered from the failure cache (RFC 9520).
    pub failed_before: u64,
    /// Questions for which no rule applies.
    pub no_rule: u64,
    /// Questions rejected by the limit of questions in flight.
    pub shed_tasks: u64,
    /// Questions rejected by the limit of waiting clients.
    pub shed_waiters: u64,
    /// Questions rejected by the limit of actions that wait to be executed.
    pub shed_actions: u64,
    /// Questions rejected by the limit of their zone.
    pub shed_zone: u64,
    /// Questions rejected under load, because their zone uses most of the thread's time.
    pub shed_busy_zone: u64,
    /// Questions rejected under load, because their client's network uses most of the thread's
    /// time.
    pub shed_busy_client: u64,
    /// Inquiries rejected because their zone has reached its limit of inquiries in flight.
    pub limit_zone: u64,
    /// Inquiries rejected because all servers of their zone have reached their limit.
    pub limit_server: u64,
    /// Tasks that were ended early to make room for other questions.
    pub jostled: u64,
    /// Tasks that ended with an answer.
    pub answered: u64,
    /// Tasks that ended without an answer.
    pub failed: u64,
    /// Clients that got stale data because their question took too long.
    pub overdue: u64,
    /// Queries restarted because a CNAME left the server's bailiwick.
    pub restarts: u64,
    /// Questions that an upstream sent back to this server.
    pub loops: u64,
    /// Client subnets that were omitted because too many queries for one name were in flight.
    pub ecs_dropped: u64,
    /// Datagrams whose ID, socket or question matches no query.
    pub foreign: u64,
    /// Responses that arrived after their query had timed out.
    pub late: u64,
    /// Datagrams that are not responses, or are malformed.
    pub malformed: u64,
    /// Responses that match a query except for the letter case or the cookie.
    pub near_misses: u64,
    /// The smallest number of unpredictable bits of a query over UDP so far.
    pub min_bits_seen: u32,
    /// Queries to authoritative servers, including those over TCP.
    pub sent: u64,
    /// Queries to authoritative servers over TCP.
    pub sent_by_tcp: u64,
    /// Queries to authoritative servers that were sent over TLS alone.
    pub sent_encrypted: u64,
    /// Authoritative servers that answered the first query of an unproven connection (RFC 9539).
    pub probes_succeeded: u64,
    /// Unproven connections that ended without an answer.
    pub probes_failed: u64,
    /// Queries to authoritative servers that were not answered in time.
    pub timeouts: u64,
    /// Queries that did not reach an authoritative server: the server was reported as unreachable,
    /// or the connection failed.
    pub unreachable: u64,
    /// Queries that could not be sent, because this host had no free file descriptors or buffers.
    pub unsent: u64,
    /// Responses of servers that do not serve the queried zone.
    pub lame: u64,
    /// Negative responses synthesized from validated proofs (RFC 8198).
    pub synthesised: u64,
    /// Inquiries that the copy of the root zone answered (RFC 8806).
    pub local_root: u64,
    /// Questions that recursion answered with secure data.
    pub secure: u64,
    /// Questions that recursion answered with insecure data.
    pub insecure: u64,
    /// Errors in zones that were reported to a reporting agent (RFC 9567).
    pub reports: u64,
    /// Errors in zones that were not reported, because of a limit.
    pub reports_withheld: u64,
    /// Questions that failed validation.
    pub bogus: u64,
    /// Number of times that each limit of validation was reached, in the order of
    /// [`avocet_dnssec::Limit::ALL`].
    pub validation_limits: [u64; avocet_dnssec::Limit::ALL.len()],
    /// Questions that failed because of too many aliases, or a loop of aliases.
    pub limit_aliases: u64,
    /// Questions that failed because of too many referrals.
    pub limit_referrals: u64,
    /// Questions that failed because too many name servers had no address.
    pub limit_servers: u64,
    /// Questions that failed because they needed too many queries.
    pub budget_sends: u64,
    /// Sockets that were opened again with another port.
    pub renewals: u64,
    /// Queries with their own socket.
    pub fresh_sockets: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            started: 0,
            joined: 0,
            failed_before: 0,
            no_rule: 0,
            shed_tasks: 0,
            shed_waiters: 0,
            shed_actions: 0,
            shed_zone: 0,
            shed_busy_zone: 0,
            shed_busy_client: 0,
            limit_zone: 0,
            limit_server: 0,
            jostled: 0,
            answered: 0,
            failed: 0,
            overdue: 0,
            restarts: 0,
            loops: 0,
            ecs_dropped: 0,
            foreign: 0,
            late: 0,
            malformed: 0,
            near_misses: 0,
            sent: 0,
            sent_by_tcp: 0,
            sent_encrypted: 0,
            probes_succeeded: 0,
            probes_failed: 0,
            timeouts: 0,
            unreachable: 0,
            unsent: 0,
            lame: 0,
            synthesised: 0,
            local_root: 0,
            secure: 0,
            insecure: 0,
            bogus: 0,
            reports: 0,
            reports_withheld: 0,
            validation_limits: [0; avocet_dnssec::Limit::ALL.len()],
            limit_aliases: 0,
            limit_referrals: 0,
            limit_servers: 0,
            budget_sends: 0,
            min_bits_seen: u32::MAX,
            renewals: 0,
            fresh_sockets: 0,
        }
    }
}

/// The counters of one upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UpstreamCounters {
    /// Queries sent, including those over TCP.
    pub queries: u64,
    /// Queries sent over TCP without TLS.
    pub tcp: u64,
    /// Queries sent over TLS.
    pub tls: u64,
    /// Queries sent after a header of the PROXY protocol.
    pub introduced: u64,
    /// Number of TLS failures, in the order of [`TlsFault::ALL`].
    pub tls_faults: [u64; TlsFault::ALL.len()],
    /// Usable responses.
    pub replies: u64,
    /// Sum of the round-trip times of the usable responses, in ms.
    pub rtt_sum_ms: u64,
    /// Replies by round-trip time.
    pub rtt_buckets: [u64; RTT_BUCKETS_MS.len() + 1],
    /// Queries that were not answered in time.
    pub timeouts: u64,
    /// ICMP errors, and connections that failed.
    pub network_errors: u64,
    /// Responses with SERVFAIL.
    pub servfail: u64,
    /// Responses with REFUSED.
    pub refused: u64,
    /// Responses with other error RCODEs, referrals, and answers that exceed limits.
    pub unusable: u64,
    /// Queries repeated without EDNS.
    pub without_edns: u64,
    /// Number of times that the circuit breaker opened.
    pub breaker_opened: u64,
}

impl UpstreamCounters {
    pub(crate) fn reply(&mut self, rtt_ms: u64) {
        self.replies += 1;
        self.rtt_sum_ms += rtt_ms;
        let bucket = RTT_BUCKETS_MS.partition_point(|&bound| bound < rtt_ms);
        self.rtt_buckets[bucket] += 1;
    }
}
