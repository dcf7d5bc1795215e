//! Files in the form of /etc/hosts (hosts(5)).

use std::net::IpAddr;

use crate::source;

/// An address and its names. The first name is its reverse name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) address: IpAddr,
    pub(crate) names: Vec<String>,
}

impl Host {
    /// Inserts each name without a dot, completed by `domain`, before this name. Servers that
    /// expand names use the same order.
    pub(crate) fn expand(&mut self, domain: Option<&str>) {
        let Some(domain) = domain else {
            return;
        };
        for name in std::mem::take(&mut self.names) {
            if !name.contains('.') && !is_loopback(&name) {
                self.names.push(format!("{name}.{domain}"));
            }
            self.names.push(name);
        }
    }
}

/// Reports whether the name always means the local machine.
pub(crate) fn is_loopback(name: &str) -> bool {
    matches!(name, "localhost" | "localhost.localdomain" | "ip6-localhost" | "ip6-loopback")
}

/// Parses a line without its comment. Returns `None` if it lacks an address or a name.
pub(crate) fn line(text: &str) -> Option<Host> {
    let mut words = text.split('#').next()?.split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    let names: Vec<String> = words.map(str::to_owned).collect();
    (!names.is_empty()).then_some(Host { address, names })
}

/// Returns all hosts of a file, and the numbers of the lines that are neither hosts nor comments.
pub(crate) fn hosts(text: &str) -> (Vec<Host>, Vec<usize>) {
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for (number, text) in source::lines(text).filter(|(_, text)| !text.starts_with('#')) {
        match line(text) {
            Some(host) => found.push(host),
            None => wrong.push(number),
        }
    }
    (found, wrong)
}
