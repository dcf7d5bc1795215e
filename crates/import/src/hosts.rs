//! Files in the form of /etc/hosts (hosts(5)).

use std::net::IpAddr;

use crate::source;

/// One address and its names, the first of which it is mapped back to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) address: IpAddr,
    pub(crate) names: Vec<String>,
}

impl Host {
    /// Puts the names without a dot below `domain` before all others, as servers do that expand
    /// them.
    pub(crate) fn expand(&mut self, domain: Option<&str>) {
        let Some(domain) = domain else {
            return;
        };
        let short = self.names.iter().filter(|name| !name.contains('.') && !is_loopback(name));
        let full: Vec<String> = short.map(|name| format!("{name}.{domain}")).collect();
        self.names.splice(0..0, full);
    }
}

/// Is it a name that each machine has for itself?
pub(crate) fn is_loopback(name: &str) -> bool {
    matches!(name, "localhost" | "localhost.localdomain" | "ip6-localhost" | "ip6-loopback")
}

/// One line without its comment; `None` where it has no address or no name.
pub(crate) fn line(text: &str) -> Option<Host> {
    let mut words = text.split('#').next()?.split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    let names: Vec<String> = words.map(str::to_owned).collect();
    (!names.is_empty()).then_some(Host { address, names })
}

/// All hosts of a file, and the numbers of the lines that are neither hosts nor comments.
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
