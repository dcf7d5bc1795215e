//! `url` of `[[zone]]` for a database, in the form of PostgreSQL's own programs.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::host_name::host_name;

/// The port of PostgreSQL.
const PORT: u16 = 5432;
/// The start of the URL; PostgreSQL accepts the second form too.
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];
/// Maximum number of octets of the name of a user or a database (`NAMEDATALEN` of PostgreSQL, less
/// one).
const MAX_DATABASE_NAME: usize = 63;

/// The address of a database, and the user that connects to it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DatabaseAddress {
    /// The name of the user.
    pub user: String,
    /// The server.
    pub host: DatabaseHost,
    /// The port, which is also in the name of a Unix socket.
    pub port: u16,
    /// The name of the database.
    pub database: String,
}

/// The server of a database.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DatabaseHost {
    /// The directory of the Unix socket of the server.
    Directory(PathBuf),
    /// The IP address of the server.
    Address(IpAddr),
    /// The host name of the server, in lower case.
    Name(String),
}

/// The reason why a text is not a URL of a database. The messages never contain the text, because
/// it may have a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DatabaseAddressError {
    /// The scheme or the form of the URL is wrong.
    #[error(
        "expected \"postgresql://USER@HOST:PORT/DATABASE\", or \
         \"postgresql://USER@/DATABASE?host=/DIRECTORY\" with the directory of a Unix socket"
    )]
    Form,
    /// The URL has no user.
    #[error("the url has no user: \"postgresql://USER@HOST/DATABASE\"")]
    NoUser,
    /// The URL has a password.
    #[error("a url is no place for a password: `password-file` has it")]
    Password,
    /// The URL has no database.
    #[error("the url has no name of a database: \"postgresql://USER@HOST/DATABASE\"")]
    NoDatabase,
    /// A name has characters that a URL must escape.
    #[error(
        "a user or a database has letters, digits, `-`, `_` and `.` here, at most \
         {MAX_DATABASE_NAME} octets"
    )]
    Name,
    /// The host is malformed.
    #[error("the host of the url is neither a name nor an address")]
    Host,
    /// The port is malformed.
    #[error("the port of the url is not a number from 1 to 65535")]
    Port,
    /// A parameter is not supported.
    #[error(
        "the url has only the parameters `host`, for the directory of a Unix socket, and `port`"
    )]
    Parameter,
}

impl DatabaseAddress {
    /// Reads a URL.
    ///
    /// # Errors
    /// The text is not a URL of a database, or it has a password.
    pub fn read(url: &str) -> Result<Self, DatabaseAddressError> {
        let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or(DatabaseAddressError::Form)?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').ok_or(DatabaseAddressError::NoDatabase)?;
        let (user, place) = authority.rsplit_once('@').ok_or(DatabaseAddressError::NoUser)?;
        if user.contains(':') {
            return Err(DatabaseAddressError::Password);
        }
        match (user.is_empty(), database.is_empty()) {
            (true, _) => return Err(DatabaseAddressError::NoUser),
            (_, true) => return Err(DatabaseAddressError::NoDatabase),
            (false, false) => {}
        }
        if !is_name(user) || !is_name(database) {
            return Err(DatabaseAddressError::Name);
        }
        let parameters = Parameters::read(parameters)?;
        let (host, port) = match parameters.directory {
            Some(directory) if place.is_empty() => (DatabaseHost::Directory(directory), None),
            Some(_) => return Err(DatabaseAddressError::Parameter),
            None => host_and_port(place)?,
        };
        let port = port.or(parameters.port).unwrap_or(PORT);
        Ok(Self { user: user.to_owned(), host, port, database: database.to_owned() })
    }

    /// Returns whether a connection may use TLS: PostgreSQL has none on Unix sockets.
    #[must_use]
    pub const fn may_use_tls(&self) -> bool {
        !matches!(self.host, DatabaseHost::Directory(_))
    }

    /// Returns whether a connection leaves this machine. Such a connection must use TLS.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        match &self.host {
            DatabaseHost::Directory(_) => false,
            DatabaseHost::Address(address) => !address.to_canonical().is_loopback(),
            DatabaseHost::Name(name) => name != "localhost",
        }
    }

    /// Returns the path of the Unix socket; `None` if the server has another address.
    #[must_use]
    pub fn socket(&self) -> Option<PathBuf> {
        let DatabaseHost::Directory(directory) = &self.host else { return None };
        Some(directory.join(format!(".s.PGSQL.{}", self.port)))
    }
}

/// The parameters after `?`.
#[derive(Default)]
struct Parameters {
    directory: Option<PathBuf>,
    port: Option<u16>,
}

impl Parameters {
    fn read(text: &str) -> Result<Self, DatabaseAddressError> {
        let mut parameters = Self::default();
        for parameter in text.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("host", path)) if Path::new(path).is_absolute() && !path.contains('%') => {
                    parameters.directory = Some(PathBuf::from(path));
                }
                Some(("port", port)) => parameters.port = Some(port_of(port)?),
                _ => return Err(DatabaseAddressError::Parameter),
            }
        }
        Ok(parameters)
    }
}

fn host_and_port(text: &str) -> Result<(DatabaseHost, Option<u16>), DatabaseAddressError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(DatabaseAddressError::Host)?;
        let address = address.parse().map_err(|_| DatabaseAddressError::Host)?;
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port_of(port)?),
            None if port.is_empty() => None,
            None => return Err(DatabaseAddressError::Host),
        };
        return Ok((DatabaseHost::Address(IpAddr::V6(address)), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port_of(port)?)),
        None => (text, None),
    };
    let host = match host.parse() {
        Ok(address) => DatabaseHost::Address(IpAddr::V4(address)),
        Err(_) => {
            let name = host_name(host).filter(|name| !name.starts_with('*'));
            DatabaseHost::Name(name.ok_or(DatabaseAddressError::Host)?)
        }
    };
    Ok((host, port))
}

fn port_of(text: &str) -> Result<u16, DatabaseAddressError> {
    text.parse().ok().filter(|port| *port != 0).ok_or(DatabaseAddressError::Port)
}

/// Returns whether a text is a name of a user or a database that needs no escapes in a URL.
fn is_name(text: &str) -> bool {
    let is_octet = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    text.len() <= MAX_DATABASE_NAME && text.bytes().all(is_octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Result<&str, DatabaseAddressError>) {
        let read = DatabaseAddress::read(url).map(|address| {
            let DatabaseAddress { user, host, port, database } = address;
            format!("{user} {host:?} {port} {database}")
        });
        assert_eq!(read, expected.map(str::to_owned), "{url}");
    }

    #[test]
    fn urls_of_databases_are_those_of_postgresql() {
        check("postgresql://me@db.Example./pdns", Ok("me Name(\"db.example\") 5432 pdns"));
        check("postgres://me@192.0.2.1:99/p-1", Ok("me Address(192.0.2.1) 99 p-1"));
        check("postgresql://me@[2001:db8::1]:99/p", Ok("me Address(2001:db8::1) 99 p"));
        check("postgresql://me@[2001:db8::1]/p", Ok("me Address(2001:db8::1) 5432 p"));
        let socket = "postgresql://me@/p?host=/var/run/postgresql&port=5433";
        check(socket, Ok("me Directory(\"/var/run/postgresql\") 5433 p"));
    }

    #[test]
    fn faults_never_show_what_the_url_has() {
        use DatabaseAddressError::{
            Form, Host, Name, NoDatabase, NoUser, Parameter, Password, Port,
        };
        let all = [
            ("mysql://me@h/p", Form),
            ("postgresql://h/p", NoUser),
            ("postgresql://@h/p", NoUser),
            ("postgresql://me:hush@h/p", Password),
            ("postgresql://me:hu@sh@h/p", Password),
            ("postgresql://me@h", NoDatabase),
            ("postgresql://me@h/", NoDatabase),
            ("postgresql://m%20e@h/p", Name),
            ("postgresql://me@h/p/q", Name),
            ("postgresql://me@/p", Host),
            ("postgresql://me@h,i/p", Host),
            ("postgresql://me@[h]/p", Host),
            ("postgresql://me@h:0/p", Port),
            ("postgresql://me@h:65536/p", Port),
            ("postgresql://me@h/p?host=/run", Parameter),
            ("postgresql://me@/p?host=run", Parameter),
            ("postgresql://me@/p?password=hush", Parameter),
        ];
        for (url, error) in all {
            check(url, Err(error));
            assert!(!error.to_string().contains("hush"));
        }
    }

    #[test]
    fn connections_that_leave_the_machine_are_known() {
        let is_remote = |url: &str| DatabaseAddress::read(url).unwrap().is_remote();
        assert!(is_remote("postgresql://me@192.0.2.1/p"));
        assert!(is_remote("postgresql://me@db.example/p"));
        for host in ["127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST"] {
            assert!(!is_remote(&format!("postgresql://me@{host}/p")), "{host}");
        }
        let local = DatabaseAddress::read("postgresql://me@/p?host=/run").unwrap();
        assert!(!local.is_remote() && !local.may_use_tls());
        assert_eq!(local.socket().unwrap(), Path::new("/run/.s.PGSQL.5432"));
    }
}
