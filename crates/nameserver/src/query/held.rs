//! A query that is held until its client is identified, with owned copies of all data for its
//! answer.

use std::net::IpAddr;

use avocet_policy::client::DeviceId;
use avocet_wire::QueryView;

use super::asked::{Entrance, Transport};
use super::miss::ReplyRoute;
use crate::clock::Moment;

/// A query that is held until its client is identified.
#[derive(Debug)]
pub struct HeldQuery {
    /// The message.
    pub octets: Box<[u8]>,
    /// The client's address.
    pub ip: IpAddr,
    /// The device of the query, if it is known.
    pub device: DeviceId,
    /// The transport.
    pub transport: Transport,
    /// The address at which the query arrived.
    pub entrance: Entrance,
    /// Where the reply goes.
    pub route: ReplyRoute,
    /// The time of the query's arrival.
    pub since: Moment,
}

impl HeldQuery {
    /// Returns the question as sent; empty if no question can be read.
    pub fn question(&self) -> &[u8] {
        QueryView::question_of(&self.octets).unwrap_or_default()
    }
}
