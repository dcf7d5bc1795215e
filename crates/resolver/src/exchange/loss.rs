//! The packet loss of the whole network. Only queries that were certainly lost count: the server
//! did not answer at first, but answered the retry.
//!
//! A server that never answers is no evidence, because it may drop queries on purpose. The results
//! are kept per network of servers (a *voice*), and the median of all voices is the result. An
//! operator with few networks thus cannot make the loss seem higher.

use std::net::IpAddr;

use super::rtt::Fate;

/// Number of [`Voice`]s, each of which records the losses of a network. Networks with the same hash
/// share one.
const VOICES: usize = 64;
/// The age in ms at which a voice expires.
const HEARD_MS: u64 = 30_000;
/// Minimum number of outcomes that a voice needs to be used.
const FEWEST_OUTCOMES: u32 = 2;
/// Milliseconds without any reply after which no loss is assumed, because this host has probably
/// lost its network.
const GONE_MS: u64 = 3_000;

/// The level of packet loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Level {
    #[default]
    Little,
    /// More than a sixth of the queries are lost, as with a loss of nearly a tenth in each
    /// direction.
    Heavy,
    /// More than three of five queries are lost, as with a loss of over a third in each direction.
    Most,
}

impl Level {
    fn of(lost: u32, all: u32) -> Self {
        match () {
            () if lost * 5 > all * 3 => Self::Most,
            () if lost * 6 > all => Self::Heavy,
            () => Self::Little,
        }
    }

    /// Returns how many copies of a query to send at once, after `sent` queries without a reply.
    /// With heavy loss, only the first query is sent as a single copy. If most packets are lost,
    /// every query has several copies.
    pub(crate) fn copies(self, sent: u32) -> u32 {
        match self {
            Self::Little => 1,
            Self::Heavy => 1 + u32::from(sent > 0),
            Self::Most => 2 + u32::from(sent > 0),
        }
    }
}

/// The latest outcomes of queries to one network of servers: one bit for each, which is set for a
/// loss.
#[derive(Clone, Copy, Default, Debug)]
struct Voice {
    outcomes: u8,
    count: u8,
    heard_ms: u64,
}

impl Voice {
    fn hear(&mut self, fate: Fate) {
        self.outcomes = self.outcomes << 1 | fate as u8;
        self.count = (self.count + 1).min(u8::BITS as u8);
    }

    fn level(self) -> Level {
        Level::of(self.outcomes.count_ones(), u32::from(self.count))
    }
}

/// The packet loss of this host's network; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    voices: Box<[Voice; VOICES]>,
    level: Level,
    replied_ms: u64,
}

impl Default for Loss {
    fn default() -> Self {
        Self { voices: Box::new([Voice::default(); VOICES]), level: Level::Little, replied_ms: 0 }
    }
}

impl Loss {
    /// Records that a server answered after it had left `lost` queries for the same question
    /// unanswered.
    pub(crate) fn note_reply(&mut self, server: IpAddr, lost: u32, now_ms: u64) {
        self.replied_ms = now_ms;
        let voice = &mut self.voices[place(server)];
        if now_ms >= voice.heard_ms + HEARD_MS {
            *voice = Voice::default();
        }
        voice.heard_ms = now_ms;
        (0..lost.min(u8::BITS)).for_each(|_| voice.hear(Fate::Lost));
        voice.hear(Fate::Answered);
        if lost > 0 || self.level > Level::Little {
            self.level = self.middle(now_ms);
        }
    }

    /// Returns the median level of the voices.
    fn middle(&self, now_ms: u64) -> Level {
        let is_heard = |voice: &&Voice| {
            u32::from(voice.count) >= FEWEST_OUTCOMES && now_ms < voice.heard_ms + HEARD_MS
        };
        let heard = self.voices.iter().filter(is_heard);
        let count = heard.clone().count();
        let says =
            |level: Level| 2 * heard.clone().filter(|voice| voice.level() >= level).count() > count;
        match () {
            () if says(Level::Most) => Level::Most,
            () if says(Level::Heavy) => Level::Heavy,
            () => Level::Little,
        }
    }

    /// Returns the present level of packet loss. It is low if no server answers any more, because
    /// there is then no network.
    pub(crate) fn level(&self, now_ms: u64) -> Level {
        if now_ms < self.replied_ms + GONE_MS { self.level } else { Level::Little }
    }

    /// Returns whether the loss justifies more retries to silent servers, and longer waits.
    pub(crate) fn is_heavy(&self, now_ms: u64) -> bool {
        self.level(now_ms) >= Level::Heavy
    }
}

/// Returns the index of the voice for an address. Addresses with the same first 24 bits (IPv4) or
/// 48 bits (IPv6) share a voice.
fn place(server: IpAddr) -> usize {
    let network = match server.to_canonical() {
        IpAddr::V4(ip) => u64::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => (ip.to_bits() >> 80) as u64,
    };
    // Fibonacci hashing: the upper bits depend on all bits of the network.
    (network.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % VOICES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(network: u8) -> IpAddr {
        IpAddr::from([10, network, 0, 1])
    }

    #[test]
    fn losses_are_heavy_while_more_than_half_of_the_networks_lose_much() {
        let mut loss = Loss::default();
        for network in 0..5 {
            loss.note_reply(server(network), 0, 1_000);
            loss.note_reply(server(network), 0, 1_000);
        }
        for network in 0..2 {
            for _ in 0..100 {
                loss.note_reply(server(network), 5, 1_000);
            }
        }
        assert_eq!(loss.level(1_000), Level::Little, "two of five networks");
        loss.note_reply(server(2), 8, 1_000);
        assert_eq!(loss.level(1_000), Level::Most);
        assert_eq!(loss.level(1_000 + GONE_MS), Level::Little, "nobody answers");
        for _ in 0..8 {
            loss.note_reply(server(2), 0, 1_000);
        }
        assert_eq!(loss.level(1_000), Level::Little);
    }

    #[test]
    fn the_more_is_lost_the_more_is_sent_at_once() {
        let check = |lost: u32, expected: [u32; 2]| {
            let mut loss = Loss::default();
            for _ in 0..10 {
                loss.note_reply(server(1), lost, 1_000);
            }
            assert_eq!(
                [0, 1].map(|sent| loss.level(1_000).copies(sent)),
                expected,
                "{lost} of {} lost",
                lost + 1
            );
        };
        check(0, [1, 1]);
        check(1, [1, 2]);
        check(3, [2, 3]);
    }

    #[test]
    fn what_was_heard_long_ago_is_forgotten() {
        let mut loss = Loss::default();
        loss.note_reply(server(1), 7, 1_000);
        assert!(loss.is_heavy(1_000));
        for _ in 0..2 {
            loss.note_reply(server(2), 0, 1_000 + HEARD_MS);
        }
        assert!(!loss.is_heavy(1_000 + HEARD_MS));
    }
}
