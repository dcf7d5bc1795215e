//! The settings that connect devices to the server, and the reasons why they cannot connect.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// Maximum number of octets of the word of a device: the identifier that the device sends, which
/// may be a label (RFC 1035 §2.3.4).
pub const MAX_DEVICE_WORD: usize = 63;

/// A request for the settings with which a device connects to this server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// A host name of the server, from one of its certificates; by default the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The identifier that the device sends with its queries: WORD, as in `ids = ["id:WORD"]` of a
    /// `[[client]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the `[[listener]]` to connect to; by default the addresses of `[server]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
}

/// A request for a file with the settings that connect a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectDocument {
    /// The form of the file.
    pub form: ConnectForm,
    /// The server name, identifier and listener that the device uses.
    #[serde(default)]
    pub device: Connect,
}

words! {
    /// The form of a file with the settings that connect a device.
    pub enum ConnectForm {
        /// A configuration profile for devices of Apple (.mobileconfig).
        Profile = "profile",
        /// DNS stamps, one on each line. A stamp is a text with the address and the keys of a DNS
        /// server.
        Stamps = "stamps",
        /// A QR code in SVG format. It has the DNS stamp for HTTPS, or the first stamp if there is
        /// none for HTTPS.
        Qr = "qr",
        /// Options of DHCP for Kea (RFC 9463).
        Kea = "kea",
        /// Options of DHCP for dnsmasq (RFC 9463).
        Dnsmasq = "dnsmasq",
        /// A configuration file for systemd-resolved.
        Resolved = "resolved",
    }
}

words! {
    /// A protocol for encrypted DNS.
    pub enum ConnectProtocol {
        /// DNS over TLS.
        Tls = "tls",
        /// DNS over HTTPS.
        Https = "https",
        /// DNS over QUIC.
        Quic = "quic",
    }
}

/// The settings with which a device connects to this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectReport {
    /// The host name of the server; null if the server has no encrypted endpoint.
    pub name: Option<String>,
    /// The host names that the field `name` of a request may choose.
    pub names: Vec<String>,
    /// The listeners that the field `listener` of a request may choose.
    pub listeners: Vec<String>,
    /// The addresses for encrypted DNS: DNS over TLS, HTTPS and QUIC, in this order.
    pub endpoints: Vec<ConnectEndpoint>,
    /// The reason why a device cannot connect with encryption; missing if a device can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The number of queries for further names. The server counts at most 50,000 names separately.
    pub plain: Option<ConnectPlain>,
    /// The settings in all forms; empty if the server has no encrypted endpoint.
    pub documents: Vec<ConnectText>,
}

/// An address for encrypted DNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectEndpoint {
    /// The protocol.
    pub protocol: ConnectProtocol,
    /// The host name that the device connects to.
    pub host: String,
    /// The port that the device connects to.
    pub port: u16,
    /// The IP addresses of the host; empty if the server does not know them.
    pub addresses: Vec<String>,
    /// For HTTPS: whether the server also serves HTTP/3 at this address.
    pub has_h3: bool,
    /// The URL of DNS over HTTPS; missing for other protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The DNS stamp: one text with the protocol, name, address and port.
    pub stamp: String,
}

/// The address for DNS without encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectPlain {
    /// The port for UDP and TCP. Devices and routers can use only port 53.
    pub port: u16,
    /// The IP addresses of the server; empty if the server does not know them.
    pub addresses: Vec<String>,
}

/// The settings for a device in one form, or the reason why this form is not possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectText {
    /// The form of the settings.
    pub form: ConnectForm,
    /// The settings as text; null if this form is not possible.
    pub text: Option<String>,
    /// The reason why this form is not possible; missing if the text is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A file with the settings that connect a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectFile {
    /// The media type of the file.
    pub media: String,
    /// A suitable name for the file.
    pub file: String,
    /// The content of the file.
    pub text: String,
}

impl ConnectForm {
    /// All forms.
    pub const ALL: [Self; 6] =
        [Self::Profile, Self::Stamps, Self::Qr, Self::Kea, Self::Dnsmasq, Self::Resolved];

    /// Returns the media type of the form.
    pub const fn media(self) -> &'static str {
        match self {
            Self::Profile => "application/x-apple-aspen-config",
            Self::Qr => "image/svg+xml",
            Self::Stamps | Self::Kea | Self::Dnsmasq | Self::Resolved => {
                "text/plain; charset=utf-8"
            }
        }
    }

    /// Returns a name for a file in this form.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Profile => "dns.mobileconfig",
            Self::Stamps => "stamps.txt",
            Self::Qr => "dns.svg",
            Self::Kea => "kea.json",
            Self::Dnsmasq => "dnsmasq.conf",
            Self::Resolved => "resolved.conf",
        }
    }
}

/// The reason why a device cannot be connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectFault {
    /// No listener has this name.
    Listener(String),
    /// The listener has no encrypted address for clients without a certificate. Holds the name of
    /// the listener.
    NoListener(String),
    /// No certificate has a host name.
    NoName,
    /// No certificate has this name.
    Name(String),
    /// The text is not a valid identifier of a device.
    Word(String),
    /// No protocol can carry the identifier of the device. Holds the name of the server.
    Unsendable(String),
    /// Something that the form needs is missing. Holds the reason.
    Form(&'static str),
}

impl fmt::Display for ConnectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener(name) => write!(f, "no [[listener]] has the name {name:?}"),
            Self::NoListener(listener) => write!(
                f,
                "{listener} has no address with tls://, https:// or quic:// in `listen` that \
                 clients without a certificate may use"
            ),
            Self::NoName => {
                f.write_str("no certificate has a host name: set `names` in [[certificate]]")
            }
            Self::Name(name) => write!(f, "no certificate has the name {name:?}"),
            Self::Word(word) => {
                write!(
                    f,
                    "{word:?} is not a word: letters, digits, - and _, at most {MAX_DEVICE_WORD}"
                )
            }
            Self::Unsendable(name) => write!(
                f,
                "the device cannot send its word: this takes an https:// address or the name \
                 *.{name}"
            ),
            Self::Form(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ConnectFault {}
