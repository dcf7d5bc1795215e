//! Zones from the tables of PowerDNS in PostgreSQL databases.
//!
//! ```text
//! check of a zone --> connection --> rows of the zone --> text of RRsets (as from a URL)
//! thread of a database (running/databases.rs) --> connection, LISTEN --> NOTIFY: the zone is due
//! ```
//! Each check has its own connection and thread: a database that hangs delays no other zone and no
//! query. All input from a database is bounded: octets of a connection, rows, octets of a row,
//! time.

mod records;
mod socket;
mod tls;

use std::error::Error as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use avocet_config::database_address::{DatabaseAddress, DatabaseHost};
use avocet_config::zone_url::ZoneUrl;
use avocet_worker::certificates::CertificateFault;
use avocet_worker::upstream_tls::of_database;
use avocet_zone::PowerDnsFault;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Connection};

use crate::error::LookupError;
use crate::lists::fetch::Lookup;
use crate::secret_file::{self, SecretFileError};

pub(crate) use records::{ZoneRows, read_zone};
use socket::BoundedSocket;
use tls::{DatabaseTls, TlsSocket};

/// Maximum time to connect, including the log-in.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of octets of a file with a password.
const MAX_PASSWORD: u64 = 4 << 10;
/// Maximum number of characters of a text from the database in a message.
const MAX_SHOWN: usize = 200;
/// The name of this server in `pg_stat_activity` of the database.
const APPLICATION: &str = "avocet";
/// The settings of a session. The session never writes. The database ends a statement when its
/// client has disconnected.
const SETTINGS: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; \
                        SET statement_timeout = '60s'; SET lock_timeout = '10s'";

/// The reason why a database is not usable.
#[derive(Debug, Error)]
pub(crate) enum DatabaseError {
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[error("{} is empty, or has more than one line", .0.display())]
    Password(PathBuf),
    #[error("{0}")]
    Lookup(LookupError),
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    #[error("the name of the host cannot be that of a certificate")]
    Name,
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("{0}")]
    Refused(ShownText),
    #[error("no answer within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    #[error("the table domains has no zone {0}")]
    NoZone(String),
    #[error("its SOA record is disabled, and so the whole zone")]
    Disabled,
    #[error("the zone has more than {} records", records::MAX_ROWS)]
    TooManyRows,
    #[error("the zone has more than {} octets", avocet_zone::MAX_SOURCE_OCTETS)]
    TooLarge,
    #[error("the record {row}: {fault}")]
    Row { row: ShownText, fault: PowerDnsFault },
    #[error("the row {id} of the table records: {reason}")]
    Column { id: i64, reason: ShownText },
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Refused(ShownText::of_error(&error))
    }
}

/// A text from the database in a message: short, and without control characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ShownText(String);

impl ShownText {
    fn of(text: &str) -> Self {
        let escaped = |one: char| one.escape_debug().filter(move |_| one.is_control());
        let shown = text.chars().take(MAX_SHOWN).flat_map(|one| {
            let plain = (!one.is_control()).then_some(one);
            escaped(one).chain(plain)
        });
        Self(shown.collect())
    }

    fn of_error(error: &tokio_postgres::Error) -> Self {
        let text = match (error.as_db_error(), error.source()) {
            (Some(refusal), _) => format!("{} ({})", refusal.message(), refusal.code().code()),
            (None, Some(reason)) => format!("{error}: {reason}"),
            (None, None) => error.to_string(),
        };
        Self::of(&text)
    }
}

impl fmt::Display for ShownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A database: its address, its user, and the files with which both sides prove their identity.
/// Zones with equal sources share the thread that listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DatabaseSource {
    address: DatabaseAddress,
    url: ZoneUrl,
}

impl DatabaseSource {
    /// Returns the database of a URL; `None` if the URL names no database.
    pub(crate) fn of(url: &ZoneUrl) -> Option<Self> {
        let address = url.database.clone()?;
        // Settings of one zone must not make equal databases differ.
        let url = ZoneUrl { refresh_secs: 0, ..url.clone() };
        Some(Self { address, url })
    }

    /// Returns the URL, which contains no secret.
    pub(crate) fn url(&self) -> &str {
        &self.url.url
    }

    /// Reads the files and resolves the host; blocks until both are done.
    pub(crate) fn login(&self, lookup: &Lookup) -> Result<DatabaseLogin, DatabaseError> {
        let DatabaseAddress { user, host, port, database } = &self.address;
        let mut config = tokio_postgres::Config::new();
        config.user(user).dbname(database).application_name(APPLICATION);
        if let Some(file) = &self.url.password_file {
            config.password(&*password(file)?);
        }
        let is_encrypted = self.address.is_remote()
            || self.address.may_use_tls() && (self.url.ca.is_some() || self.url.client.is_some());
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        let tls = match is_encrypted {
            true => Some((of_database(&self.url)?, server_name(host)?)),
            false => None,
        };
        let addresses = match host {
            DatabaseHost::Directory(_) => Vec::new(),
            DatabaseHost::Address(address) => vec![*address],
            DatabaseHost::Name(name) => lookup(name).map_err(DatabaseError::Lookup)?,
        };
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, *port)).collect();
        Ok(DatabaseLogin {
            config,
            socket: self.address.socket(),
            addresses,
            tls: DatabaseTls(tls),
        })
    }
}

/// The parameters of a connection to a database.
pub(crate) struct DatabaseLogin {
    config: tokio_postgres::Config,
    socket: Option<PathBuf>,
    addresses: Vec<SocketAddr>,
    tls: DatabaseTls,
}

/// A connection, which reads and writes while it is polled.
pub(crate) type DatabaseConnection = Connection<BoundedSocket, TlsSocket>;

impl DatabaseLogin {
    /// Connects to the first address that accepts a connection, and logs in.
    pub(crate) async fn connect(self) -> Result<(Client, DatabaseConnection), DatabaseError> {
        let connect = async {
            let socket = BoundedSocket::connect(self.socket.as_deref(), &self.addresses).await;
            let socket = socket.map_err(DatabaseError::Connect)?;
            Ok(self.config.connect_raw(socket, self.tls).await?)
        };
        let connected = tokio::time::timeout(CONNECT, connect).await;
        connected.map_err(|_| DatabaseError::TimedOut(CONNECT))?
    }
}

fn server_name(host: &DatabaseHost) -> Result<ServerName<'static>, DatabaseError> {
    match host {
        DatabaseHost::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|_| DatabaseError::Name)
        }
        DatabaseHost::Address(address) => Ok((*address).into()),
        DatabaseHost::Directory(_) => Err(DatabaseError::Name),
    }
}

/// Reads the password in a file: its line, without the line end.
fn password(file: &Path) -> Result<zeroize::Zeroizing<Vec<u8>>, DatabaseError> {
    let mut octets = secret_file::read(file, MAX_PASSWORD)?;
    while octets.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
        octets.pop();
    }
    let has_line = !octets.is_empty() && !octets.contains(&b'\n') && !octets.contains(&0);
    has_line.then_some(octets).ok_or_else(|| DatabaseError::Password(file.to_owned()))
}

/// Returns a runtime for the connections of one thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_database_are_short_and_have_no_control_characters() {
        assert_eq!(ShownText::of("a\n\u{1b}[31mç\\").to_string(), "a\\n\\u{1b}[31mç\\");
        assert_eq!(ShownText::of(&"x".repeat(1_000)).to_string().len(), MAX_SHOWN);
    }

    #[test]
    fn a_password_is_a_line_of_a_file_that_others_cannot_read() {
        use std::os::unix::fs::PermissionsExt;
        let name = format!("avocet-password-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let read = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            password(&path).map(|octets| octets.to_vec()).map_err(|error| error.to_string())
        };
        assert_eq!(read(" hush hush\r\n", 0o640).unwrap(), b" hush hush");
        for (text, mode, expected) in [
            ("hush", 0o644, "others may read"),
            ("hush\nhush\n", 0o600, "more than one line"),
            ("\n", 0o600, "is empty"),
            ("hu\0sh", 0o600, "more than one line"),
        ] {
            let error = read(text, mode).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hush"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
