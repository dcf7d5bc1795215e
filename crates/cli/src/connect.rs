//! `avocet connect`: prints what a device needs to connect to the server of a configuration.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use avocet_config::{Config, Protocol, environment, find};
use avocet_control::connect::{Connect, ConnectFault, ConnectForm};
use avocet_server::connect::document::{TLS_PORT, document, in_terminal, stamps};
use avocet_server::connect::{DeviceConnection, PlainService};
use clap::{Args, ValueEnum};

use crate::error::CommandError;
use crate::output;

/// Arguments of `avocet connect`.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Form of the output
    #[arg(value_enum, default_value = "text")]
    form: PrintedForm,
    /// Identifier that the device sends with its queries: WORD, as in `ids = ["id:WORD"]` of a
    /// [[client]]
    #[arg(long, value_name = "WORD")]
    id: Option<String>,
    /// Host name of the server, from its certificates [default: the first name of the first
    /// certificate]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Name of the [[listener]] to which the device connects [default: the addresses of [server]]
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Configuration file [default: that of AVOCET_CONFIG, or /etc/avocet/avocet.toml if it exists]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The forms of the output of `avocet connect`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PrintedForm {
    /// Settings to enter by hand in phones, browsers, routers and other resolvers
    Text,
    /// A configuration profile for devices of Apple (.mobileconfig)
    Profile,
    /// DNS stamps, one on each line, for apps that read them
    Stamps,
    /// A QR code with the DNS stamp for HTTPS, or else with the first stamp, for apps that scan
    /// stamps
    Qr,
    /// DHCP options for Kea that announce the server (RFC 9463)
    Kea,
    /// DHCP options for dnsmasq that announce the server (RFC 9463)
    Dnsmasq,
    /// A drop-in configuration file for systemd-resolved
    Resolved,
}

/// Prints what a device needs to connect to the server.
///
/// # Errors
/// The configuration has errors, or cannot be used in this way.
pub(crate) fn run(args: &ConnectArgs) -> Result<ExitCode, CommandError> {
    let config = Config::load(find(args.config.as_deref()).as_deref(), environment())?;
    let wish =
        Connect { name: args.name.clone(), id: args.id.clone(), listener: args.listener.clone() };
    let connection = match DeviceConnection::of(&config, &wish) {
        Err(fault @ (ConnectFault::NoName | ConnectFault::NoListener(_)))
            if matches!(args.form, PrintedForm::Text) && wish.id.is_none() =>
        {
            return plain_alone(&config, &wish, fault);
        }
        found => found?,
    };
    let form = match args.form {
        PrintedForm::Text => None,
        PrintedForm::Qr => Some(in_terminal(&connection)?),
        PrintedForm::Profile => Some(document(&connection, ConnectForm::Profile)?),
        PrintedForm::Stamps => Some(document(&connection, ConnectForm::Stamps)?),
        PrintedForm::Kea => Some(document(&connection, ConnectForm::Kea)?),
        PrintedForm::Dnsmasq => Some(document(&connection, ConnectForm::Dnsmasq)?),
        PrintedForm::Resolved => Some(document(&connection, ConnectForm::Resolved)?),
    };
    let text = form.unwrap_or_else(|| text(&connection));
    let _ = output::write_data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the addresses without encryption, with the reason why there are no others.
fn plain_alone(
    config: &Config,
    wish: &Connect,
    fault: ConnectFault,
) -> Result<ExitCode, CommandError> {
    let Some(plain) = PlainService::of(config, wish.listener.as_deref())? else {
        return Err(fault.into());
    };
    let addresses = match shown(&plain) {
        known if !known.is_empty() => known,
        _ => format!("those of this machine, port {}", plain.port),
    };
    let text = format!("{:<14} DNS servers in DHCP, without encryption: {addresses}\n", "Router");
    let _ = output::write_data(&text)?;
    output::note(&format!("no encrypted DNS: {fault}"));
    Ok(ExitCode::SUCCESS)
}

fn text(connection: &DeviceConnection) -> String {
    let mut out = format!("Server         {}\n", connection.name);
    let mut line = |title: &str, value: String| {
        let _ = writeln!(out, "{title:<14} {value}");
    };
    if let Some(word) = &connection.word {
        line("Device", format!("id:{word}"));
    }
    if connection.authority.is_some() {
        let what = "avocet certificate authority: install it on the device first";
        line("Authority", what.to_owned());
    }
    if let Some(tls) = connection.endpoint(Protocol::Tls) {
        line("DoT", tls.authority(TLS_PORT));
        // Android verifies private DNS with the authorities of the system only.
        if tls.port == TLS_PORT && connection.authority.is_none() {
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
    if let Some(plain) = connection.plain.as_ref().filter(|_| connection.word.is_none()) {
        let shown = shown(plain);
        if !shown.is_empty() {
            line("Router", format!("DNS servers in DHCP, without encryption: {shown}"));
        }
    }
    for stamp in stamps(connection) {
        line("Stamp", stamp);
    }
    out
}

/// Returns addresses without encryption, each with its port unless that is 53.
fn shown(plain: &PlainService) -> String {
    let shown = |ip: &IpAddr| match plain.port {
        53 => ip.to_string(),
        port => SocketAddr::new(*ip, port).to_string(),
    };
    plain.addresses.iter().map(shown).collect::<Vec<_>>().join(" ")
}
