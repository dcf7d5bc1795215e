//! A side of a comparison: a configuration with its policy, and its outcome for a past query.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_config::Config;
use avocet_nameserver::policy::{
    Answered, Asked, Decider, KnownAnswer, Moment, Outcome, Policy, Scratch,
};
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::local::LocalRecords;
use avocet_policy::client::DeviceId;
use avocet_resolver::{Dns64, NameServers};
use avocet_wire::builder::{Builder, Record, Section};
use avocet_wire::header::QR;
use avocet_wire::name::is_under;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, MAX_MESSAGE, Rtype};

/// One of the two configurations that are compared, with its policy.
pub struct Side {
    config: Arc<Config>,
    policy: Option<Arc<Policy>>,
    local: LocalRecords,
    translation: Option<Dns64>,
    entrances: Vec<String>,
    own_entrance: Entrance,
    scratch: Scratch,
}

/// The two configurations that are compared.
pub struct Sides {
    /// The configuration in force.
    pub now: Side,
    /// The proposed configuration.
    pub then: Side,
}

impl Sides {
    /// Returns whether a rule of either configuration tests the time.
    pub(super) fn goes_by_time(&self) -> bool {
        self.now.goes_by_time() || self.then.goes_by_time()
    }

    /// Returns the number of rules that test answers: the larger one of the two.
    pub fn rules_on_answers(&self) -> usize {
        self.now.rules_on_answers().max(self.then.rules_on_answers())
    }
}

/// A query of the past. Equal queries are evaluated once.
pub struct PastQuery<'a> {
    /// The address of the client.
    pub client: IpAddr,
    /// The QNAME of the query.
    pub name: FoldedNameBuf,
    /// The QTYPE of the query.
    pub rtype: Rtype,
    /// The transport.
    pub transport: Transport,
    /// The listener; empty for an address of `[server]`.
    pub listener: &'a str,
    /// The Unix second of the query.
    pub at_secs: u64,
    /// The target of the last alias in the answer.
    pub alias: Option<FoldedNameBuf>,
    /// The addresses of the answer.
    pub addresses: Vec<IpAddr>,
    /// The whole answer, if it is known; it replaces the alias and the addresses.
    pub answer: Option<&'a [u8]>,
    /// The number of queries.
    pub queries: u64,
}

impl Side {
    /// Creates a side from a configuration and the policy that was built from it.
    pub fn new(config: Arc<Config>, policy: Option<Arc<Policy>>) -> Self {
        let local = LocalRecords::new(&config.records, |_| None);
        Self {
            translation: config.dns64.translation(),
            entrances: config.server.entrances().into_iter().map(str::to_owned).collect(),
            own_entrance: Entrance::of_server(&config.server),
            config,
            policy,
            local,
            scratch: Scratch::for_looking(),
        }
    }

    /// Returns the outcome of a query under the policy. `answer` is the known part of the query's
    /// answer.
    pub(super) fn outcome(&mut self, query: &PastQuery<'_>, answer: Option<&[u8]>) -> Outcome {
        let has_own_servers = self.has_own_servers(query.name.view());
        let Some(policy) = &self.policy else { return Outcome::passes() };
        let (ip, moment) = (query.client, (Moment { wall_secs: query.at_secs, millis: 0 }, 0));
        let transport = query.transport;
        let profile = policy.profile(ip, self.entrance(query.listener), transport);
        let (qname, qtype, device) = (query.name.view(), query.rtype, DeviceId::NONE);
        let asked = Asked { profile, ip, device, transport, qname, qtype };
        let translation = self.translation.as_ref();
        let servers = |_: FoldedName<'_>| NameServers::default();
        let (outcome, by) = match answer {
            None => policy.outcome(&asked, None, moment, &mut self.scratch),
            Some(message) => {
                let answered: KnownAnswer<'_> = Answered {
                    message,
                    has_own_servers,
                    // The known answers contain only addresses and aliases.
                    has_local_target: false,
                    lists_may_have_begun: false,
                    translation,
                    servers: &servers,
                };
                policy.outcome(&asked, Some(&answered), moment, &mut self.scratch)
            }
        };
        // Lists do not apply to names with local records.
        if by == Decider::List && self.local.has(query.name.view()) {
            Outcome::passes()
        } else {
            outcome
        }
    }

    fn entrance(&self, listener: &str) -> Entrance {
        let place = self.entrances.iter().position(|name| name == listener && !name.is_empty());
        place.map_or(self.own_entrance, |place| Entrance(place as u16))
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether a rule tests the time.
    pub fn goes_by_time(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.goes_by_time())
    }

    /// Returns whether the configuration has servers for a zone that contains the name, other than
    /// the root.
    fn has_own_servers(&self, name: FoldedName<'_>) -> bool {
        let forwards =
            self.config.forwards.iter().filter(|forward| is_within(&name, &forward.zone));
        let nearest = forwards.max_by_key(|forward| forward.zone.len());
        nearest.is_some_and(|forward| !forward.exception)
            || self.config.stubs.iter().any(|stub| is_within(&name, &stub.zone))
    }

    /// Returns the name of a client, or its address; `None` without a policy.
    pub(super) fn client_name(&self, ip: IpAddr) -> Option<String> {
        self.policy.as_ref().map(|policy| policy.client_name(ip))
    }

    /// Returns the number of rules on answers. They match no query without known addresses.
    pub fn rules_on_answers(&self) -> usize {
        self.policy.as_ref().map_or(0, |policy| policy.rules_on_answers())
    }
}

fn is_within(name: &[u8], zone: &[u8]) -> bool {
    zone.len() > 1 && is_under(name, zone)
}

/// Returns an answer with the known alias and addresses, or `None` if none are known. Addresses
/// that do not fit into a message are omitted.
pub(super) fn answer_of(query: &PastQuery<'_>) -> Option<Vec<u8>> {
    if query.addresses.is_empty() && query.alias.is_none() {
        return None;
    }
    let mut message = vec![0; MAX_MESSAGE];
    let mut builder = Builder::new(&mut message, MAX_MESSAGE, 0, QR).ok()?;
    builder.question(query.name.wire(), query.rtype, Class::IN).ok()?;
    let mut owner = query.name.wire();
    if let Some(alias) = &query.alias {
        let alias = alias.wire();
        builder.record(Section::Answer, &record_of(owner, Rtype::CNAME, alias)).ok()?;
        owner = alias;
    }
    for address in &query.addresses {
        let (rtype, rdata) = match address {
            IpAddr::V4(address) => (Rtype::A, address.octets().to_vec()),
            IpAddr::V6(address) => (Rtype::AAAA, address.octets().to_vec()),
        };
        if builder.record(Section::Answer, &record_of(owner, rtype, &rdata)).is_err() {
            break;
        }
    }
    let len = builder.finish();
    message.truncate(len);
    Some(message)
}

fn record_of<'r>(owner: &'r [u8], rtype: Rtype, rdata: &'r [u8]) -> Record<'r> {
    Record { owner, rtype, class: Class::IN, ttl_secs: 0, rdata }
}
