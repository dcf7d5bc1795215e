//! DNS queries in HTTP (RFC 8484): finds the query in a request, or chooses the status of the
//! response that rejects the request.

use avocet_wire::MAX_MESSAGE;
use data_encoding::BASE64URL_NOPAD;

use super::form::{MEDIA_TYPE, Media, ResponseExtent, Status};
use super::hpack::FieldName;
use super::json::{self, ParameterFault};
use crate::oblivious::{self, CONFIGS_PATH};

/// The path of queries in RFC 8484 §4.1.1, which most clients use.
pub(crate) const PATH: &[u8] = b"/dns-query";
/// The path of oblivious queries for other servers, which some clients use.
const PROXY_PATH: &[u8] = b"/proxy";
/// The parameter with the other server (RFC 9230 §4.1).
const TARGET_HOST: &[u8] = b"targethost=";
/// The path of queries whose responses are in JSON.
const JSON_PATH: &[u8] = b"/resolve";
/// Maximum number of octets of a device identifier in a path.
const MAX_WORD: usize = 63;
/// Maximum number of octets of a path with a query in base64. It is checked before anything is
/// decoded.
pub(super) const MAX_TARGET: usize = 8 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Method {
    #[default]
    None,
    Get,
    Head,
    Post,
    Other,
}

/// The resource that the path of a request names.
#[derive(Debug, Default, PartialEq, Eq)]
enum RequestTarget {
    #[default]
    None,
    Elsewhere,
    TooLong,
    /// The path of queries, with the value of the parameter `dns` if the request has it.
    Query(Option<Vec<u8>>),
    /// The request has the parameter `dns`, but its value is not base64.
    BadQuery,
    /// The path of JSON queries, with the query that the parameters contain.
    Json(Result<Vec<u8>, ParameterFault>),
    /// The path of the configurations of a target.
    Configs,
}

/// The parts of a request that matter here.
#[derive(Debug, Default)]
pub(crate) struct RequestHead {
    method: Method,
    target: RequestTarget,
    /// The device identifier of the client, which follows the path of queries.
    word: Option<Box<[u8]>>,
    /// The parameters of a query for another server, if the request is at such a path.
    proxied: Option<Box<[u8]>>,
    body: BodyType,
    /// The fields that have occurred.
    seen: SeenFields,
    /// The number of octets of the body, if the request states it.
    pub(crate) content_length: Option<usize>,
    /// Whether a field occurs twice, is at the wrong place, must not be in a request, or has an
    /// invalid value.
    pub(crate) is_malformed: bool,
}

/// The content type of the body of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyType {
    #[default]
    Other,
    /// A DNS message.
    Message,
    /// An encrypted DNS message.
    Oblivious,
}

impl BodyType {
    /// Reads the field `content-type`. Parameters are ignored.
    fn read(value: &[u8]) -> Self {
        let end = value.iter().position(|octet| *octet == b';').unwrap_or(value.len());
        let name = value[..end].trim_ascii();
        match name {
            name if name.eq_ignore_ascii_case(MEDIA_TYPE) => Self::Message,
            name if name.eq_ignore_ascii_case(oblivious::MEDIA_TYPE) => Self::Oblivious,
            _ => Self::Other,
        }
    }
}

/// The set of fields that have occurred; the constants are its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SeenFields(u8);

impl SeenFields {
    const SCHEME: u8 = 1;
    const AUTHORITY: u8 = 2;
    /// A host name that is not empty.
    const HOST: u8 = 4;
    /// A pseudo-field.
    const PSEUDO: u8 = 8;
    /// A field that is not a pseudo-field.
    const REGULAR: u8 = 16;

    const fn has(self, field: u8) -> bool {
        self.0 & field != 0
    }

    /// Adds a field. Returns whether it has occurred before.
    const fn add(&mut self, field: u8) -> bool {
        let had = self.has(field);
        self.0 |= field;
        had
    }
}

/// How a request continues after its header fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestVerdict {
    /// The query is in the path.
    Query(Vec<u8>, ResponseExtent),
    /// The query is the body.
    Body,
    /// The request has no query.
    Reject(Status),
}

impl RequestHead {
    /// Reads a field of the request.
    pub(crate) fn field(&mut self, name: FieldName, value: &[u8]) {
        // Pseudo-fields must come first (RFC 9113 §8.3, RFC 9114 §4.3).
        if name.is_pseudo() {
            self.seen.add(SeenFields::PSEUDO);
            self.is_malformed |= self.seen.has(SeenFields::REGULAR);
        } else {
            self.seen.add(SeenFields::REGULAR);
        }
        match name {
            FieldName::Method => {
                self.is_malformed |= self.method != Method::None;
                self.method = match value {
                    b"GET" => Method::Get,
                    b"HEAD" => Method::Head,
                    b"POST" => Method::Post,
                    _ => Method::Other,
                };
            }
            FieldName::Path => {
                self.is_malformed |= value.is_empty() || self.target != RequestTarget::None;
                (self.target, self.word) = RequestTarget::read(value);
                self.proxied = parameters_for_proxy(value);
            }
            FieldName::ContentType => self.body = BodyType::read(value),
            FieldName::ContentLength => {
                let length = number(value);
                self.is_malformed |= length.is_none() || self.content_length.is_some();
                self.content_length = length;
            }
            FieldName::Scheme => self.is_malformed |= self.seen.add(SeenFields::SCHEME),
            FieldName::Authority | FieldName::Host => {
                let is_second =
                    name == FieldName::Authority && self.seen.add(SeenFields::AUTHORITY);
                self.is_malformed |= is_second;
                if !value.is_empty() {
                    self.seen.add(SeenFields::HOST);
                }
            }
            // `te` may only have the value `trailers` (RFC 9113 §8.2.2, RFC 9114 §4.2).
            FieldName::Te => self.is_malformed |= !value.eq_ignore_ascii_case(b"trailers"),
            FieldName::Status
            | FieldName::UnknownPseudo
            | FieldName::OfConnection
            | FieldName::BadName => self.is_malformed = true,
            FieldName::AltSvc | FieldName::Other => {}
        }
    }

    /// Reports whether method, scheme or path are missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.method == Method::None
            || self.target == RequestTarget::None
            || !self.seen.has(SeenFields::SCHEME)
    }

    /// Reports whether the host name is missing, which HTTP/3 requires (RFC 9114 §4.3.1).
    pub(crate) fn lacks_host(&self) -> bool {
        !self.seen.has(SeenFields::HOST)
    }

    /// Reports whether the fields may follow a body: they have no pseudo-field (RFC 9113 §8.1).
    pub(crate) fn may_be_trailers(&self) -> bool {
        !self.is_malformed && !self.seen.has(SeenFields::PSEUDO)
    }

    /// Takes the device identifier of the client, or the parameters of a query for another server.
    pub(crate) fn take_word(&mut self) -> Option<Box<[u8]>> {
        if self.is_proxied() { self.proxied.clone() } else { self.word.take() }
    }

    /// Reports whether the request has an oblivious query for another server. Any other request is
    /// read as if it had no parameters for a proxy.
    fn is_proxied(&self) -> bool {
        let is_oblivious = self.method == Method::Post && self.body == BodyType::Oblivious;
        is_oblivious && self.proxied.is_some()
    }

    /// Returns the form of the response to the query.
    pub(crate) fn media(&self) -> Media {
        if self.is_proxied() {
            return Media::Proxied;
        }
        match (&self.target, self.method, self.body) {
            (RequestTarget::Json(_), ..) => Media::Json,
            (RequestTarget::Configs, ..) => Media::Configs,
            (RequestTarget::Query(_), Method::Post, BodyType::Oblivious) => Media::Oblivious(None),
            _ => Media::Message,
        }
    }

    /// Returns how the request continues.
    pub(crate) fn verdict(self) -> RequestVerdict {
        let extent = if self.method == Method::Head {
            ResponseExtent::Fields
        } else {
            ResponseExtent::Whole
        };
        let is_long = self.content_length.is_some_and(|len| len > MAX_MESSAGE);
        if self.is_proxied() && !is_long {
            return RequestVerdict::Body;
        }
        match (self.method, self.target) {
            (_, RequestTarget::TooLong) => RequestVerdict::Reject(Status::LongTarget),
            (_, RequestTarget::None | RequestTarget::Elsewhere) => {
                RequestVerdict::Reject(Status::NotFound)
            }
            (Method::Get | Method::Head, RequestTarget::Configs) => {
                RequestVerdict::Query(Vec::new(), extent)
            }
            (_, RequestTarget::Configs) => RequestVerdict::Reject(Status::NotFound),
            (Method::None | Method::Other, _) => RequestVerdict::Reject(Status::BadMethod),
            (
                Method::Get | Method::Head,
                RequestTarget::Query(Some(query)) | RequestTarget::Json(Ok(query)),
            ) => RequestVerdict::Query(query, extent),
            (Method::Get, RequestTarget::Json(Err(fault))) => {
                RequestVerdict::Reject(Status::BadParameters(fault))
            }
            (Method::Post, RequestTarget::Json(_)) => RequestVerdict::Reject(Status::BadRequest),
            (Method::Get | Method::Head, _) => RequestVerdict::Reject(Status::BadRequest),
            (Method::Post, _) if self.body == BodyType::Other => {
                RequestVerdict::Reject(Status::BadType)
            }
            (Method::Post, _) if is_long => RequestVerdict::Reject(Status::LargeBody),
            (Method::Post, _) => RequestVerdict::Body,
        }
    }
}

impl RequestTarget {
    /// Reads a target. Also returns the device identifier in its path.
    fn read(target: &[u8]) -> (Self, Option<Box<[u8]>>) {
        if target.len() > MAX_TARGET {
            return (Self::TooLong, None);
        }
        let at = target.iter().position(|octet| *octet == b'?').unwrap_or(target.len());
        let (path, parameters) = target.split_at(at);
        let parameters = parameters.get(1..).unwrap_or_default();
        if path == CONFIGS_PATH {
            return (Self::Configs, None);
        }
        let (rest, is_json) = match (path.strip_prefix(PATH), path.strip_prefix(JSON_PATH)) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return (Self::Elsewhere, None),
        };
        let word = match rest {
            [] => None,
            [b'/', word @ ..] if is_word(word) => Some(word.into()),
            _ => return (Self::Elsewhere, None),
        };
        let target =
            if is_json { Self::Json(json::query(parameters)) } else { Self::query(parameters) };
        (target, word)
    }

    /// Reads the parameters of a request at the path of queries.
    fn query(parameters: &[u8]) -> Self {
        let mut all = parameters.split(|octet| *octet == b'&');
        let Some(text) = all.find_map(|one| one.strip_prefix(b"dns=")) else {
            return Self::Query(None);
        };
        // Padding is not allowed (RFC 8484 §6), but some clients write it.
        let end = text.iter().rposition(|octet| *octet != b'=').map_or(0, |last| last + 1);
        BASE64URL_NOPAD
            .decode(&text[..end])
            .map_or(Self::BadQuery, |query| Self::Query(Some(query)))
    }
}

/// Returns the parameters of a target, if its path and parameters are those of a query for another
/// server.
fn parameters_for_proxy(target: &[u8]) -> Option<Box<[u8]>> {
    let at =
        target.iter().position(|octet| *octet == b'?').filter(|_| target.len() <= MAX_TARGET)?;
    let (path, parameters) = (&target[..at], &target[at + 1..]);
    let has_target =
        || parameters.split(|one| *one == b'&').any(|one| one.starts_with(TARGET_HOST));
    ((path == PATH || path == PROXY_PATH) && has_target()).then(|| parameters.into())
}

/// Reports whether the rest of a path may be a device identifier.
fn is_word(octets: &[u8]) -> bool {
    let is_of_word = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    (1..=MAX_WORD).contains(&octets.len()) && octets.iter().all(is_of_word)
}

fn number(value: &[u8]) -> Option<usize> {
    let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    // A number that exceeds the type means that the body is too long.
    is_digits.then(|| str::from_utf8(value).ok()?.parse().ok().or(Some(usize::MAX)))?
}

#[cfg(test)]
mod tests {
    use super::super::form::RequestContent;
    use super::*;

    fn check(method: &str, path: &str, fields: &[(FieldName, &str)], expected: RequestVerdict) {
        let mut head = RequestHead::default();
        head.field(FieldName::Method, method.as_bytes());
        head.field(FieldName::Scheme, b"https");
        head.field(FieldName::Path, path.as_bytes());
        fields.iter().for_each(|(name, value)| head.field(*name, value.as_bytes()));
        assert!(!head.is_malformed && !head.is_incomplete());
        assert_eq!(head.verdict(), expected, "{method} {path:.60}");
    }

    #[test]
    fn queries_are_found_where_rfc_8484_puts_them() {
        let whole = |query: &[u8]| RequestVerdict::Query(query.to_vec(), ResponseExtent::Whole);
        check("GET", "/dns-query?dns=AAEB", &[], whole(&[0, 1, 1]));
        check("GET", "/dns-query?x=1&dns=_-8&y", &[], whole(&[0xff, 0xef]));
        check("GET", "/dns-query?dns=AA==", &[], whole(&[0]));
        check(
            "HEAD",
            "/dns-query?dns=AA",
            &[],
            RequestVerdict::Query(vec![0], ResponseExtent::Fields),
        );
        let message = (FieldName::ContentType, "Application/DNS-Message; x=1");
        check("POST", "/dns-query", &[message], RequestVerdict::Body);
    }

    #[test]
    fn oblivious_queries_and_configurations_are_found_where_rfc_9230_puts_them() {
        let oblivious = (FieldName::ContentType, "application/oblivious-dns-message");
        check("POST", "/dns-query", &[oblivious], RequestVerdict::Body);
        let none = RequestVerdict::Query(Vec::new(), ResponseExtent::Whole);
        check("GET", "/.well-known/odohconfigs?x", &[], none);
        let content = |method: &str, path: &str, body: &str| {
            let mut head = RequestHead::default();
            head.field(FieldName::Method, method.as_bytes());
            head.field(FieldName::Path, path.as_bytes());
            head.field(FieldName::ContentType, body.as_bytes());
            head.media().content()
        };
        for (method, path, body, expected) in [
            ("POST", "/dns-query", oblivious.1, RequestContent::Oblivious),
            ("POST", "/dns-query/word", oblivious.1, RequestContent::Oblivious),
            ("POST", "/dns-query?targethost=a", oblivious.1, RequestContent::Proxied),
            ("POST", "/proxy?x&targethost=a&targetpath=/b", oblivious.1, RequestContent::Proxied),
            ("POST", "/dns-query?targethost=a", "application/dns-message", RequestContent::Query),
            ("GET", "/dns-query?dns=AAAA&targethost=a", oblivious.1, RequestContent::Query),
            ("POST", "/dns-query", "application/dns-message", RequestContent::Query),
            ("GET", "/dns-query?dns=AAAA", oblivious.1, RequestContent::Query),
            ("GET", "/.well-known/odohconfigs", "", RequestContent::Configs),
        ] {
            assert_eq!(content(method, path, body), expected, "{method} {path} {body}");
        }
    }

    #[test]
    fn the_path_may_name_a_device() {
        let word = |path: &str| {
            let mut head = RequestHead::default();
            head.field(FieldName::Path, path.as_bytes());
            head.take_word().map(|word| String::from_utf8_lossy(&word).into_owned())
        };
        assert_eq!(word("/dns-query/Ana-Phone?dns=AAAA").as_deref(), Some("Ana-Phone"));
        let long = format!("/dns-query/{}", "a".repeat(64));
        for path in ["/dns-query", "/dns-query/", "/dns-query/a.b", &long, "/x/ana"] {
            assert_eq!(word(path), None, "{path}");
        }
    }

    #[test]
    fn requests_without_a_query_have_a_status() {
        let message = (FieldName::ContentType, "application/dns-message");
        let oblivious = (FieldName::ContentType, "application/oblivious-dns-message");
        let json = (FieldName::ContentType, "application/dns-json");
        let long = format!("/dns-query?dns={}", "A".repeat(100_000));
        for (method, path, fields, status) in [
            ("GET", "/dns-query", &[][..], Status::BadRequest),
            ("GET", "/dns-query?dns=A+A/", &[], Status::BadRequest),
            ("GET", "/dns-query?dns=A", &[], Status::BadRequest),
            ("GET", "/", &[], Status::NotFound),
            ("GET", "/dns-query/x", &[], Status::BadRequest),
            ("GET", "/dns-query/x/y?dns=AAAA", &[], Status::NotFound),
            ("GET", "/dns-query/?dns=AAAA", &[], Status::NotFound),
            ("GET", "/dns-query/a%20b?dns=AAAA", &[], Status::NotFound),
            ("GET", "/dns-queryx?dns=AAAA", &[], Status::NotFound),
            ("GET", "/.well-known/dns-query", &[], Status::NotFound),
            ("GET", "/.well-known/odohconfigs/", &[], Status::NotFound),
            ("POST", "/.well-known/odohconfigs", &[message], Status::NotFound),
            ("POST", "/", &[oblivious], Status::NotFound),
            ("POST", "/proxy", &[oblivious], Status::NotFound),
            ("POST", "/proxy?targethost=a", &[message], Status::NotFound),
            ("GET", "/proxy?targethost=a", &[], Status::NotFound),
            ("POST", "/resolve?name=a", &[oblivious], Status::BadRequest),
            ("GET", "/dns-query", &[oblivious], Status::BadRequest),
            ("GET", "/resolve", &[], Status::BadParameters(ParameterFault::NoName)),
            ("GET", "/resolve?name=a..b", &[], Status::BadParameters(ParameterFault::BadName)),
            ("HEAD", "/resolve?name=a..b", &[], Status::BadRequest),
            ("POST", "/resolve?name=a", &[message], Status::BadRequest),
            ("GET", "/resolver?name=a", &[], Status::NotFound),
            ("GET", &long, &[], Status::LongTarget),
            ("PUT", "/dns-query", &[message], Status::BadMethod),
            ("POST", "/dns-query", &[json], Status::BadType),
            ("POST", "/dns-query", &[], Status::BadType),
            (
                "POST",
                "/dns-query",
                &[message, (FieldName::ContentLength, "65536")],
                Status::LargeBody,
            ),
            (
                "POST",
                "/dns-query",
                &[message, (FieldName::ContentLength, "99999999999999999999999")],
                Status::LargeBody,
            ),
        ] {
            check(method, path, fields, RequestVerdict::Reject(status));
        }
    }

    #[test]
    fn fields_that_contradict_themselves_are_malformed() {
        for fields in [
            &[(FieldName::Method, "GET"), (FieldName::Method, "GET")][..],
            &[(FieldName::ContentLength, "1"), (FieldName::ContentLength, "1")],
            &[(FieldName::ContentLength, "-1")],
            &[(FieldName::ContentLength, "")],
            &[(FieldName::UnknownPseudo, "")],
            &[(FieldName::OfConnection, "")],
            &[(FieldName::BadName, "")],
            &[(FieldName::Status, "200")],
            &[(FieldName::Path, "")],
            &[(FieldName::Path, "/"), (FieldName::Path, "/")],
            &[(FieldName::Scheme, "https"), (FieldName::Scheme, "https")],
            &[(FieldName::Authority, "x"), (FieldName::Authority, "x")],
            &[(FieldName::Te, "gzip")],
            &[(FieldName::Te, "trailers, gzip")],
            &[(FieldName::Other, ""), (FieldName::Scheme, "https")],
            &[(FieldName::ContentType, ""), (FieldName::Method, "GET")],
        ] {
            let mut head = RequestHead::default();
            fields.iter().for_each(|(name, value)| head.field(*name, value.as_bytes()));
            assert!(head.is_malformed, "{fields:?}");
        }
    }

    #[test]
    fn requests_have_method_scheme_and_path() {
        let all = [(FieldName::Method, "GET"), (FieldName::Scheme, "x"), (FieldName::Path, "/")];
        let read = |fields: &[(FieldName, &str)]| {
            let mut head = RequestHead::default();
            fields.iter().for_each(|(name, value)| head.field(*name, value.as_bytes()));
            assert!(!head.is_malformed, "{fields:?}");
            head
        };
        for left_out in 0..all.len() {
            let mut fields = all.to_vec();
            fields.remove(left_out);
            assert!(read(&fields).is_incomplete(), "{fields:?}");
        }
        assert!(!read(&all).is_incomplete());
        for (field, value, lacks_host) in [
            (FieldName::Host, "", true),
            (FieldName::Host, "dns.example", false),
            (FieldName::Authority, "", true),
            (FieldName::Authority, "dns.example", false),
            (FieldName::Te, "Trailers", true),
        ] {
            assert_eq!(read(&[(field, value)]).lacks_host(), lacks_host, "{field:?}");
        }
        assert!(read(&[(FieldName::Other, "x")]).may_be_trailers());
        assert!(!read(&all).may_be_trailers());
    }
}
