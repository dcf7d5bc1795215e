//! The ports that the kernel reserves for other programs (`net.ipv4.ip_local_reserved_ports`, which
//! also applies to IPv6). The server sends no queries from them. They are read at the start and at
//! each reload.

use std::path::Path;

use avocet_config::ports::{PortRange, reserved_ports};

/// The file in which the kernel shows reserved ports.
pub(crate) const RESERVED_PORTS: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";

/// Returns the ports that the kernel of this host reserves.
pub fn own_reserved_ports() -> Vec<PortRange> {
    read(Path::new(RESERVED_PORTS))
}

/// Reads the reserved ports. If the file cannot be read, logs this and returns no ports.
pub(crate) fn read(file: &Path) -> Vec<PortRange> {
    match std::fs::read_to_string(file) {
        Ok(text) => reserved_ports(&text),
        Err(error) => {
            tracing::warn!(
                "cannot read {}: {error}; queries may leave from ports that it lists",
                file.display()
            );
            Vec::new()
        }
    }
}
