//! `ADDRESS NAME ...` (hosts(5)).
//!
//! A name with an unreachable address (`0.0.0.0`, `::`, loopback) is blocked. Any other address is
//! the answer. Other lines are read as in a list of names, because published lists mix them.

use std::net::IpAddr;

use super::super::entry::{Entry, GIVEN, Scope};
use super::super::modifier::Modifiers;
use super::super::name;
use super::super::reason::Reason;
use super::super::rewrite::Rewrite;
use super::{Taken, domains, without_comment};

/// Names in hosts files that refer to the machine itself.
const OF_THE_MACHINE: [&str; 12] = [
    "localhost",
    "localhost.localdomain",
    "local",
    "broadcasthost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-allhosts",
    "0.0.0.0",
];

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    if let Some(taken) = read_names(line, out)? {
        return Ok(taken);
    }
    let line = without_comment(line);
    match domains::read(line, domains::Plain::Alone, out) {
        Err(_) if line.contains(|found: char| found.is_ascii_whitespace()) => {
            Err(Reason::Malformed("expected an address and a name"))
        }
        taken => taken,
    }
}

/// Reads a line of a hosts file. Returns `None` if the line does not begin with an address. A `#`
/// begins a comment anywhere.
pub(super) fn read_names(line: &str, out: &mut Vec<Entry>) -> Result<Option<Taken>, Reason> {
    let line = memchr::memchr(b'#', line.as_bytes()).map_or(line, |at| &line[..at]);
    let mut fields = line.split_ascii_whitespace();
    let Some(address) = fields.next().and_then(address) else { return Ok(None) };
    let mut names = fields.peekable();
    if names.peek().is_none() {
        return Err(Reason::Malformed("an address without a name"));
    }
    let (mut taken, mut fault) =
        (Taken::PassedOver("its names are those of the machine itself"), None);
    for written in names.filter(|written| !is_of_the_machine(written)) {
        match entry(address, written) {
            Ok(entry) => {
                out.push(entry);
                taken = Taken::Entries;
            }
            Err(reason) => fault = Some(reason),
        }
    }
    fault.map_or(Ok(Some(taken)), Err)
}

fn entry(address: IpAddr, written: &str) -> Result<Entry, Reason> {
    let name = name::read(written)?;
    match name::labels(&name) {
        0 => return Err(Reason::Everything),
        // A name of one label may belong to a local machine, but not to an advertisement server.
        1 if is_nowhere(address) => return Err(Reason::TopLevel),
        _ => {}
    }
    let rewrite = (!is_nowhere(address)).then(|| Rewrite::address(address));
    let marks = if rewrite.is_some() { GIVEN } else { 0 };
    let entry = Entry { marks, ..Entry::block_name(Scope::Exact, name) };
    Ok(entry.with(Modifiers { rewrite, ..Modifiers::default() }))
}

fn address(text: &str) -> Option<IpAddr> {
    // Fast path for the usual address. Also drops the zone of `fe80::1%lo0`.
    if text == "0.0.0.0" {
        return Some(IpAddr::from([0, 0, 0, 0]));
    }
    text.split('%').next()?.parse().ok()
}

/// Reports whether no host can have the address: it is unspecified or a loopback address.
pub(super) fn is_nowhere(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_loopback()
}

fn is_of_the_machine(name: &str) -> bool {
    OF_THE_MACHINE.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::check as check_line;

    fn check(line: &str, expected: &str) {
        check_line(Format::Hosts, line, expected);
    }

    #[test]
    fn names_with_an_address_of_nobody_are_blocked_alone() {
        check("0.0.0.0 ads.example.com", "block =ads.example.com.");
        check("127.0.0.1\tads.example.com", "block =ads.example.com.");
        check(
            "127.0.0.1  A.example b.example\tc.example",
            "block =a.example.; block =b.example.; block =c.example.",
        );
        check(":: ads.example.com # why", "block =ads.example.com.");
        check("::1 ads.example.com", "block =ads.example.com.");
        check("0.0.0.0 bücher.example", "block =xn--bcher-kva.example.");
    }

    #[test]
    fn names_with_an_address_of_somebody_are_answered_so() {
        check("192.0.2.7 nas.example", "block =nas.example. -> A 192.0.2.7");
        check("2001:db8::7 nas", "block =nas. -> AAAA 2001:db8::7");
        // Next to the loopback address, and none itself (RFC 4291 §2.5.3).
        check("::2 nas.example", "block =nas.example. -> AAAA ::2");
    }

    #[test]
    fn comments_and_names_of_the_machine_say_nothing() {
        for line in ["# a comment", "! another one"] {
            check(line, "-");
        }
        for line in [
            "127.0.0.1 localhost",
            "::1 ip6-localhost ip6-loopback",
            "fe80::1%lo0 localhost",
            "0.0.0.0 0.0.0.0",
            "255.255.255.255 broadcasthost",
        ] {
            check(line, "ignored: its names are those of the machine itself");
        }
        check("127.0.0.1 localhost ads.example", "block =ads.example.");
        check("0.0.0.0 ads.example#b.example", "block =ads.example.");
    }

    #[test]
    fn a_name_by_itself_is_one_of_a_list_of_names() {
        check("ads.example # why", "block =ads.example.");
        check("*.ads.example", "block +ads.example.");
        check("ads.example##.banner", "fault: '#' is not a valid character in a host name");
        check("||ads.example^", "block +ads.example.");
        check("@@||ads.example^$important", "allow +ads.example. important");
    }

    #[test]
    fn faults_are_told_and_other_names_of_the_line_count() {
        check("ads example", "fault: expected an address and a name");
        check("0.0.0.0", "fault: an address without a name");
        check("0.0.0.0 com", "fault: the line matches a top-level domain");
        check("0.0.0.0 .", "fault: the line matches every name");
        check("0.0.0.0 a_b.example/x", "fault: '/' is not a valid character in a host name");
        check("0.0.0.0 1.2.3.4", "fault: an address where a name is expected");
        let mut out = Vec::new();
        assert!(super::read("0.0.0.0 a.example b/c d.example", &mut out).is_err());
        assert_eq!(out.len(), 2);
    }
}
