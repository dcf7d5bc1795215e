//! Options of DHCP by which a network announces the encrypted resolver to its devices (DNR: RFC
//! 9463).

use std::net::IpAddr;

use avocet_config::Protocol;
use avocet_control::connect::ConnectFault;
use avocet_nameserver::query::designation::{Parameters, host_wire};
use data_encoding::HEXUPPER;

use super::{DeviceConnection, Endpoint};

/// The codes of the options (RFC 9463 §9).
const V4: u8 = 162;
const V6: u8 = 144;

/// The data of the options: for IPv4 one option with all instances, for IPv6 one option each.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// `OPTION_V4_DNR` (RFC 9463 §5.1); empty without an IPv4 address.
    pub v4: Vec<u8>,
    /// Each `OPTION_V6_DNR` (RFC 9463 §4.1).
    pub v6: Vec<Vec<u8>>,
}

impl Options {
    /// Returns the options for all devices of a network.
    ///
    /// # Errors
    /// The connection is that of one device, or the addresses are not known.
    pub fn of(connection: &DeviceConnection) -> Result<Self, ConnectFault> {
        if connection.word.is_some() {
            return Err(ConnectFault::Form("options of DHCP are for all devices, without a word"));
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (priority, endpoint) in (1_u16..).zip(&connection.endpoints) {
            let octets = |is_v4: bool| -> Vec<u8> {
                let of_family = endpoint.addresses.iter().filter(|ip| ip.is_ipv4() == is_v4);
                of_family.flat_map(octets).collect()
            };
            let name = host_wire(&endpoint.host).unwrap_or_default();
            let (four, six) = (octets(true), octets(false));
            if !four.is_empty() {
                let mut data = priority.to_be_bytes().to_vec();
                for part in [&*name, &four] {
                    data.push(part.len() as u8);
                    data.extend_from_slice(part);
                }
                data.extend(parameters(endpoint));
                v4.extend((data.len() as u16).to_be_bytes());
                v4.extend(data);
            }
            if !six.is_empty() {
                let mut data = priority.to_be_bytes().to_vec();
                for part in [&*name, &six] {
                    data.extend((part.len() as u16).to_be_bytes());
                    data.extend_from_slice(part);
                }
                data.extend(parameters(endpoint));
                v6.push(data);
            }
        }
        if v4.is_empty() && v6.is_empty() {
            return Err(ConnectFault::Form(
                "the addresses are not known: add a [[record]] for the name, or listen at \
                 addresses other than 0.0.0.0 and ::",
            ));
        }
        Ok(Self { v4, v6 })
    }

    /// Returns the text for the configuration of Kea: a list of `option-data` for each of its
    /// servers.
    pub fn for_kea(&self) -> String {
        let entry = |space: &str, code: u8, data: &[u8]| {
            format!(
                "{{ \"code\": {code}, \"space\": \"{space}\", \"csv-format\": false, \
                 \"data\": \"{}\" }}",
                HEXUPPER.encode(data)
            )
        };
        let mut out = String::new();
        if !self.v4.is_empty() {
            let entry = entry("dhcp4", V4, &self.v4);
            out += &format!("// kea-dhcp4.conf\n\"option-data\": [\n  {entry}\n]\n");
        }
        if !self.v6.is_empty() {
            let entries: Vec<_> = self.v6.iter().map(|one| entry("dhcp6", V6, one)).collect();
            let entries = entries.join(",\n  ");
            out += &format!("// kea-dhcp6.conf\n\"option-data\": [\n  {entries}\n]\n");
        }
        out
    }

    /// Returns the lines for the configuration of dnsmasq.
    pub fn for_dnsmasq(&self) -> String {
        let hex = |data: &[u8]| {
            let octets: Vec<_> = data.iter().map(|octet| format!("{octet:02x}")).collect();
            octets.join(":")
        };
        let mut out = String::new();
        if !self.v4.is_empty() {
            out += &format!("dhcp-option={V4},{}\n", hex(&self.v4));
        }
        for one in &self.v6 {
            out += &format!("dhcp-option=option6:{V6},{}\n", hex(one));
        }
        out
    }
}

/// Returns the service parameters, which have no addresses (RFC 9463 §3.1.4).
fn parameters(endpoint: &Endpoint) -> Vec<u8> {
    let mut protocols = vec![endpoint.protocol];
    if endpoint.has_h3 {
        protocols.push(Protocol::H3);
    }
    Parameters { protocols: &protocols, port: endpoint.port, hints: &[] }.octets()
}

fn octets(ip: &IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
