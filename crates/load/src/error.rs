//! Errors of the load generator: its arguments, its input files, and the system.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use avocet_wire::name::NameError;
use avocet_wire::rdata::RdataError;
use avocet_wire::text::TextError;
use ipnet::IpNet;
use thiserror::Error;

/// The reason why nothing can be measured. A server that fails is not an error.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A duration has no unit, or an unknown one.
    #[error("a duration needs a unit: 10s, 250ms, 50us, 5m or 2h")]
    DurationUnit,
    /// A duration does not start with a number.
    #[error("{0:?} does not start with a number")]
    NotANumber(String),
    /// A duration is zero or too long.
    #[error("the duration is out of range")]
    DurationRange,
    /// A share is not a number.
    #[error("a share is written as 0.1% or 0.001")]
    NotAShare,
    /// A share is negative or above one.
    #[error("a share is between 0% and 100%")]
    ShareRange,
    /// The text is not an RCODE.
    #[error("{0:?} is not an RCODE such as NXDOMAIN")]
    NotAnRcode(String),
    /// An argument is missing. The error holds the argument to add and its purpose.
    #[error("{0}")]
    Missing(Needed),
    /// The server is on a public address.
    #[error(
        "{0} is a public address. Load on other people's servers is an attack; if the server is \
         yours, add --i-own-this-server"
    )]
    PublicServer(SocketAddr),
    /// The source addresses and the server have different address families.
    #[error("--source {prefix} and the server {server} have different address families")]
    OtherFamily {
        /// The source addresses.
        prefix: IpNet,
        /// The server.
        server: IpAddr,
    },
    /// The system cannot resolve the name of the server.
    #[error("{server:?} is not a server: {source}")]
    NotAServer {
        /// The server as it was written.
        server: String,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The host of the server has no address.
    #[error("{0:?} has no address")]
    NoAddress(String),
    /// The sockets for the server under test failed.
    #[error("{server}: {source}")]
    Server {
        /// The server.
        server: SocketAddr,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The sockets for the reference server failed.
    #[error("the reference {server}: {source}")]
    Reference {
        /// The reference server.
        server: SocketAddr,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The reference server does not answer.
    #[error("the reference {0} answered nothing over TCP")]
    SilentReference(SocketAddr),
    /// A file cannot be read or written, or its content is wrong.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<Self>,
    },
    /// A line of a file is wrong.
    #[error("line {line}: {source}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The problem.
        source: Box<Self>,
    },
    /// A line is too long.
    #[error("line {line} is longer than {most} octets")]
    LongLine {
        /// The line, from 1.
        line: usize,
        /// The maximum number of octets.
        most: usize,
    },
    /// A file is too large.
    #[error("larger than {0} octets")]
    LargeFile(u64),
    /// A file of results is too large.
    #[error("too large for a results file")]
    LargeResults,
    /// A file of results has another format.
    #[error("its format is {found:?}, not {known:?}")]
    ResultsFormat {
        /// The format of the file.
        found: String,
        /// The format of this version.
        known: &'static str,
    },
    /// The content is not JSON, or lacks a key.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The system fails.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The standard output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
    /// The text is not a domain name.
    #[error("{text:?}: {source}")]
    NotAName {
        /// The text that is not a domain name.
        text: String,
        /// The problem.
        source: Box<Self>,
    },
    /// A token is malformed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A name is malformed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The data of a record is malformed.
    #[error(transparent)]
    Data(#[from] RdataError),
    /// The text is not a known record type.
    #[error("{0:?} is not a record type")]
    NotAType(String),
    /// A record has no type.
    #[error("a record has a type")]
    NoType,
    /// The first record has no owner.
    #[error("the first record has no owner")]
    NoOwner,
    /// A parenthesis is not closed.
    #[error("a parenthesis is not closed")]
    OpenParenthesis,
    /// A directive of a zone file is not supported.
    #[error("{0} is not read here")]
    Directive(String),
    /// A zone file has no SOA record.
    #[error("it has no SOA record")]
    NoSoa,
    /// The zone has no RRset with more octets than this size.
    #[error("the zone file has no RRset of more than {0} octets")]
    NoLargeRrset(usize),
    /// A list has no queries.
    #[error("it has no queries")]
    NoQueries,
    /// There are too many queries. The error holds the limit.
    #[error("at most {0} queries are possible")]
    TooManyQueries(usize),
    /// A query is too long.
    #[error("a query does not fit into a message")]
    LongQuery,
    /// The name of a zone is too long for generated names.
    #[error("the zone's name leaves no room for a label before it")]
    LongZoneName,
    /// A recording is too short.
    #[error("too short for a pcap or dnstap file")]
    ShortRecording,
    /// A recording has another format.
    #[error("neither a classic pcap file nor dnstap; convert pcapng with editcap -F pcap")]
    NotARecording,
    /// A recording with dnstap messages cannot be read.
    #[error(transparent)]
    Tapped(#[from] avocet_dnstap::TapError),
    /// A packet of a recording is too long. The error holds its length in octets.
    #[error("a packet claims {0} octets: the file is damaged")]
    DamagedRecording(usize),
    /// A recording has no query.
    #[error("it has no DNS query over UDP")]
    NoRecordedQuery,
}

/// An argument that a scenario requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needed {
    /// The recording or list to replay.
    Replay,
    /// The names to query.
    Names,
    /// The zone of names that were never queried.
    UnusedNames,
    /// The records to compare answers with.
    Records,
    /// The results to compare with.
    Results,
    /// The certificates to accept.
    Trust,
}

impl Display for Needed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Replay => "specify what to replay with --names FILE",
            Self::Names => "specify the names: --names FILE, or --zone-name ZONE to generate them",
            Self::UnusedNames => {
                "names never queried before need --zone-name ZONE, or a --names FILE with such \
                 names"
            }
            Self::Records => "to check records, specify --zone-file FILE or --reference SERVER",
            Self::Trust => "TLS needs the authority of the server: --ca FILE, or --insecure",
            Self::Results => "specify a second file, or the later runs by --with",
        })
    }
}

impl LoadError {
    /// Returns a function that adds the path of a file to an error.
    pub(crate) fn in_file<E: Into<Self>>(path: &Path) -> impl Fn(E) -> Self + '_ {
        |error| Self::File { path: path.to_owned(), source: Box::new(error.into()) }
    }

    /// Returns a function that adds the number of a line to an error.
    pub(crate) fn in_line<E: Into<Self>>(line: usize) -> impl Fn(E) -> Self {
        move |error| Self::Line { line, source: Box::new(error.into()) }
    }
}
