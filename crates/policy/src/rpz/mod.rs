//! Response policy zones (draft-vixie-dnsop-dns-rpz).
