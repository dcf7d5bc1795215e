//! Messages in the notation of zone files, for scripted servers.

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::edns::{Edns, EdnsOption};
use avocet_wire::header::{QR, RA, RD, TC};
use avocet_wire::{Builder, Class, Ede, NameBuf, QueryView, Rcode, Rtype, Section, rdata, text};

/// Returns the wire form of a name in presentation form.
///
/// # Panics
/// The text is not a name.
#[must_use]
pub fn name(shown: &str) -> Vec<u8> {
    let mut wire = [0; 255];
    let len = text::name_to_wire(shown.as_bytes(), Some(&[0]), &mut wire).expect("a name");
    wire[..len].to_vec()
}

/// Returns the wire form of a question of class IN, such as "www.example. A".
///
/// # Panics
/// The text is not a question.
#[must_use]
pub fn question(shown: &str) -> Vec<u8> {
    let (qname, qtype) = shown.split_once(' ').expect("a name and a type");
    let mut octets = name(qname);
    octets.extend(rdata::from_mnemonic(qtype).expect("a type").to_be_bytes());
    octets.extend([0, 1]);
    octets
}

/// Returns a wire name in presentation form.
///
/// # Panics
/// The octets are not a name.
#[must_use]
pub fn shown(wire: &[u8]) -> String {
    NameBuf::from_wire(wire).expect("a name").to_string()
}

/// A query received by a scripted server.
#[derive(Clone, Debug)]
pub struct Query {
    /// The octets of the query.
    pub octets: Vec<u8>,
    /// The question as sent.
    pub question: Vec<u8>,
    /// QNAME in lower case, in presentation form.
    pub qname: String,
    /// QTYPE.
    pub qtype: Rtype,
    /// ID.
    pub id: u16,
    /// The DO flag, `None` without OPT.
    pub edns: Option<bool>,
    /// Data of the cookie option.
    pub cookie: Option<Vec<u8>>,
    /// Whether there is a client subnet option.
    pub ecs: bool,
    /// Whether the query arrived over TCP.
    pub over_tcp: bool,
}

impl Query {
    /// Reads a query.
    ///
    /// # Panics
    /// The query is malformed, which is a fault of the tested code.
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

/// A reply under construction.
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
    /// TIMEOUT of the keepalive option.
    keepalive: Option<u16>,
}

impl Response {
    /// Creates the reply of a recursive server to this query: NOERROR without records, and EDNS if
    /// the query has it.
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
            keepalive: None,
        }
    }

    /// Sets the RCODE.
    #[must_use]
    pub fn rcode(mut self, rcode: Rcode) -> Self {
        self.rcode = rcode;
        self
    }

    /// Adds an answer record, such as "www.example. 60 A 192.0.2.1".
    #[must_use]
    pub fn answer(mut self, record: &str) -> Self {
        self.records.push((Section::Answer, record.to_owned()));
        self
    }

    /// Adds a record to the authority section.
    #[must_use]
    pub fn authority(mut self, record: &str) -> Self {
        self.records.push((Section::Authority, record.to_owned()));
        self
    }

    /// Adds a record to the additional section.
    #[must_use]
    pub fn additional(mut self, record: &str) -> Self {
        self.records.push((Section::Additional, record.to_owned()));
        self
    }

    /// Sets header flags.
    #[must_use]
    pub fn flags(mut self, flags: u16) -> Self {
        self.flags |= flags;
        self
    }

    /// Clears header flags.
    #[must_use]
    pub fn without_flags(mut self, flags: u16) -> Self {
        self.flags &= !flags;
        self
    }

    /// Sets TC.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.flags |= TC;
        self
    }

    /// Removes EDNS.
    #[must_use]
    pub fn without_edns(mut self) -> Self {
        self.edns = false;
        self
    }

    /// Sets the cookie option.
    #[must_use]
    pub fn cookie(mut self, cookie: &[u8]) -> Self {
        self.cookie = Some(cookie.to_vec());
        self
    }

    /// Sets an extended error.
    #[must_use]
    pub fn ede(mut self, code: u16) -> Self {
        self.ede = Some(code);
        self
    }

    /// Sets a reporting agent (RFC 9567).
    #[must_use]
    pub fn agent(mut self, domain: &str) -> Self {
        self.agent = Some(name(domain));
        self
    }

    /// Sets the client subnet 192.0.2.0/24 with this scope (RFC 7871).
    #[must_use]
    pub fn scope(mut self, prefix_len: u8) -> Self {
        self.scope = Some(prefix_len);
        self
    }

    /// Sets how long the connection may be idle, in units of 100 ms (RFC 7828).
    #[must_use]
    pub fn keepalive(mut self, units: u16) -> Self {
        self.keepalive = Some(units);
        self
    }

    /// Sets another ID.
    #[must_use]
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Sets another question.
    #[must_use]
    pub fn question(mut self, question: &[u8]) -> Self {
        self.question = question.to_vec();
        self
    }

    /// Returns the octets.
    ///
    /// # Panics
    /// A record is malformed.
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
            let keepalive = self.keepalive.map(|units| EdnsOption::TcpKeepalive(Some(units)));
            let options: Vec<_> =
                cookie.into_iter().chain(ede).chain(agent).chain(subnet).chain(keepalive).collect();
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
