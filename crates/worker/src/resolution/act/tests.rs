use std::collections::BTreeMap;
use std::sync::Arc;

use avocet_config::Config;
use avocet_io::poll::Poller;
use avocet_nameserver::policy::Parts;
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::cookie::CookieSecrets;
use avocet_nameserver::query::miss::{StreamRoute, Way};
use avocet_nameserver::query::{Client, Incoming};
use avocet_nameserver::snapshot::{Snapshot, Unconfigured};
use avocet_policy::client::DeviceClaims;

use super::*;
use crate::certificates::TlsListeners;
use crate::setup::Setup;
use crate::state::Shared;
use crate::threads::mailboxes;
use crate::upstream_tls::UpstreamPeers;

const TEXT: &str =
    "[resolver]\nmode = \"forward\"\n[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\n";

/// Counts the queries that have ended.
struct Counting(usize);

impl Deliver for &mut Counting {
    fn deliver(&mut self, _: LateStep<'_>) {
        self.0 += 1;
    }
}

fn resolution() -> Resolution {
    let config = Config::from_text(None, TEXT, &BTreeMap::new()).unwrap();
    let (_, mailboxes) = mailboxes(1).unwrap();
    let cookies = CookieSecrets { current: [6; 16], previous: None };
    let secrets = Unconfigured::new([9; 32], cookies);
    let snapshot = Snapshot::first(config, &secrets, Parts::new([8; 32])).unwrap();
    let tls = (TlsListeners::load(&snapshot.config).unwrap(), UpstreamPeers::default());
    let shared = Arc::new(Shared::new(snapshot, mailboxes, [7; 32], tls).unwrap());
    let setup = Setup {
        index: 0,
        pool_size: 1,
        upstream_sockets: 1,
        most_streams: 1,
        seed: [5; 32],
        quic_seed: [4; 32],
    };
    Resolution::new(&setup, shared)
}

/// Returns a query that waits for `www.example. A`.
fn waiter(resolution: &mut Resolution, time: Time) -> Box<Waiter> {
    let octets =
        b"\x00\x09\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01";
    let route = StreamRoute { worker: 0, slot: 0, generation: 0, request: 0 };
    let client = Client {
        ip: [127, 0, 0, 1].into(),
        transport: Transport::Tcp,
        is_tls12: false,
        entrance: Entrance(0),
        claims: DeviceClaims::default(),
        route: Way::Stream(route),
    };
    let path = resolution.lend(time);
    let output = Output { message: path.message, misses: path.misses };
    let step = query::answer(&path.cx, Incoming { octets, seen: None }, &client, output);
    assert!(matches!(step, QueryStep::Resolve));
    resolution.misses.pop().and_then(|miss| miss.waiter).expect("a client that waits")
}

#[test]
fn the_waiters_of_an_action_share_the_time_of_several_turns() {
    let mut resolution = resolution();
    let time = Time { now: resolution.shared.name_server.clock.now(), wall_secs: 1_795_262_400 };
    let waiter = waiter(&mut resolution, time);
    let poller = Poller::new().unwrap();
    let mut ended = Counting(0);
    let mut turn = WorkerTurn { poller: &poller, time, late: &mut ended };
    resolution.actions.list.push(Action::Overdue { waiters: 0..3 });
    resolution.actions.waiters = vec![waiter; 3];
    for expected in 1..=3 {
        // The first query of each turn uses up its time.
        resolution.allowance.renew();
        let mut batch = resolution.next_batch().expect("a query that waits");
        resolution.allowance.take(u64::MAX);
        let (place, answered) = (batch.next, batch.answered);
        let action = &batch.actions.list[place];
        let left = resolution.perform((place, action), (&batch.actions, answered), &mut turn);
        assert_eq!((turn.late.0, left), (expected, Some(expected).filter(|count| *count < 3)));
        batch.answered = left.unwrap_or_default();
        resolution.backlog = Some(batch);
        assert!(resolution.is_behind());
    }
    // A turn with time answers all of them.
    resolution.backlog.as_mut().expect("the batch").answered = 0;
    resolution.allowance.renew();
    while resolution.is_behind() {
        resolution.allowance.renew();
        resolution.act(&mut turn);
    }
    assert_eq!(turn.late.0, 6);
}
