//! Advice about a port that another process uses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port of DNS.
const DNS: u16 = 53;
/// The address of the stub listener of systemd-resolved.
const STUB: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53));

/// The advice for an address that is in use. `setting` is the place in the configuration.
pub(crate) struct PortInUse<'a> {
    pub(crate) addr: SocketAddr,
    pub(crate) setting: &'a dyn fmt::Display,
}

impl fmt::Display for PortInUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, setting } = self;
        let port = addr.port();
        write!(
            f,
            "another server is using it; stop that one, or change {setting}; \
             `ss -lnptu 'sport = :{port}'` shows the process"
        )?;
        if port == DNS && (addr.ip() == STUB || addr.ip().is_unspecified()) {
            f.write_str(
                "; if it is systemd-resolved, set DNSStubListener=no in \
                 /etc/systemd/resolved.conf, or listen on the addresses of the network \
                 instead of all",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_setting_the_command_and_the_likely_process() {
        let advice = |addr: &str| {
            let addr = addr.parse().unwrap();
            PortInUse { addr, setting: &"[server] listen" }.to_string()
        };
        let other = advice("192.0.2.1:853");
        assert!(
            other.ends_with("change [server] listen; `ss -lnptu 'sport = :853'` shows the process")
        );
        for addr in ["0.0.0.0:53", "[::]:53", "127.0.0.53:53"] {
            assert!(advice(addr).contains("DNSStubListener=no"), "{addr}");
        }
        assert!(!advice("192.0.2.1:53").contains("resolved"));
    }
}
