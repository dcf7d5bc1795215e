//! Response policy zones: triggers, actions and precedence according to the draft.

use std::net::IpAddr;

use avocet_policy::rpz::{
    Action, Found, TriggerKind, Zone, ZoneReport, ZoneRewrites, ZoneSet, Zones,
};
use avocet_wire::Rtype;
use avocet_wire::hash::HashKey;

const HEAD: &str =
    "$ORIGIN rpz.example.\n$TTL 2h\n@ SOA localhost. root.localhost. ( 1 12h 15m 3w 2h )\n";

const ALL: ZoneSet = ZoneSet::ALL;

fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

fn read(text: &str) -> (Zone, ZoneReport) {
    Zone::read(format!("{HEAD}{text}").as_bytes(), ZoneRewrites::Permitted, HashKey::default())
}

fn zones(texts: &[&str]) -> Zones {
    let zones = texts.iter().map(|text| {
        let (zone, report) = read(text);
        assert_eq!(report.first_faults, [], "{text}");
        zone
    });
    Zones::of(zones.collect()).unwrap()
}

fn shown(found: Option<Found<'_>>) -> String {
    found.map_or_else(
        || "-".to_owned(),
        |found| format!("{}:{} {:?}", found.zone, found.line, found.kind),
    )
}

fn on_qname(zones: &Zones, name: &str) -> String {
    shown(zones.on_qname(ALL, &wire(name)))
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn on_answer(zones: &Zones, texts: &[&str]) -> String {
    let addresses = addresses(texts);
    shown(zones.on_answer_addresses(ALL, || addresses.iter().copied()))
}

#[test]
fn names_and_wildcards_fire_as_in_a_zone() {
    let zones =
        zones(&["a.example CNAME .\n*.b.example CNAME .\n*.c.example CNAME .\nx.c.example CNAME \
         rpz-passthru.\n"]);
    assert_eq!(on_qname(&zones, "a.example"), "0:4 Qname");
    assert_eq!(on_qname(&zones, "www.a.example"), "-");
    assert_eq!(on_qname(&zones, "b.example"), "-");
    assert_eq!(on_qname(&zones, "www.b.example"), "0:5 Qname");
    assert_eq!(on_qname(&zones, "a.b.c.b.example"), "0:5 Qname");
    assert_eq!(on_qname(&zones, "x.c.example"), "0:7 Qname");
    assert_eq!(on_qname(&zones, "y.c.example"), "0:6 Qname");
    // The closest encloser is x.c.example, which has no wildcard (RFC 4592 §2.2.1).
    assert_eq!(on_qname(&zones, "y.x.c.example"), "-");
    assert_eq!(on_qname(&zones, "other"), "-");
}

#[test]
fn every_action_is_read() {
    let zones =
        zones(&["nx CNAME .\nnodata CNAME *.\npass CNAME rpz-passthru.\ndrop CNAME rpz-drop.\n\
        tcp CNAME rpz-tcp-only.\nself CNAME self.\nalias CNAME Walled.example.\n*.garden CNAME \
        *.walled.example.\n\
        data A 192.0.2.1\ndata 60 A 192.0.2.2\ndata TXT why\n"]);
    let action = |name: &str| zones.on_qname(ALL, &wire(name)).unwrap().action;
    assert_eq!(action("nx"), &Action::NxDomain);
    assert_eq!(action("nodata"), &Action::NoData);
    assert_eq!(action("pass"), &Action::Passthru);
    assert_eq!(action("drop"), &Action::Drop);
    assert_eq!(action("tcp"), &Action::TcpOnly);
    assert_eq!(action("self"), &Action::Passthru);
    assert_eq!(action("alias").alias(b"\0").unwrap().wire(), wire("walled.example"));
    let garden = wire("x.garden");
    assert_eq!(action("x.garden").alias(&garden).unwrap().wire(), wire("x.garden.walled.example"));
    let data = action("data");
    assert_eq!(
        data.records(Rtype::A).map(|record| record.ttl_secs).collect::<Vec<_>>(),
        [7200, 60]
    );
    assert_eq!((data.records(Rtype::TXT).count(), data.records(Rtype::AAAA).count()), (1, 0));
    assert_eq!(data.records(Rtype::ANY).count(), 3);
}

#[test]
fn the_longest_prefix_and_then_the_smallest_address_fire() {
    let zones = zones(&[
        "8.0.0.0.10.rpz-ip CNAME .\n24.0.1.1.10.rpz-ip CNAME *.\n24.0.2.1.10.rpz-ip A 192.0.2.1\n\
        32.zz.db8.2001.rpz-ip CNAME .\n128.1.zz.db8.2001.rpz-ip CNAME rpz-passthru.\n",
    ]);
    assert_eq!(on_answer(&zones, &["10.9.9.9"]), "0:4 AnswerAddress");
    assert_eq!(on_answer(&zones, &["10.9.9.9", "10.1.2.3"]), "0:6 AnswerAddress");
    assert_eq!(on_answer(&zones, &["10.1.2.3", "10.1.1.3"]), "0:5 AnswerAddress");
    assert_eq!(on_answer(&zones, &["2001:db8::2"]), "0:7 AnswerAddress");
    assert_eq!(on_answer(&zones, &["2001:db8::2", "2001:db8::1"]), "0:8 AnswerAddress");
    assert_eq!(on_answer(&zones, &["192.0.2.1", "2001:db9::"]), "-");
    assert_eq!(on_answer(&zones, &[]), "-");
}

#[test]
fn clients_and_servers_fire_by_address_and_name() {
    let zones =
        zones(&["24.0.2.0.192.rpz-client-ip CNAME rpz-drop.\n32.53.0.0.10.rpz-nsip CNAME .\n\
        ns.bad.example.rpz-nsdname CNAME .\n*.worse.example.rpz-nsdname CNAME *.\n"]);
    assert_eq!(shown(zones.on_client(ALL, "192.0.2.77".parse().unwrap())), "0:4 ClientAddress");
    assert_eq!(shown(zones.on_client(ALL, "192.0.3.77".parse().unwrap())), "-");
    let servers = addresses(&["10.0.0.52", "10.0.0.53"]);
    assert_eq!(shown(zones.on_nsaddresses(ALL, || servers.iter().copied())), "0:5 NsAddress");
    let on_names = |names: &[&str]| {
        let names: Vec<Vec<u8>> = names.iter().map(|name| wire(name)).collect();
        shown(zones.on_nsnames(ALL, || names.iter().map(|name| &name[..])))
    };
    assert_eq!(on_names(&["ns.bad.example"]), "0:6 NsName");
    assert_eq!(on_names(&["a.worse.example", "ns.bad.example"]), "0:6 NsName");
    assert_eq!(on_names(&["a.worse.example"]), "0:7 NsName");
    assert_eq!(on_names(&["ns2.bad.example"]), "-");
}

#[test]
fn the_earlier_zone_goes_before_the_earlier_kind() {
    let zones = zones(&[
        "32.1.2.0.192.rpz-ip CNAME .\n",
        "a.example CNAME .\n32.9.2.0.192.rpz-client-ip CNAME rpz-drop.\n",
        "32.8.2.0.192.rpz-client-ip CNAME rpz-drop.\n",
    ]);
    let client = zones.on_client(ALL, "192.0.2.9".parse().unwrap());
    let qname = zones.on_qname(ALL, &wire("a.example"));
    let answers = addresses(&["192.0.2.1"]);
    let answer = zones.on_answer_addresses(ALL, || answers.iter().copied());
    assert_eq!(shown(Found::best(qname, client)), "1:5 ClientAddress");
    assert_eq!(shown(Found::best(client, qname)), "1:5 ClientAddress");
    assert_eq!(shown(Found::best(Found::best(client, qname), answer)), "0:4 AnswerAddress");
    assert_eq!(shown(Found::best(None, qname)), "1:4 Qname");
    // The first zone may still apply by the address of the answer.
    assert!(!zones.is_settled(ALL, &client.unwrap(), TriggerKind::ClientAddress));
    assert!(!zones.is_settled(ALL, &client.unwrap(), TriggerKind::Qname));
    assert!(zones.is_settled(ALL, &client.unwrap(), TriggerKind::AnswerAddress));
    // A name of the second zone takes precedence over a client of the third.
    let third = zones.on_client(ALL, "192.0.2.8".parse().unwrap());
    assert_eq!(shown(Found::best(third, qname)), "1:4 Qname");
    assert!(zones.has(TriggerKind::AnswerAddress) && !zones.has(TriggerKind::NsName));
}

#[test]
fn within_a_zone_kinds_go_in_their_order() {
    let zones =
        zones(&["8.0.0.0.10.rpz-nsip CNAME .\na CNAME .\n8.0.0.0.10.rpz-client-ip CNAME .\n"]);
    let ten = addresses(&["10.1.1.1"]);
    let (qname, client) = (zones.on_qname(ALL, &wire("a")), zones.on_client(ALL, ten[0]));
    let server = zones.on_nsaddresses(ALL, || ten.iter().copied());
    assert_eq!(shown(Found::best(server, qname)), "0:5 Qname");
    assert_eq!(shown(Found::best(qname, client)), "0:6 ClientAddress");
    assert!(zones.is_settled(ALL, &client.unwrap(), TriggerKind::ClientAddress));
    assert!(zones.is_settled(ALL, &qname.unwrap(), TriggerKind::Qname));
    assert!(zones.is_settled(ALL, &server.unwrap(), TriggerKind::NsAddress));
}

#[test]
fn faults_are_counted_with_their_lines_and_the_rest_counts() {
    let (zone, report) = read(
        "a A 1.2.3\n33.1.2.0.192.rpz-ip CNAME .\nb.other. CNAME .\nc CNAME .\nc A 192.0.2.1\nd \
         CNAME .\n",
    );
    let told: Vec<String> = report
        .first_faults
        .iter()
        .map(|fault| format!("{}: {}", fault.line, fault.reason))
        .collect();
    assert_eq!(told.len(), 4);
    assert!(told[0].starts_with("4: the data"));
    assert_eq!(
        told[1..],
        [
            "5: the owner is not a trigger",
            "6: the owner is not in the zone",
            "8: a CNAME and other records with the same owner",
        ]
    );
    assert_eq!((report.triggers, report.skipped, report.faults), ([0, 2, 0, 0, 0], 1, 4));
    assert_eq!(zone.origin().to_string(), "rpz.example.");
    let zones = Zones::of(vec![zone]).unwrap();
    assert_eq!(on_qname(&zones, "d"), "0:9 Qname");
}

#[test]
fn a_zone_without_soa_is_read_and_reported() {
    let read =
        |text: &str| Zone::read(text.as_bytes(), ZoneRewrites::Permitted, HashKey::default());
    let (zone, report) = read("a.example CNAME .\nb.example. CNAME .\n");
    assert_eq!((report.faults, report.triggers[1]), (1, 2));
    assert_eq!(report.first_faults[0].line, 1);
    assert_eq!(on_qname(&Zones::of(vec![zone]).unwrap(), "b.example"), "0:2 Qname");
    let (zone, report) = read("@ SOA a. b. 1 2 3 4 5\na.example 60 CNAME .\nb.example. CNAME .\n");
    assert_eq!((report.faults, zone.origin().to_string()), (0, ".".to_owned()));
    assert_eq!(on_qname(&Zones::of(vec![zone]).unwrap(), "a.example"), "0:2 Qname");
}

#[test]
fn a_zone_that_may_only_block_chooses_no_answers() {
    let text = format!("{HEAD}a CNAME .\nb A 192.0.2.1\nc CNAME walled.example.\nd CNAME d.\n");
    let (zone, report) = Zone::read(text.as_bytes(), ZoneRewrites::Refused, HashKey::default());
    let lines: Vec<u32> = report.first_faults.iter().map(|fault| fault.line).collect();
    assert_eq!((lines, report.triggers[1]), (vec![5, 6], 2));
    let zones = Zones::of(vec![zone]).unwrap();
    assert_eq!(zones.on_qname(ALL, &wire("d")).unwrap().action, &Action::Passthru);
}

#[test]
fn a_duplicate_record_counts_once() {
    let (zone, report) = read("a CNAME .\na CNAME .\nb A 192.0.2.1\nb A 192.0.2.1\na CNAME *.\n");
    assert_eq!((report.faults, report.first_faults[0].line, report.triggers[1]), (1, 8, 2));
    let zones = Zones::of(vec![zone]).unwrap();
    assert_eq!(zones.on_qname(ALL, &wire("b")).unwrap().action.records(Rtype::A).count(), 1);
}

#[test]
fn only_zones_in_force_fire() {
    let zones = zones(&["32.1.2.0.192.rpz-ip CNAME .\na CNAME .\n", "a CNAME *.\n"]);
    let mut second = ZoneSet::default();
    second.insert(1);
    let found = zones.on_qname(second, &wire("a"));
    assert_eq!(shown(found), "1:4 Qname");
    assert!(zones.is_settled(second, &found.unwrap(), TriggerKind::Qname));
    assert!(!zones.is_settled(ALL, &found.unwrap(), TriggerKind::Qname));
}

#[test]
fn a_short_prefix_of_ipv6_says_nothing_of_ipv4() {
    let zones = zones(&[
        "8.zz.rpz-ip CNAME .\n24.0.2.0.192.rpz-client-ip CNAME .\n48.zz.1.db8.2001.rpz-client-ip \
         CNAME .\n",
    ]);
    assert_eq!(on_answer(&zones, &["192.0.2.1"]), "-");
    assert_eq!(on_answer(&zones, &["::1"]), "0:4 AnswerAddress");
    let mut networks: Vec<String> =
        zones.zone(0).unwrap().client_networks().map(|network| network.to_string()).collect();
    networks.sort();
    assert_eq!(networks, ["192.0.2.0/24", "2001:db8:1::/48"]);
}
