//! A query in wire format.

use avocet_wire::builder::Builder;
use avocet_wire::header::{CD, RD};
use avocet_wire::{Class, Rtype};

use super::{rtype, wire_name};

/// The OPT record of a query.
#[derive(Clone, Debug)]
struct Opt {
    udp_size: u16,
    version: u8,
    flags: u16,
    options: Vec<u8>,
}

/// A query. By default with RD set and without EDNS.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    id: u16,
    flags: u16,
    qname: Vec<u8>,
    qtype: Rtype,
    qclass: Class,
    opt: Option<Opt>,
}

impl Ask {
    /// A query for the records of a type, both as text.
    pub(crate) fn of(qname: &str, qtype: &str) -> Self {
        let (qname, qtype) = (wire_name(qname), rtype(qtype));
        Self { id: 0x4a56, flags: RD, qname, qtype, qclass: Class::IN, opt: None }
    }

    /// Sets the ID.
    pub(crate) fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Sets the flags, including the OPCODE, instead of only RD.
    pub(crate) fn flags(mut self, flags: u16) -> Self {
        self.flags = flags;
        self
    }

    /// Sets CD.
    pub(crate) fn checking_disabled(self) -> Self {
        let flags = self.flags | CD;
        self.flags(flags)
    }

    /// Sets the class.
    pub(crate) fn class(mut self, qclass: Class) -> Self {
        self.qclass = qclass;
        self
    }

    /// Adds EDNS with this buffer size.
    pub(crate) fn edns(mut self, udp_size: u16) -> Self {
        self.opt = Some(Opt { udp_size, version: 0, flags: 0, options: Vec::new() });
        self
    }

    /// Sets the version of EDNS, and the flags of OPT.
    pub(crate) fn edns_version(mut self, version: u8, flags: u16) -> Self {
        if let Some(opt) = &mut self.opt {
            (opt.version, opt.flags) = (version, flags);
        }
        self
    }

    /// Sets DO.
    pub(crate) fn dnssec_ok(self) -> Self {
        self.edns_version(0, 0x8000)
    }

    /// Adds an EDNS option.
    pub(crate) fn option(mut self, code: u16, data: &[u8]) -> Self {
        if let Some(opt) = &mut self.opt {
            opt.options.extend_from_slice(&code.to_be_bytes());
            opt.options.extend_from_slice(&(data.len() as u16).to_be_bytes());
            opt.options.extend_from_slice(data);
        }
        self
    }

    /// The question in wire format.
    pub(crate) fn question(&self) -> Vec<u8> {
        [&self.qname[..], &self.qtype.0.to_be_bytes(), &self.qclass.0.to_be_bytes()].concat()
    }

    /// The message.
    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut out = vec![0; 512];
        let mut builder =
            Builder::new(&mut out, 512, self.id, self.flags).expect("room for a header");
        builder.question(&self.qname, self.qtype, self.qclass).expect("room for a question");
        let len = builder.finish();
        out.truncate(len);
        if let Some(opt) = &self.opt {
            out[11] = 1;
            out.extend_from_slice(&[0, 0, 41]);
            out.extend_from_slice(&opt.udp_size.to_be_bytes());
            out.extend_from_slice(&[0, opt.version]);
            out.extend_from_slice(&opt.flags.to_be_bytes());
            out.extend_from_slice(&(opt.options.len() as u16).to_be_bytes());
            out.extend_from_slice(&opt.options);
        }
        out
    }
}
