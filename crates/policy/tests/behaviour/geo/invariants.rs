//! Properties of any octets as a database of countries.

use std::net::IpAddr;

use avocet_policy::geo::Countries;

const ADDRESSES: [&str; 6] =
    ["0.0.0.0", "192.0.2.1", "255.255.255.255", "::", "2001:db8::1", "2002:c000:201::"];

/// Checks that a file is refused with a message, or yields the same country of two letters each
/// time.
pub(crate) fn hold(octets: &[u8]) {
    let countries = match Countries::read(octets) {
        Ok(countries) => countries,
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    assert!(countries.about().countries > 0 && countries.octets() <= octets.len() * 2);
    for address in ADDRESSES.map(|text| text.parse::<IpAddr>().expect("an address")) {
        let country = countries.country(address);
        assert!(country.is_none_or(|letters| letters.iter().all(u8::is_ascii_uppercase)));
        assert_eq!(country, countries.country(address));
    }
}
