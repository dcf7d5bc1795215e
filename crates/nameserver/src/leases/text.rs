//! The text of a lease file. A line that a DHCP server would not write is a fault: the file is
//! damaged, lacks its end, or is no lease file.

use std::fmt;
use std::net::IpAddr;

use avocet_policy::client::{MAX_NEIGHBOURS, Mac, Neighbour};

/// The last state of the lease of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    /// The device. A lease that was given back has neither MAC address nor name.
    pub(crate) device: Neighbour,
    /// The Unix second at which the lease ends; `None` if it does not end.
    pub(crate) end_secs: Option<u64>,
}

impl Lease {
    /// Returns whether the lease has ended at a Unix second.
    pub(crate) fn is_over(&self, now_secs: u64) -> bool {
        self.end_secs.is_some_and(|end| end <= now_secs)
    }

    const fn without_device(address: IpAddr) -> Self {
        Self { device: Neighbour { address, mac: None, name: None }, end_secs: None }
    }
}

/// The first broken line of a lease file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseFault {
    /// The number of the line, from 1.
    pub(crate) line: u32,
    /// The reason, in a phrase.
    pub(crate) reason: &'static str,
}

impl fmt::Display for LeaseFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.reason)
    }
}

const NO_LEASE: &str = "this is not a lease of dnsmasq, ISC dhcpd or Kea";
const CUT: &str = "the line is cut";
const OPEN_ENTRY: &str = "the entry before this line does not end";
const NO_COLUMNS: &str = "the columns \"expire\" and \"hostname\" are missing";

/// The begin of the header line of a file of Kea.
pub(super) const KEA_HEADER: &str = "address,";
/// The line between two files of Kea. No DHCP server writes it.
pub(super) const NEXT_FILE: &str = "\n\u{c}earlier file\n";

/// The content of a lease file.
#[derive(Default)]
pub(crate) struct LeaseText {
    /// The leases that can be read, also those that have ended: one for each address, by address.
    pub(crate) leases: Vec<Lease>,
    /// The first line that cannot be read.
    pub(crate) fault: Option<LeaseFault>,
}

impl LeaseText {
    fn fail(&mut self, index: usize, reason: &'static str) {
        let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
        self.fault.get_or_insert(LeaseFault { line, reason });
    }
}

/// Reads a lease file in the format of dnsmasq, ISC dhcpd or Kea, with the earlier files of Kea.
pub(crate) fn read_leases(text: &str) -> LeaseText {
    let mut read = LeaseText::default();
    for file in text.rsplit(NEXT_FILE) {
        let LeaseText { leases, fault } = of_file(file);
        read.leases.extend(leases);
        read.fault = fault.or(read.fault);
    }
    // If an address has several entries, the last one applies.
    read.leases.reverse();
    read.leases.sort_by_key(|lease| lease.device.address);
    read.leases.dedup_by_key(|lease| lease.device.address);
    read
}

fn of_file(text: &str) -> LeaseText {
    let first = text.lines().find(|line| is_content(line)).unwrap_or_default().trim_end();
    let is_lease = |line: &str| line.starts_with("lease ") && line.trim_end().ends_with('{');
    if first.starts_with(KEA_HEADER) {
        of_kea(text)
    } else if first.ends_with([';', '{']) || text.lines().any(is_lease) {
        of_isc(text)
    } else {
        of_dnsmasq(text)
    }
}

/// Returns the devices whose leases have not ended at a Unix second.
pub(crate) fn devices_at(leases: &[Lease], now_secs: u64) -> Vec<Neighbour> {
    let in_force = leases.iter().filter(|lease| !lease.is_over(now_secs));
    let known = in_force.map(|lease| &lease.device);
    let known = known.filter(|device| device.mac.is_some() || device.name.is_some());
    known.take(MAX_NEIGHBOURS).cloned().collect()
}

fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

/// Returns the lines that are neither empty nor comments, with their indices.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| is_content(line))
}

fn of_dnsmasq(text: &str) -> LeaseText {
    let mut read = LeaseText::default();
    // A last line without a line end was written only in part, and its name may lack the end. The
    // field after it is not used.
    let cut = text.lines().last().filter(|_| !text.ends_with('\n'));
    let is_cut = |line: &&str| {
        line.starts_with(|first: char| first.is_ascii_digit())
            && line.split_whitespace().count() < 5
    };
    let cut = cut.filter(is_cut).map(str::as_ptr);
    for (index, line) in content_lines(text) {
        if line.starts_with("duid ") {
            continue;
        }
        match dnsmasq_lease(line) {
            _ if cut == Some(line.as_ptr()) => read.fail(index, CUT),
            Some(lease) => read.leases.push(lease),
            None => read.fail(index, NO_LEASE),
        }
    }
    read
}

/// Reads a line with expiry, MAC address (a number instead for IPv6), address, name or `*`, and
/// client identifier.
fn dnsmasq_lease(line: &str) -> Option<Lease> {
    let [expiry, mac, address, name] =
        line.split_whitespace().take(4).collect::<Vec<_>>().try_into().ok()?;
    let expiry: u64 = expiry.parse().ok()?;
    let address: IpAddr = address.parse().ok()?;
    // The hardware type may precede the MAC address.
    let mac = mac.split_once('-').map_or(mac, |(_, mac)| mac);
    let name = named(name).filter(|name| name != "*");
    Some(Lease {
        device: Neighbour { address, mac: mac.parse().ok(), name },
        end_secs: (expiry != 0).then_some(expiry),
    })
}

/// Reads entries of the form `lease ADDRESS { ... }` with statements that end with `;`. Updates of
/// a lease are appended as new entries. Other statements and blocks are ignored.
fn of_isc(text: &str) -> LeaseText {
    let mut read = LeaseText::default();
    let mut open: Option<IscEntry> = None;
    // Number of blocks that are open.
    let mut depth = 0_u32;
    for (index, line) in content_lines(text) {
        let line = line.trim();
        let is_entry = line.starts_with("lease ") && line.ends_with('{');
        if is_entry && depth > 0 {
            read.fail(index, OPEN_ENTRY);
            depth = 0;
        }
        if line.contains('\0') || depth == 0 && !is_isc_statement(line) {
            read.fail(index, NO_LEASE);
            continue;
        }
        if line.starts_with('}') {
            depth = depth.saturating_sub(1);
        }
        if is_entry {
            let address = line["lease ".len()..line.len() - 1].trim().parse();
            open = address.ok().map(IscEntry::new);
            if open.is_none() {
                read.fail(index, NO_LEASE);
            }
        } else if depth == 0 {
            read.leases.extend(open.take().map(IscEntry::close));
        } else if let Some(entry) = &mut open {
            entry.read(line.trim_end_matches(';'));
        }
        depth += u32::from(line.ends_with('{'));
    }
    if depth > 0 {
        read.fail(text.lines().count(), OPEN_ENTRY);
    }
    read
}

/// Returns whether a line outside of blocks can be one of ISC dhcpd.
fn is_isc_statement(line: &str) -> bool {
    line == "}"
        || line.starts_with(|first: char| first.is_ascii_alphabetic()) && line.ends_with([';', '{'])
}

/// An entry of ISC dhcpd.
struct IscEntry {
    lease: Lease,
    is_active: bool,
}

impl IscEntry {
    const fn new(address: IpAddr) -> Self {
        Self { lease: Lease::without_device(address), is_active: true }
    }

    fn read(&mut self, statement: &str) {
        if let Some(mac) = statement.strip_prefix("hardware ethernet ") {
            self.lease.device.mac = mac.trim().parse::<Mac>().ok();
        } else if let Some(name) = statement.strip_prefix("client-hostname ") {
            self.lease.device.name = named(name.trim().trim_matches('"'));
        } else if let Some(state) = statement.strip_prefix("binding state ") {
            self.is_active = state.trim() == "active";
        }
    }

    /// Returns the lease. One that has ended replaces earlier entries.
    fn close(self) -> Lease {
        if self.is_active { self.lease } else { Lease::without_device(self.lease.device.address) }
    }
}

/// Reads a table with a header line. Updates of a lease are appended as new lines.
fn of_kea(text: &str) -> LeaseText {
    let mut read = LeaseText::default();
    let mut lines = content_lines(text);
    let Some((first, header)) = lines.next() else { return read };
    let headings: Vec<&str> = header.split(',').collect();
    let column = |name: &str| headings.iter().position(|heading| *heading == name);
    let [mac, name, expire, state] = ["hwaddr", "hostname", "expire", "state"].map(column);
    let (Some(name), Some(expire)) = (name, expire) else {
        read.fail(first, NO_COLUMNS);
        return read;
    };
    let lease = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |column: Option<usize>| {
            column.and_then(|at| fields.get(at)).copied().unwrap_or_default()
        };
        let address: IpAddr = fields.first()?.parse().ok()?;
        let end_secs: u64 = field(Some(expire)).parse().ok()?;
        if fields.len() < headings.len() {
            return None;
        }
        if !matches!(field(state), "" | "0") {
            return Some(Lease::without_device(address));
        }
        let (mac, name) = (field(mac).parse().ok(), named(field(Some(name))));
        Some(Lease { device: Neighbour { address, mac, name }, end_secs: Some(end_secs) })
    };
    for (index, line) in lines {
        match lease(line) {
            Some(lease) => read.leases.push(lease),
            None => read.fail(index, NO_LEASE),
        }
    }
    read
}

fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}
