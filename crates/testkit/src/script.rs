//! Messages in the words of zone files: what scripted servers understand and say.

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::edns::{Edns, EdnsOption};
use avocet_wire::header::{QR, RA, RD, TC};
use avocet_wire::{Builder, Class, Ede, NameBuf, QueryView, Rcode, Rtype, Section, rdata, text};

/// The wire form of a name in presentation form.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn name(shown: &str) -> Vec<u8> {
    let mut wire = [0; 255];
    let len = text::name_to_wire(shown.as_bytes(), Some(&[0]), &mut wire).expect("a name");
    wire[..len].to_vec()
}

/// The wire form of a question of class IN: "www.example. A".
///
/// # Panics
/// If it is none.
#[must_use]
pub fn question(shown: &str) -> Vec<u8> {
    let (qname, qtype) = shown.split_once(' ').expect("a name and a type");
    let mut octets = name(qname);
    octets.extend(rdata::from_mnemonic(qtype).expect("a type").to_be_bytes());
    octets.extend([0, 1]);
    octets
}

/// A wire name in presentation form.
///
/// # Panics
/// If it is no name.
#[must_use]
pub fn shown(wire: &[u8]) -> String {
    NameBuf::from_wire(wire).expect("a name").to_string()
}

/// A query that a scripted server got.
#[derive(Clone, Debug)]
pub struct Query {
    /// All octets.
    pub octets: Vec<u8>,
    /// The question as sent.
    pub question: Vec<u8>,
    /// QNAME in lower case, in presentation form.
    pub qname: String,
    /// QTYPE.
    pub qtype: Rtype,
    /// ID.
    pub id: u16,
    /// Is there an OPT record, and is DO set in it?
    pub edns: Option<bool>,
    /// Data of the cookie option.
    pub cookie: Option<Vec<u8>>,
    /// Is there a client subnet?
    pub ecs: bool,
    /// Did it come over TCP?
    pub over_tcp: bool,
}

impl Query {
    /// Reads a query.
    ///
    /// # Panics
    /// If it is malformed: then the tested code is wrong.
    #[must_use]
    pub fn read(octets: &[u8], over_tcp: bool) -> Self {
        let view = QueryView::parse(octets).expect("a well-formed query");
        let qname = NameBuf::from_wire(view.qname()).expect("a name").folded();
        let options: Vec<_> =
            view.edns.iter().flat_map(Edns::options).map(|o| o.expect("an option")).collect();
        let cookie = options.iter().find_map(|option| match option {
            EdnsOption::Cookie { client, server } => Some([&client[..], server].concat()),
            _ => None,
        });
        Self {
            octets: octets.to_vec(),
            question: octets[12..12 + view.qname().len() + 4].to_vec(),
            qname: qname.to_string(),
            qtype: view.qtype,
            id: view.header().id,
            edns: view.edns.map(|edns| edns.dnssec_ok),
            cookie,
            ecs: options.iter().any(|option| matches!(option, EdnsOption::Ecs { .. })),
            over_tcp,
        }
    }
}

/// A reply being made.
#[derive(Clone, Debug)]
pub struct Response {
    question: Vec<u8>,
    id: u16,
    flags: u16,
    rcode: Rcode,
    records: Vec<(Section, String)>,
    edns: bool,
    cookie: Option<Vec<u8>>,
    ede: Option<u16>,
    agent: Option<Vec<u8>>,
    /// SCOPE PREFIX-LENGTH of a client subnet option.
    scope: Option<u8>,
}

impl Response {
    /// The reply of a recursive server to this query: NOERROR, nothing in it, EDNS if the query
    /// has it.
    #[must_use]
    pub fn to(query: &Query) -> Self {
        Self {
            question: query.question.clone(),
            id: query.id,
            flags: QR | RA | RD,
            rcode: Rcode::NOERROR,
            records: Vec::new(),
            edns: query.edns.is_some(),
            cookie: None,
            ede: None,
            agent: None,
            scope: None,
        }
    }

    /// With this RCODE.
    #[must_use]
    pub fn rcode(mut self, rcode: Rcode) -> Self {
        self.rcode = rcode;
        self
    }

    /// With a record: "www.example. 60 A 192.0.2.1".
    #[must_use]
    pub fn answer(mut self, record: &str) -> Self {
        self.records.push((Section::Answer, record.to_owned()));
        self
    }

    /// With a record in the authority section.
    #[must_use]
    pub fn authority(mut self, record: &str) -> Self {
        self.records.push((Section::Authority, record.to_owned()));
        self
    }

    /// With a record in the additional section.
    #[must_use]
    pub fn additional(mut self, record: &str) -> Self {
        self.records.push((Section::Additional, record.to_owned()));
        self
    }

    /// With these header flags, too.
    #[must_use]
    pub fn flags(mut self, flags: u16) -> Self {
        self.flags |= flags;
        self
    }

    /// Without these header flags.
    #[must_use]
    pub fn without_flags(mut self, flags: u16) -> Self {
        self.flags &= !flags;
        self
    }

    /// Truncated.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.flags |= TC;
        self
    }

    /// Without EDNS.
    #[must_use]
    pub fn without_edns(mut self) -> Self {
        self.edns = false;
        self
    }

    /// With this cookie option.
    #[must_use]
    pub fn cookie(mut self, cookie: &[u8]) -> Self {
        self.cookie = Some(cookie.to_vec());
        self
    }

    /// With this extended error.
    #[must_use]
    pub fn ede(mut self, code: u16) -> Self {
        self.ede = Some(code);
        self
    }

    /// With somebody who takes reports of errors (RFC 9567).
    #[must_use]
    pub fn agent(mut self, domain: &str) -> Self {
        self.agent = Some(name(domain));
        self
    }

    /// With the client subnet 192.0.2.0/24 and this scope (RFC 7871).
    #[must_use]
    pub fn scope(mut self, prefix_len: u8) -> Self {
        self.scope = Some(prefix_len);
        self
    }

    /// With another ID.
    #[must_use]
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// With another question.
    #[must_use]
    pub fn question(mut self, question: &[u8]) -> Self {
        self.question = question.to_vec();
        self
    }

    /// The octets.
    ///
    /// # Panics
    /// If a record cannot be read.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut out = vec![0; 65_535];
        let mut builder =
            Builder::new(&mut out, 65_535, self.id, self.flags | self.rcode.low()).expect("room");
        let (qname, fixed) = self.question.split_last_chunk::<4>().expect("a question");
        let qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
        builder
            .question(qname, qtype, Class(u16::from_be_bytes([fixed[2], fixed[3]])))
            .expect("room");
        for (section, record) in &self.records {
            put_record(&mut builder, *section, record);
        }
        if self.edns {
            let fields = OptFields { udp_size: 1232, rcode: self.rcode, dnssec_ok: false };
            let cookie = self.cookie.as_ref().and_then(|cookie| EdnsOption::read(10, cookie).ok());
            let ede = self.ede.map(|code| EdnsOption::Ede(Ede(code), b""));
            let agent = self.agent.as_deref().map(EdnsOption::ReportChannel);
            let subnet = self.scope.map(|scope_prefix| EdnsOption::Ecs {
                family: 1,
                source_prefix: 24,
                scope_prefix,
                address: &[192, 0, 2],
            });
            let options: Vec<_> =
                cookie.into_iter().chain(ede).chain(agent).chain(subnet).collect();
            builder.opt(&fields, &options).expect("room");
        }
        let len = builder.finish();
        out.truncate(len);
        out
    }
}

fn put_record(builder: &mut Builder<'_>, section: Section, record: &str) {
    let mut fields = record.splitn(4, ' ');
    let mut field = || fields.next().expect("OWNER TTL TYPE DATA");
    let owner = name(field());
    let ttl_secs = field().parse().expect("a TTL");
    let rtype = rdata::from_mnemonic(field()).expect("a type");
    let mut data = Vec::new();
    rdata::parse(rtype, field(), &[0], &mut data)
        .unwrap_or_else(|error| panic!("{record}: {error}"));
    let record =
        Record { owner: &owner, rtype: Rtype(rtype), class: Class::IN, ttl_secs, rdata: &data };
    builder.record(section, &record).expect("room");
}
