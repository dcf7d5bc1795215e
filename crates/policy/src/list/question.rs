//! Questions to the lists.

use std::net::IpAddr;

use avocet_wire::Rtype;

/// The properties of a client that lists can test.
#[derive(Clone, Copy, Default, Debug)]
pub struct Asker<'a> {
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The names and identifiers of the client.
    pub names: &'a [Box<str>],
    /// The tags of the client, such as `device_pc` or `user_child`.
    pub tags: &'a [Box<str>],
}

/// A question to the lists.
#[derive(Clone, Copy, Debug)]
pub struct ListQuestion<'a> {
    /// The QNAME in lower-case wire form.
    pub qname: &'a [u8],
    /// The QTYPE.
    pub qtype: Rtype,
    /// The client.
    pub asker: Asker<'a>,
}
