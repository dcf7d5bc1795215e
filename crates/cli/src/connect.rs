//! `avocet connect`: how a device is connected to the server of a configuration.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use avocet_config::{Config, Protocol, environment, find};
use avocet_server::connect::dnr::Options;
use avocet_server::connect::profile::profile;
use avocet_server::connect::{ConnectError, DeviceConnection, Wish, stamp};
use clap::{Args, ValueEnum};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use crate::error::CommandError;
use crate::output;

/// The port of DoT, which some clients cannot change.
const TLS_PORT: u16 = 853;

/// Arguments of `avocet connect`.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The form
    #[arg(value_enum, default_value = "text")]
    form: ConnectForm,
    /// Word of the device, as in `ids = ["id:WORD"]`
    #[arg(long, value_name = "WORD")]
    id: Option<String>,
    /// Name of the server, if its certificates have several
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Name of the [[listener]] [default: the addresses of [server]]
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Configuration file [default: that of AVOCET_CONFIG, or /etc/avocet/avocet.toml if it exists]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The forms.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ConnectForm {
    /// What to enter in phones, browsers, routers and other resolvers
    Text,
    /// A configuration profile for devices of Apple (.mobileconfig)
    Profile,
    /// DNS stamps, one line for each protocol
    Stamps,
    /// A QR code of the first stamp, for apps that scan one
    Qr,
    /// The DHCP options of RFC 9463 for Kea
    Kea,
    /// The DHCP options of RFC 9463 for dnsmasq
    Dnsmasq,
    /// A drop-in file for systemd-resolved
    Resolved,
}

/// Prints how a device is connected.
///
/// # Errors
/// The configuration has errors, or cannot be used in this way.
pub(crate) fn run(args: &ConnectArgs) -> Result<ExitCode, CommandError> {
    let config = Config::load(find(args.config.as_deref()).as_deref(), environment())?;
    let wish =
        Wish { name: args.name.clone(), word: args.id.clone(), listener: args.listener.clone() };
    let connection = DeviceConnection::of(&config, &wish)?;
    let text = match args.form {
        ConnectForm::Text => text(&connection),
        ConnectForm::Profile => profile(&connection)?,
        ConnectForm::Stamps => stamps(&connection).concat(),
        ConnectForm::Qr => qr(&connection)?,
        ConnectForm::Kea => Options::of(&connection)?.for_kea(),
        ConnectForm::Dnsmasq => Options::of(&connection)?.for_dnsmasq(),
        ConnectForm::Resolved => resolved(&connection)?,
    };
    let _ = output::write_data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the stamps as lines, the encrypted ones first.
fn stamps(connection: &DeviceConnection) -> Vec<String> {
    let encrypted = connection.endpoints.iter().map(|one| stamp::stamp(connection, one));
    encrypted.chain(stamp::plain(connection)).map(|one| one + "\n").collect()
}

fn qr(connection: &DeviceConnection) -> Result<String, ConnectError> {
    let https = connection.endpoint(Protocol::Https);
    let endpoint = https.or_else(|| connection.endpoints.first());
    let stamp = endpoint.map(|one| stamp::stamp(connection, one)).unwrap_or_default();
    let code = QrCode::with_error_correction_level(&stamp, EcLevel::L)
        .map_err(|_| ConnectError::Form("the stamp does not fit into a QR code"))?;
    // Dark terminals show the light modules in the color of text.
    let mut image = code.render::<Dense1x2>();
    let image = image.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    Ok(format!("{image}\n{stamp}\n"))
}

fn resolved(connection: &DeviceConnection) -> Result<String, ConnectError> {
    let tls = connection.endpoint(Protocol::Tls).filter(|one| !one.addresses.is_empty());
    let tls = tls.ok_or(ConnectError::Form(
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

fn text(connection: &DeviceConnection) -> String {
    let mut out = format!("Server         {}\n", connection.name);
    let mut line = |title: &str, value: String| {
        let _ = writeln!(out, "{title:<14} {value}");
    };
    if let Some(word) = &connection.word {
        line("Device", format!("id:{word}"));
    }
    if let Some(tls) = connection.endpoint(Protocol::Tls) {
        line("DoT", tls.authority(TLS_PORT));
        if tls.port == TLS_PORT {
            line("Android", format!("Settings, Network, Private DNS: {}", tls.host));
        }
    }
    if let Some(url) = connection.url() {
        line("DoH", url.clone());
        line("Browsers", format!("Secure DNS, custom provider: {url}{{?dns}}"));
    }
    if let Some(quic) = connection.endpoint(Protocol::Quic) {
        line("DoQ", quic.authority(TLS_PORT));
    }
    if connection.word.is_none() && !connection.plain.is_empty() {
        let plain: Vec<_> = connection.plain.iter().map(ToString::to_string).collect();
        line("Router", format!("DNS servers in DHCP, without encryption: {}", plain.join(" ")));
    }
    for stamp in stamps(connection) {
        line("Stamp", stamp.trim_end().to_owned());
    }
    out
}
