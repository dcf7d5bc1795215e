//! The settings that connect devices to the server, and the reasons why they cannot connect.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// Maximum number of octets of the word of a device: the identifier that the device sends, which
/// may be a label (RFC 1035 §2.3.4).
pub const MAX_DEVICE_WORD: usize = 63;

/// A request for the ways to connect a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// A name of a certificate; by default the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The identifier that the device sends with its queries, as in `ids = ["id:WORD"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the `[[listener]]`; by default the addresses of `[server]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
}

/// A request for a document that connects a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectDocument {
    /// The form of the document.
    pub form: ConnectForm,
    /// The device.
    #[serde(default)]
    pub device: Connect,
}

words! {
    /// A form of the settings that connect devices.
    pub enum ConnectForm {
        /// A configuration profile for devices of Apple.
        Profile = "profile",
        /// DNS stamps, one on a line.
        Stamps = "stamps",
        /// The stamp of DNS over HTTPS, or else the first stamp, as a QR code in SVG.
        Qr = "qr",
        /// Options of DHCP for Kea (RFC 9463).
        Kea = "kea",
        /// Options of DHCP for dnsmasq (RFC 9463).
        Dnsmasq = "dnsmasq",
        /// A file for systemd-resolved.
        Resolved = "resolved",
    }
}

words! {
    /// A protocol with encryption.
    pub enum ConnectProtocol {
        /// DNS over TLS.
        Tls = "tls",
        /// DNS over HTTPS.
        Https = "https",
        /// DNS over QUIC.
        Quic = "quic",
    }
}

/// The ways to connect a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectReport {
    /// The name of the server; null without an encrypted endpoint.
    pub name: Option<String>,
    /// The names that a request may choose.
    pub names: Vec<String>,
    /// The listeners that a request may choose.
    pub listeners: Vec<String>,
    /// The encrypted endpoints: DNS over TLS, HTTPS and QUIC, in this order.
    pub endpoints: Vec<ConnectEndpoint>,
    /// The reason why devices cannot connect with encryption; missing if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The unencrypted endpoint, of the listener or else of `[server]`; null if there is none.
    pub plain: Option<ConnectPlain>,
    /// The settings in all forms; empty without an encrypted endpoint.
    pub documents: Vec<ConnectText>,
}

/// An encrypted endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectEndpoint {
    /// The protocol.
    pub protocol: ConnectProtocol,
    /// The name that the device connects to.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The addresses; none if they are not known.
    pub addresses: Vec<String>,
    /// Whether HTTP/3 is served, too.
    pub has_h3: bool,
    /// The URL of DNS over HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The DNS stamp.
    pub stamp: String,
}

/// The unencrypted endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectPlain {
    /// The port. Devices and routers use 53 only.
    pub port: u16,
    /// The addresses; none if they are not known.
    pub addresses: Vec<String>,
}

/// A form of the settings that connect a device, as a text or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectText {
    /// The form.
    pub form: ConnectForm,
    /// The text; null if there is none.
    pub text: Option<String>,
    /// The reason why the text is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A document that connects a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectFile {
    /// The media type of the document.
    pub media: String,
    /// A name for its file.
    pub file: String,
    /// The text of the document.
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
