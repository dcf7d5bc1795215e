//! The responses in RFC 4035 appendix B and RFC 5155 appendix B: the original records, signed with
//! a new key.

use avocet_dnssec::{
    Budget, Delegation, DelegationKind, Denial, DenialKind, Proof, Reason, ZoneKeys,
};
use avocet_wire::{NameBuf, Rtype};

use crate::chains::keys_of;
use crate::sets::{Set, context, rtype, wire, with_all};
use crate::signatures::verify;
use crate::signer::Signer;

/// The NSEC records of RFC 4035 appendix A: owners and data.
const NSECS: [(&str, &str); 10] = [
    ("example.", "a.example. NS SOA MX RRSIG NSEC DNSKEY"),
    ("a.example.", "ai.example. NS DS RRSIG NSEC"),
    ("ai.example.", "b.example. A HINFO AAAA RRSIG NSEC"),
    ("b.example.", "ns1.example. NS RRSIG NSEC"),
    ("ns1.example.", "ns2.example. A RRSIG NSEC"),
    ("ns2.example.", "*.w.example. A RRSIG NSEC"),
    ("*.w.example.", "x.w.example. MX RRSIG NSEC"),
    ("x.w.example.", "x.y.w.example. MX RRSIG NSEC"),
    ("x.y.w.example.", "xx.example. MX RRSIG NSEC"),
    ("xx.example.", "example. A HINFO AAAA RRSIG NSEC"),
];

/// The NSEC3 records of RFC 5155 appendix A: owners, next hashes and types. All have the opt-out
/// flag.
const NSEC3S: [(&str, &str); 12] = [
    (
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom",
        "2t7b4g4vsa5smi47k61mv5bv1a22bojr MX DNSKEY NS SOA NSEC3PARAM RRSIG",
    ),
    ("2t7b4g4vsa5smi47k61mv5bv1a22bojr", "2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG"),
    ("2vptu5timamqttgl4luu9kg21e0aor3s", "35mthgpgcu1qg68fab165klnsnk3dpvl MX RRSIG"),
    ("35mthgpgcu1qg68fab165klnsnk3dpvl", "b4um86eghhds6nea196smvmlo4ors995 NS DS RRSIG"),
    ("b4um86eghhds6nea196smvmlo4ors995", "gjeqe526plbf1g8mklp59enfd789njgi MX RRSIG"),
    ("gjeqe526plbf1g8mklp59enfd789njgi", "ji6neoaepv8b5o6k4ev33abha8ht9fgc HINFO A AAAA RRSIG"),
    ("ji6neoaepv8b5o6k4ev33abha8ht9fgc", "k8udemvp1j2f7eg6jebps17vp3n8i58h"),
    ("k8udemvp1j2f7eg6jebps17vp3n8i58h", "kohar7mbb8dc2ce8a9qvl8hon4k53uhi"),
    ("kohar7mbb8dc2ce8a9qvl8hon4k53uhi", "q04jkcevqvmu85r014c7dkba38o0ji5r A RRSIG"),
    ("q04jkcevqvmu85r014c7dkba38o0ji5r", "r53bq7cc2uvmubfu5ocmm6pers9tk9en A RRSIG"),
    ("r53bq7cc2uvmubfu5ocmm6pers9tk9en", "t644ebqk9bibcna874givr6joj62mlhv MX RRSIG"),
    ("t644ebqk9bibcna874givr6joj62mlhv", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom HINFO A AAAA RRSIG"),
];

/// The records of one response in the example zone.
struct Response {
    keys: ZoneKeys,
    sets: Vec<Set>,
}

impl Response {
    /// Returns the response with the records whose owners begin with one of these strings.
    fn with(owners: &[&str]) -> Self {
        let signer = Signer::of("example.");
        let nsec = |(owner, text): &(&str, &str)| Set::of(owner, "NSEC", &[text]);
        let nsec3 = |(hash, text): &(&str, &str)| {
            Set::of(&format!("{hash}.example."), "NSEC3", &[&format!("1 1 12 aabbccdd {text}")])
        };
        let wanted = |owner: &str| {
            owners
                .iter()
                .any(|start| *start == owner || owner.starts_with(start) && start.len() == 8)
        };
        let nsecs = NSECS.iter().filter(|(owner, _)| wanted(owner)).map(nsec);
        let nsec3s = NSEC3S.iter().filter(|(hash, _)| wanted(hash)).map(nsec3);
        let mut sets: Vec<Set> = nsecs.chain(nsec3s).collect();
        assert_eq!(sets.len(), owners.len(), "{owners:?}");
        sets.iter_mut().for_each(|set| signer.sign(set));
        Self { keys: keys_of(&signer), sets }
    }

    fn ask<R>(&self, ask: impl FnOnce(&mut Proof<'_>, &mut Budget) -> R) -> R {
        with_all(&self.sets, |rrsets| {
            ask(&mut Proof::signed(rrsets, &self.keys, &context()), &mut Budget::default())
        })
    }

    fn nxdomain(&self, qname: &str) -> Result<Denial, Reason> {
        self.ask(|proof, budget| proof.nxdomain(&wire(qname), budget))
    }

    fn nodata(&self, qname: &str, qtype: &str) -> Result<Denial, Reason> {
        self.ask(|proof, budget| proof.nodata(&wire(qname), rtype(qtype), budget))
    }

    fn delegation(&self, child: &str) -> Result<DelegationKind, Reason> {
        self.ask(|proof, budget| proof.delegation(&wire(child), budget))
            .map(|found: Delegation| found.kind)
    }

    fn expansion(&self, qname: &str, encloser: &str) -> Result<Denial, Reason> {
        let encloser = NameBuf::from_wire(&wire(encloser)).unwrap();
        self.ask(|proof, budget| proof.expansion(&wire(qname), &encloser, budget))
    }
}

/// Checks that the records of a response prove the fact, and that they do not if one of them is
/// missing.
#[track_caller]
fn check(
    owners: &[&str],
    expected: DenialKind,
    ask: impl Fn(&Response) -> Result<Denial, Reason>,
) -> Denial {
    let denial = ask(&Response::with(owners)).unwrap();
    assert_eq!(denial.kind, expected);
    for left_out in 0..owners.len() {
        let mut owners = owners.to_vec();
        owners.remove(left_out);
        assert_eq!(ask(&Response::with(&owners)), Err(Reason::DenialMissing), "{owners:?}");
    }
    denial
}

#[test]
fn rfc4035_b2_name_error() {
    let denial =
        check(&["b.example.", "example."], DenialKind::Nxdomain, |r| r.nxdomain("ml.example."));
    assert_eq!((denial.closest_encloser.wire(), denial.is_opt_out), (&wire("example.")[..], false));
}

#[test]
fn rfc4035_b3_no_data() {
    check(&["ns1.example."], DenialKind::Nodata, |r| r.nodata("ns1.example.", "MX"));
    assert!(Response::with(&["ns1.example."]).nodata("ns1.example.", "A").is_err());
}

#[test]
fn rfc4035_b4_and_b5_referrals() {
    assert_eq!(
        Response::with(&["b.example."]).delegation("b.example."),
        Ok(DelegationKind::Unsigned)
    );
    assert_eq!(
        Response::with(&["a.example."]).delegation("a.example."),
        Err(Reason::DenialMissing),
        "it has DS"
    );
}

#[test]
fn rfc4035_b6_wildcard_expansion() {
    check(&["x.y.w.example."], DenialKind::Expansion, |r| {
        r.expansion("a.z.w.example.", "w.example.")
    });
    let signer = Signer::of("example.");
    let mut answer = Set::of("*.w.example.", "MX", &["1 ai.example."]);
    signer.sign(&mut answer);
    answer.owner = wire("a.z.w.example.");
    let encloser = verify(&answer, &keys_of(&signer)).unwrap().closest_encloser;
    assert_eq!(encloser.unwrap().wire(), wire("w.example."));
    assert!(
        Response::with(&["x.y.w.example."]).expansion("x.y.w.example.", "w.example.").is_err(),
        "the name exists"
    );
    assert!(
        Response::with(&["x.y.w.example."]).expansion("a.x.y.w.example.", "w.example.").is_err(),
        "a nearer name"
    );
}

#[test]
fn rfc4035_b7_wildcard_no_data() {
    let owners = ["x.y.w.example.", "*.w.example."];
    check(&owners, DenialKind::WildcardNodata, |r| r.nodata("a.z.w.example.", "AAAA"));
    assert!(Response::with(&owners).nodata("a.z.w.example.", "MX").is_err());
}

#[test]
fn rfc4035_b8_ds_at_the_childs_side() {
    assert_eq!(Response::with(&["example."]).nodata("example.", "DS"), Err(Reason::DenialMissing));
}

#[test]
fn rfc5155_b1_name_error() {
    let owners = ["0p9mhave", "b4um86eg", "35mthgpg"];
    let denial = check(&owners, DenialKind::Nxdomain, |r| r.nxdomain("a.c.x.w.example."));
    assert_eq!(denial.closest_encloser.wire(), wire("x.w.example."));
    assert!(denial.is_opt_out);
}

#[test]
fn rfc5155_b2_no_data() {
    check(&["2t7b4g4v"], DenialKind::Nodata, |r| r.nodata("ns1.example.", "MX"));
    check(&["ji6neoae"], DenialKind::Nodata, |r| r.nodata("y.w.example.", "A"));
}

#[test]
fn rfc5155_b3_referral_to_an_opt_out_delegation() {
    let owners = ["35mthgpg", "0p9mhave"];
    assert_eq!(Response::with(&owners).delegation("c.example."), Ok(DelegationKind::OptOut));
    for owner in owners {
        assert_eq!(Response::with(&[owner]).delegation("c.example."), Err(Reason::DenialMissing));
    }
    let denial = Response::with(&owners).nodata("c.example.", "DS").unwrap();
    assert!(denial.is_opt_out);
}

#[test]
fn rfc5155_b4_wildcard_expansion() {
    check(&["q04jkcev"], DenialKind::Expansion, |r| r.expansion("a.z.w.example.", "w.example."));
}

#[test]
fn rfc5155_b5_wildcard_no_data() {
    let owners = ["k8udemvp", "q04jkcev", "r53bq7cc"];
    let ask = |response: &Response| response.nodata("a.z.w.example.", "AAAA");
    assert_eq!(ask(&Response::with(&owners)).unwrap().kind, DenialKind::WildcardNodata);
    assert_eq!(
        ask(&Response::with(&owners[1..])),
        Err(Reason::DenialMissing),
        "the closest encloser"
    );
    assert_eq!(
        ask(&Response::with(&["k8udemvp", "r53bq7cc"])),
        Err(Reason::DenialMissing),
        "the next closer name"
    );
    assert!(Response::with(&owners).nodata("a.z.w.example.", "MX").is_err());
}

#[test]
fn rfc5155_b6_ds_at_the_childs_side() {
    assert_eq!(Response::with(&["0p9mhave"]).nodata("example.", "DS"), Err(Reason::DenialMissing));
    let at_parent = Response::with(&["0p9mhave"])
        .ask(|proof, budget| proof.nodata(&wire("example."), Rtype::A, budget));
    assert!(at_parent.is_ok());
}
