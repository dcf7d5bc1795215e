//! `avoid-ports` of `[resolver]`: the source ports that queries to servers do not use, because they
//! belong to other services on the host. This module also computes the ports that are left.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::Spanned;

use super::check::Check;
use super::error::SettingError;
use super::setting::{List, Raw, Setting, Value};

/// The lowest source port of queries; lower ports belong to the system (RFC 6335 §6).
const FIRST_PORT: u16 = 1024;
/// Minimum number of source ports of queries: 15 unpredictable bits (RFC 5452 §9).
pub const MIN_PORTS: usize = 1 << 15;
/// The word in `avoid-ports` for the built-in list.
const REGISTERED: &str = "registered";
/// The UDP ports that IANA has assigned to a service, and ports that widespread programs use
/// without an assignment.
const REGISTERED_PORTS: &str = include_str!("registered_ports.txt");

/// A range of consecutive ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Parses a port such as `5353`, or a range such as `5000-5100`, both ends included.
    fn parse(text: &str) -> Result<Self, PortFault> {
        let port = |text: &str| -> Option<u16> {
            // `u16::from_str` would accept a sign.
            let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
            text.parse().ok().filter(|port| is_number && *port > 0)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            (Some(first), Some(last)) => Err(PortFault::Reversed { first, last }),
            _ => Err(PortFault::Form),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// The reason why a text is neither a port nor a range.
#[derive(Debug, PartialEq)]
enum PortFault {
    /// The text has another form, or the number is not a valid port.
    Form,
    /// The range ends before it starts.
    Reversed { first: u16, last: u16 },
}

/// Parses the list of ports that the kernel keeps for other programs, as in
/// `/proc/sys/net/ipv4/ip_local_reserved_ports`: ports and ranges with commas between them. The
/// function ignores items of another form.
pub fn reserved_ports(text: &str) -> Vec<PortRange> {
    text.split(',').filter_map(|item| PortRange::parse(item.trim()).ok()).collect()
}

/// The value of `avoid-ports`.
#[derive(Debug, Clone, PartialEq)]
pub struct AvoidPorts {
    /// Whether the list includes the built-in list.
    pub registered: bool,
    /// The avoided ports outside the built-in list, in the order of the file.
    pub ranges: Vec<PortRange>,
}

impl AvoidPorts {
    /// The default value: only the built-in list.
    const DEFAULT: Self = Self { registered: true, ranges: Vec::new() };

    /// Returns the items of `avoid-ports` in the syntax of the configuration file.
    pub(super) fn shown(&self) -> Vec<String> {
        let registered = self.registered.then(|| REGISTERED.to_owned());
        registered.into_iter().chain(self.ranges.iter().map(ToString::to_string)).collect()
    }
}

/// The source ports of queries to servers.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePorts {
    /// The ports in ascending order, at least [`MIN_PORTS`].
    ports: Box<[u16]>,
}

impl SourcePorts {
    /// Returns all ports from 1024 on, except the avoided ports and the ports that the kernel
    /// reserves.
    ///
    /// # Errors
    /// Fewer than [`MIN_PORTS`] are left.
    pub fn new(avoid: &AvoidPorts, reserved: &[PortRange]) -> Result<Self, TooFewPorts> {
        let mut is_free = vec![true; usize::from(u16::MAX) + 1];
        is_free[..usize::from(FIRST_PORT)].fill(false);
        let registered = if avoid.registered { registered_ports() } else { Vec::new() };
        for range in registered.iter().chain(&avoid.ranges).chain(reserved) {
            is_free[usize::from(range.first)..=usize::from(range.last)].fill(false);
        }
        let ports: Box<[u16]> = (0..=u16::MAX).filter(|port| is_free[usize::from(*port)]).collect();
        if ports.len() < MIN_PORTS {
            return Err(TooFewPorts { left: ports.len() });
        }
        Ok(Self { ports })
    }

    /// Returns the number of ports.
    pub fn count(&self) -> usize {
        self.ports.len()
    }

    /// Returns the port for a random number. Each port is equally likely.
    pub fn pick(&self, random: u32) -> u16 {
        let place = (u64::from(random) * self.ports.len() as u64) >> 32;
        self.ports[place as usize]
    }

    /// Returns whether queries may use a source port.
    pub fn contains(&self, port: u16) -> bool {
        self.ports.binary_search(&port).is_ok()
    }
}

/// The error that fewer than [`MIN_PORTS`] source ports are left, so that they are too easy to
/// guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewPorts {
    left: usize,
}

impl fmt::Display for TooFewPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "avoid-ports and ip_local_reserved_ports leave {} ports for queries to servers; at \
             least {MIN_PORTS} are needed, or responses are easy to spoof",
            self.left
        )
    }
}

impl std::error::Error for TooFewPorts {}

fn registered_ports() -> Vec<PortRange> {
    let lines = REGISTERED_PORTS.lines().filter(|line| !line.starts_with('#'));
    let items = lines.flat_map(str::split_ascii_whitespace);
    items.filter_map(|item| PortRange::parse(item).ok()).collect()
}

/// An item of `avoid-ports`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AvoidItem {
    /// The built-in list.
    Registered,
    /// The ports of a range.
    Range(PortRange),
}

impl Value for AvoidItem {
    fn expected() -> String {
        format!(
            "\"{REGISTERED}\", a port from 1 to 65535 such as 27015, or a range such as \
             \"10000-20000\""
        )
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        let text = match raw {
            Raw::Text(text) if text == REGISTERED => return Ok(Self::Registered),
            Raw::Text(text) => Cow::from(text.as_str()),
            Raw::Integer(number) => number.to_string().into(),
            _ => return Err(Self::mismatch(raw)),
        };
        PortRange::parse(&text).map(Self::Range).map_err(|fault| match fault {
            PortFault::Form => Self::mismatch(raw),
            PortFault::Reversed { first, last } => {
                SettingError::ReversedPorts { text: text.into_owned(), first, last }
            }
        })
    }
}

impl JsonSchema for AvoidItem {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AvoidItem".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 65535 },
                { "type": "string", "pattern": "^(registered|[0-9]+(-[0-9]+)?)$" },
            ]
        })
    }
}

/// Checks `avoid-ports`: enough source ports must be left. The ports that the kernel reserves are
/// not subtracted here.
pub(super) fn avoid_ports(setting: Setting<List<AvoidItem>>, check: &mut Check) -> AvoidPorts {
    let Some(span) = setting.span() else { return AvoidPorts::DEFAULT };
    let Some(List(items)) = check.take(setting) else { return AvoidPorts::DEFAULT };
    let mut avoid = AvoidPorts { registered: false, ranges: Vec::new() };
    for item in items.into_iter().map(Spanned::into_inner) {
        match item {
            AvoidItem::Registered => avoid.registered = true,
            AvoidItem::Range(range) => avoid.ranges.push(range),
        }
    }
    if let Err(TooFewPorts { left }) = SourcePorts::new(&avoid, &[]) {
        let message = format!(
            "{left} ports are left for queries to servers; at least {MIN_PORTS} are needed, or \
             responses are easy to spoof"
        );
        check.fault(span, message);
    }
    avoid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avoid(items: &[&str]) -> AvoidPorts {
        let ranges = items.iter().map(|item| PortRange::parse(item).unwrap()).collect();
        AvoidPorts { registered: false, ranges }
    }

    #[test]
    fn ports_and_ranges_are_read_and_nothing_else() {
        let check = |text: &str, expected: Option<(u16, u16)>| {
            let range = PortRange::parse(text).ok().map(|range| (range.first, range.last));
            assert_eq!(range, expected, "{text:?}");
        };
        check("5353", Some((5353, 5353)));
        check("1-65535", Some((1, 65535)));
        check("7-7", Some((7, 7)));
        for text in ["", "x", "0", "-", "-5", "5-", "+5", "70000", "5-70000", "9-3", "1-2-3", "5 "]
        {
            check(text, None);
        }
        assert_eq!(PortRange::parse("9-3"), Err(PortFault::Reversed { first: 9, last: 3 }));
    }

    /// The form of the kernel (ip-sysctl.rst): `8080,9148` or `1,2-4,10-10`.
    #[test]
    fn the_list_of_the_kernel_is_read() {
        let read = |text: &str| -> Vec<String> {
            reserved_ports(text).iter().map(ToString::to_string).collect()
        };
        assert_eq!(read("1,2-4,10-10\n"), ["1", "2-4", "10"]);
        assert_eq!(read("\n"), [""; 0]);
        assert_eq!(read("0,8080,x\n"), ["8080"]);
    }

    /// IANA has assigned 4,827 ports.
    #[test]
    fn the_built_in_list_is_read_as_a_whole() {
        let text: String = REGISTERED_PORTS.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(text.bytes().all(|octet| octet.is_ascii_digit() || b" -".contains(&octet)));
        let ranges = registered_ports();
        let items = REGISTERED_PORTS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(ranges.len(), items.flat_map(str::split_ascii_whitespace).count());
        let width = |range: &PortRange| usize::from(range.last - range.first) + 1;
        assert_eq!(ranges.iter().map(width).sum::<usize>(), 4_827 + UNASSIGNED.len());
    }

    /// Ports without an assignment in the built-in list.
    const UNASSIGNED: [u16; 13] = [
        5335, 7359, 19_132, 19_133, 21_027, 32_410, 32_412, 32_413, 32_414, 41_641, 51_413, 51_820,
        64_738,
    ];

    #[test]
    fn ports_of_well_known_services_are_not_used_by_default() {
        let ports = SourcePorts::new(&AvoidPorts::DEFAULT, &[]).unwrap();
        // OpenVPN, SSDP, STUN, IPsec, VXLAN, SIP, mDNS, LLMNR, and programs without an assignment.
        let assigned = [1194, 1900, 3478, 4500, 4789, 5060, 5353, 5355];
        for port in assigned.into_iter().chain(UNASSIGNED) {
            assert!(!ports.contains(port), "{port}");
        }
        for port in [1028, 10_053, 49_152, 60_999, 65_535] {
            assert!(ports.contains(port), "{port}");
        }
        assert_eq!(ports.count(), 64_512 - 4_827 - UNASSIGNED.len());
    }

    #[test]
    fn no_avoided_or_reserved_port_is_picked_and_all_others_are() {
        let reserved = reserved_ports("2000-2999,65535");
        let ports = SourcePorts::new(&avoid(&["1024-1100", "40000"]), &reserved).unwrap();
        let random = |number: u64| ((number << 32) / 200_000) as u32;
        let mut picked: Vec<u16> = (0..200_000).map(|number| ports.pick(random(number))).collect();
        picked.dedup();
        let expected = (1101..=65_534).filter(|port| !matches!(port, 2000..=2999 | 40_000));
        assert!(picked.iter().copied().eq(expected));
        assert!([1023, 1024, 2500, 40_000, 65_535].iter().all(|port| !ports.contains(*port)));
    }

    #[test]
    fn at_least_half_of_the_ports_are_left() {
        assert_eq!(SourcePorts::new(&avoid(&["1-32767"]), &[]).unwrap().count(), MIN_PORTS);
        let few = SourcePorts::new(&avoid(&["1-32767"]), &reserved_ports("60000"));
        assert_eq!(few, Err(TooFewPorts { left: MIN_PORTS - 1 }));
    }
}
