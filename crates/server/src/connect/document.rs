//! The text forms of a connection.

use avocet_config::Protocol;
use avocet_control::connect::{ConnectFault, ConnectForm};
use qrcode::render::unicode::Dense1x2;
use qrcode::{Color, EcLevel, QrCode};

use super::dnr::Options;
use super::profile::profile;
use super::{DeviceConnection, stamp};

/// The port of DoT, which some clients cannot change.
pub const TLS_PORT: u16 = 853;
/// Number of modules of the quiet zone around a QR code (ISO/IEC 18004).
const BORDER: usize = 4;

/// Returns the settings of a connection in one form, as text.
///
/// # Errors
/// The connection lacks something that the form needs.
pub fn document(connection: &DeviceConnection, form: ConnectForm) -> Result<String, ConnectFault> {
    match form {
        ConnectForm::Profile => profile(connection),
        ConnectForm::Stamps => Ok(stamps(connection).map(|one| one + "\n").collect()),
        ConnectForm::Qr => Ok(drawn(&code(&first_stamp(connection))?)),
        ConnectForm::Kea => Ok(Options::of(connection)?.for_kea()),
        ConnectForm::Dnsmasq => Ok(Options::of(connection)?.for_dnsmasq()),
        ConnectForm::Resolved => resolved(connection),
    }
}

/// Returns the stamps, with the encrypted ones first.
pub fn stamps(connection: &DeviceConnection) -> impl Iterator<Item = String> {
    let encrypted = connection.endpoints.iter().map(|one| stamp::stamp(connection, one));
    encrypted.chain(stamp::plain(connection))
}

/// Returns the first stamp as a QR code of characters for a dark terminal, and as text.
///
/// # Errors
/// The stamp is too long.
pub fn in_terminal(connection: &DeviceConnection) -> Result<String, ConnectFault> {
    let stamp = first_stamp(connection);
    let code = code(&stamp)?;
    // Dark terminals show the light modules in the color of text.
    let mut image = code.render::<Dense1x2>();
    let image = image.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    Ok(format!("{image}\n{stamp}\n"))
}

/// Returns the stamp for apps: the stamp of DoH, or of the first protocol if DoH is not served.
fn first_stamp(connection: &DeviceConnection) -> String {
    let https = connection.endpoint(Protocol::Https);
    let endpoint = https.or_else(|| connection.endpoints.first());
    endpoint.map(|one| stamp::stamp(connection, one)).unwrap_or_default()
}

fn code(stamp: &str) -> Result<QrCode, ConnectFault> {
    QrCode::with_error_correction_level(stamp, EcLevel::L)
        .map_err(|_| ConnectFault::Form("the stamp does not fit into a QR code"))
}

/// Draws a QR code as SVG, with one unit for each module. Adjacent dark modules in a row are one
/// rectangle.
fn drawn(code: &QrCode) -> String {
    let width = code.width();
    let modules = code.to_colors();
    let mut path = String::new();
    for (row, modules) in modules.chunks(width).enumerate() {
        let mut column = 0;
        for run in modules.chunk_by(PartialEq::eq) {
            if run.first() == Some(&Color::Dark) {
                let (x, y, len) = (column + BORDER, row + BORDER, run.len());
                path += &format!("M{x} {y}h{len}v1h-{len}z");
            }
            column += run.len();
        }
    }
    let side = width + 2 * BORDER;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
         shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{side}v{side}H0z\"/>\
         <path d=\"{path}\"/></svg>\n"
    )
}

fn resolved(connection: &DeviceConnection) -> Result<String, ConnectFault> {
    let tls = connection.endpoint(Protocol::Tls).filter(|one| !one.addresses.is_empty());
    let tls = tls.ok_or(ConnectFault::Form(
        "systemd-resolved needs a tls:// address that is known: not 0.0.0.0 or ::, or a [[record]] \
         for the name",
    ))?;
    let server = |ip: &std::net::IpAddr| match (ip.is_ipv4() || tls.port == TLS_PORT, tls.port) {
        (_, TLS_PORT) => format!("{ip}#{}", tls.host),
        (true, port) => format!("{ip}:{port}#{}", tls.host),
        (false, port) => format!("[{ip}]:{port}#{}", tls.host),
    };
    let servers: Vec<_> = tls.addresses.iter().map(server).collect();
    let servers = servers.join(" ");
    Ok(format!("[Resolve]\nDNS={servers}\nDNSOverTLS=yes\nDomains=~.\n"))
}
