//! Configuration profiles for iOS, iPadOS, macOS and tvOS: the payload
//! `com.apple.dnsSettings.managed`.

use std::fmt::Write;

use avocet_config::Protocol;
use avocet_control::connect::ConnectFault;
use aws_lc_rs::digest::{SHA256, digest};

use super::{DeviceConnection, Endpoint};

/// The port of DoT, which profiles cannot change.
const TLS_PORT: u16 = 853;

/// Returns a profile (`.mobileconfig`): DoH if it is served, else DoT. Equal connections have equal
/// profiles, so that a new one replaces the one before.
///
/// # Errors
/// Neither is served, or only DoT, at another port than 853.
pub fn profile(connection: &DeviceConnection) -> Result<String, ConnectFault> {
    let tls = connection.endpoint(Protocol::Tls).filter(|one| one.port == TLS_PORT);
    let (endpoint, settings) = match (connection.endpoint(Protocol::Https), tls) {
        (Some(https), _) => (https, of_https(connection)),
        (None, Some(tls)) => (tls, pair("DNSProtocol", "TLS") + &pair("ServerName", &tls.host)),
        (None, None) => {
            return Err(ConnectFault::Form(
                "a profile needs an https:// address, or a tls:// address with port 853",
            ));
        }
    };
    let title = match &connection.word {
        None => format!("DNS of {}", connection.name),
        Some(word) => format!("DNS of {} for {word}", connection.name),
    };
    let [outer, inner] = ["profile", "settings"].map(|part| uuid(&[part, &title]));
    let identifier = format!("avocet.dns.{}", outer.to_ascii_lowercase());
    let payload = pair("PayloadType", "com.apple.dnsSettings.managed")
        + &pair("PayloadIdentifier", &format!("{identifier}.settings"))
        + &pair("PayloadUUID", &inner)
        + &pair("PayloadDisplayName", &title)
        + "<key>PayloadVersion</key>\n<integer>1</integer>\n<key>DNSSettings</key>\n<dict>\n"
        + &settings
        + &addresses(endpoint)
        + "</dict>\n";
    Ok(String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<dict>\n\
         <key>PayloadContent</key>\n<array>\n<dict>\n",
    ) + &payload
        + "</dict>\n"
        + &connection
            .authority
            .as_deref()
            .map_or_else(String::new, |authority| of_authority(authority, &identifier))
        + "</array>\n"
        + &pair("PayloadType", "Configuration")
        + &pair("PayloadIdentifier", &identifier)
        + &pair("PayloadUUID", &outer)
        + &pair("PayloadDisplayName", &title)
        + "<key>PayloadVersion</key>\n<integer>1</integer>\n</dict>\n</plist>\n")
}

fn of_https(connection: &DeviceConnection) -> String {
    let url = format!("{}{{?dns}}", connection.url().unwrap_or_default());
    pair("DNSProtocol", "HTTPS") + &pair("ServerURL", &url)
}

/// Returns the payload with an authority. A device trusts the authority as soon as the user of the
/// device has installed the profile and, on iOS, has enabled the authority in the settings of
/// certificates.
fn of_authority(authority: &[u8], identifier: &str) -> String {
    let id = uuid(&["authority", &data_encoding::HEXLOWER.encode(authority)]);
    String::from("<dict>\n")
        + &pair("PayloadType", "com.apple.security.root")
        + &pair("PayloadIdentifier", &format!("{identifier}.authority"))
        + &pair("PayloadUUID", &id)
        + &pair("PayloadDisplayName", "Authority of this DNS server")
        + "<key>PayloadVersion</key>\n<integer>1</integer>\n<key>PayloadContent</key>\n<data>"
        + &data_encoding::BASE64.encode(authority)
        + "</data>\n</dict>\n"
}

fn addresses(endpoint: &Endpoint) -> String {
    if endpoint.addresses.is_empty() {
        return String::new();
    }
    let mut out = String::from("<key>ServerAddresses</key>\n<array>\n");
    for address in &endpoint.addresses {
        let _ = writeln!(out, "<string>{address}</string>");
    }
    out + "</array>\n"
}

fn pair(key: &str, value: &str) -> String {
    format!("<key>{key}</key>\n<string>{}</string>\n", escaped(value))
}

/// Escapes the characters with a meaning in XML. Names contain none of them at present.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a UUID of version 8 (RFC 9562 §5.8) from the SHA-256 of some texts.
fn uuid(texts: &[&str]) -> String {
    let digest = digest(&SHA256, texts.join("\0").as_bytes());
    let mut octets = [0; 16];
    octets.copy_from_slice(&digest.as_ref()[..16]);
    octets[6] = octets[6] & 0x0f | 0x80;
    octets[8] = octets[8] & 0x3f | 0x80;
    let hex = data_encoding::HEXUPPER.encode(&octets);
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
