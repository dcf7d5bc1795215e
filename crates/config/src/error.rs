//! Errors in the values and files of a configuration.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_dnssec::anchor::AnchorError;
use avocet_policy::rule::ServerFault;
use avocet_wire::Rtype;
use avocet_wire::rdata::RdataError;
use avocet_wire::text::TextError;
use ipnet::IpNet;
use thiserror::Error;

/// An error in a value or a file of a configuration. [`ConfigErrors`](crate::ConfigErrors) adds
/// the location to its text.
#[derive(Debug, Error)]
pub enum SettingError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The value has another type or is out of bounds.
    #[error("expected {expected}, found {found}")]
    Mismatch {
        /// The valid values.
        expected: String,
        /// The value.
        found: String,
    },
    /// The schema has no such key.
    #[error("unknown key `{key}`; {advice}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that were probably meant.
        advice: KeyAdvice,
    },
    /// A variable of the environment names a list of tables.
    #[error("[[{0}]] cannot be set by a variable; write it in the file")]
    VariableOfTables(String),
    /// A variable of the environment separates table and key by one underscore. The value is the
    /// variable that was probably meant.
    #[error("two underscores separate table and key; did you mean {0}?")]
    OneUnderscore(String),
    /// A listening address has port 0.
    #[error("\"{text}\" has port 0, which clients cannot reach; write \"{usual}\"")]
    PortZero {
        /// The address as written in the configuration.
        text: String,
        /// The address with the usual port.
        usual: SocketAddr,
    },
    /// A listening address has no port.
    #[error("\"{text}\" has no port; write \"{usual}\"")]
    NoPort {
        /// The address as written in the configuration.
        text: String,
        /// The address with the usual port.
        usual: SocketAddr,
    },
    /// A range of ports ends before it starts.
    #[error("the range \"{text}\" ends before it starts; write \"{last}-{first}\"")]
    ReversedPorts {
        /// The range as written in the configuration.
        text: String,
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
    /// A network is written as an address inside it.
    #[error(
        "\"{text}\" is an address inside a network; write \"{}\" for the network or \"{}\" for the \
         address",
        .network.trunc(),
        .network.addr()
    )]
    InsideNetwork {
        /// The network as written in the configuration.
        text: String,
        /// The address and the length of the prefix.
        network: IpNet,
    },
    /// The text is not a domain name.
    #[error("{text:?} is not a name: {source}")]
    Name {
        /// The text that is not a name.
        text: String,
        /// The problem.
        source: TextError,
    },
    /// The text is not a valid internationalised domain name (UTS 46).
    #[error("{0:?} is not a name: it is not a valid internationalised name")]
    InternationalisedName(String),
    /// A domain name has blanks.
    #[error("{0:?} has a space in it; if that is intended, write \\\\032")]
    BlankInName(String),
    /// Records of this type are never stored (RFC 6895 §3.1).
    #[error("records of type {0} exist only in messages")]
    MetaType(Rtype),
    /// A value of a TXT record has several words without quotes.
    #[error("a text with blanks needs quotes of its own: '\"{0}\"'")]
    UnquotedText(String),
    /// The text is not the data of a record.
    #[error("{value:?} is not valid data of type {rtype}: {source}")]
    RecordData {
        /// The text that is not valid data.
        value: String,
        /// The type of the record.
        rtype: Rtype,
        /// The problem.
        source: RdataError,
    },
    /// The text is not a trust anchor.
    #[error("{text:?}: {source}")]
    TrustAnchor {
        /// The text that is not a trust anchor.
        text: String,
        /// The problem.
        source: AnchorError,
    },
    /// No server can have the address.
    #[error("{text:?} {source}")]
    Server {
        /// The address.
        text: String,
        /// The problem.
        source: ServerFault,
    },
    /// The transport of a server is not supported.
    #[error(
        "\"{0}://\" is not a supported transport; use \"udp://\", \"tcp://\", \
             \"tls://\", \"quic://\", \"https://\" or \"h3://\""
    )]
    UnsupportedTransport(String),
    /// A server with TLS has a name and no address.
    #[error("{0:?} has no address; write \"tls://NAME@ADDRESS\", or set `bootstrap`")]
    NoAddressOfName(String),
    /// A primary with TLS has a name and no address.
    #[error("{0:?} has no address; write \"tls://NAME@ADDRESS\"")]
    NoAddressOfPrimary(String),
    /// The path of a server with HTTPS cannot be in a request.
    #[error("{0:?} is not a path such as \"/dns-query\"")]
    PathOfServer(String),
    /// The name of a server with TLS cannot be in a certificate.
    #[error("{0:?} is not a host name; write \"tls://NAME@ADDRESS\" or \"tls://ADDRESS\"")]
    NameOfServer(String),
    /// The protocol of a listening address is not supported.
    #[error(
        "\"{0}://\" is not a supported protocol of a listener; use an address alone for UDP \
             and TCP, \"tls://\", \"quic://\" or \"https://\""
    )]
    UnsupportedListener(String),
    /// A forwarding rule excludes all names.
    #[error("\"!.\" would exclude all names; remove the rule")]
    AllExcluded,
    /// A `resolv.conf` has no server other than this one.
    #[error("{} has no server other than this one", .0.display())]
    NoOtherServer(PathBuf),
    /// A line of a file with root servers is wrong.
    #[error("{}:{line}: {source}", .path.display())]
    RootHints {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        source: Box<HintFault>,
    },
    /// A file with root servers has no server with an address.
    #[error("{} has no server: add NS records of the root and their addresses", .0.display())]
    NoRootServers(PathBuf),
    /// A word is not among the words that a key permits.
    #[error("{found:?} is not {what}; {advice}")]
    Choice {
        /// The word.
        found: String,
        /// The kind of values that the key permits.
        what: &'static str,
        /// The word that was probably meant, or all words.
        advice: ChoiceAdvice,
    },
    /// An item of `addresses` of a pool has a part that cannot be read.
    #[error("{text:?}: {fault}")]
    PoolItem {
        /// The item.
        text: String,
        /// The problem.
        fault: PoolItemFault,
    },
    /// The text is not a span of time.
    #[error("expected a time from \"1s\" to \"365d\", such as \"90s\", \"30m\", \"2h\" or \"1d\"")]
    Duration,
}

/// The keys that were probably meant by an unknown one.
#[derive(Debug, Error)]
pub enum KeyAdvice {
    /// Another table has the key. Contains the first line of that table.
    #[error("it belongs under {0}")]
    Under(String),
    /// The table has a similar key.
    #[error("did you mean `{0}`?")]
    Similar(String),
    /// All keys of the table.
    #[error("known keys: {}", .0.join(", "))]
    Known(Vec<String>),
}

/// The known words that resemble an unknown one.
#[derive(Debug, Error)]
pub enum ChoiceAdvice {
    /// A similar word.
    #[error("did you mean \"{0}\"?")]
    Similar(&'static str),
    /// All words that the key permits.
    #[error("use one of {}", .0.join(", "))]
    Known(&'static [&'static str]),
}

/// The problem of an item of `addresses` of a pool.
#[derive(Debug, Error)]
pub enum PoolItemFault {
    /// The text does not begin with an address.
    #[error("expected an address first, such as \"192.0.2.1\"")]
    Address,
    /// The word is not known.
    #[error("\"{0}\" is none of \"weight\", \"probe\" and \"near\"")]
    Word(String),
    /// The word occurs twice.
    #[error("\"{0}\" occurs twice")]
    Twice(String),
    /// The weight is not a number.
    #[error("expected a weight from 0 to 65535, found \"{0}\"")]
    Weight(String),
    /// The address of the probe cannot be read.
    #[error("expected an address with or without port for the probe, found \"{0}\"")]
    Probe(String),
    /// A place cannot be read.
    #[error(
        "expected places such as \"country:DE\", \"continent:EU\" or \"10.0.0.0/8\", separated by \
         commas, found \"{0}\""
    )]
    Place(String),
}

/// An error in a line of a file with root servers, without the text of the line.
#[derive(Debug, Error)]
pub enum HintFault {
    /// The owner is no domain name.
    #[error("the owner is not a name")]
    NotAName,
    /// There is no such record type.
    #[error("there is no such record type")]
    UnknownType,
    /// The first record has no owner.
    #[error("the record has no owner")]
    NoOwner,
    /// The data of the record is malformed.
    #[error("the data does not fit the record type")]
    Data,
    /// The record is not of a root server.
    #[error("expected NS records of the root, A and AAAA records")]
    OtherRecord,
    /// There are too many servers.
    #[error("too many servers")]
    TooManyServers,
}
