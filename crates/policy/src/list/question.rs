//! Questions as lists see them.

use std::net::IpAddr;

use avocet_wire::Rtype;

/// Who asks, as far as lists can ask about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Asker<'a> {
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// Its names and identifiers.
    pub names: &'a [Box<str>],
    /// Its tags, as `device_pc` or `user_child`.
    pub tags: &'a [Box<str>],
}

/// A question put to the lists.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The folded wire name.
    pub qname: &'a [u8],
    /// The type asked for.
    pub qtype: Rtype,
    /// Who asks.
    pub asker: Asker<'a>,
}
