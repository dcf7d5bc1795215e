//! The form of a response in HTTP: its status, its media type, and for how long it is fresh.

use std::borrow::Cow;
use std::sync::Arc;

use avocet_wire::view::RecordSection;
use avocet_wire::{MessageView, Rcode, Rtype};

use super::json::{self, MEDIA_TYPE_JSON, ParameterFault};
use crate::oblivious::{self, CONFIGS_SECS, ObliviousFault, ProxyFault, ReplySeal};

/// The media type of queries and responses.
pub(crate) const MEDIA_TYPE: &[u8] = b"application/dns-message";
/// The media type of the configurations of a target, which have no type of their own.
const MEDIA_TYPE_CONFIGS: &[u8] = b"application/octet-stream";
/// The media type of a body that explains the status.
pub(super) const REASON_TYPE: &[u8] = b"text/plain";

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// 200
    Ok,
    /// 400: the request has no query.
    BadRequest,
    /// 400: the parameters are not a query.
    BadParameters(ParameterFault),
    /// 404: the server has nothing at this path.
    NotFound,
    /// 405: neither GET, HEAD nor POST.
    BadMethod,
    /// 408: the request came in too many pieces.
    Slow,
    /// 411: an HTTP/1.1 request has a body without its length.
    NoLength,
    /// 403: this proxy does not forward to the target.
    Forbidden,
    /// 413: the body is longer than a DNS message.
    LargeBody,
    /// 414: the path is too long.
    LongTarget,
    /// 415: the body is not a DNS message.
    BadType,
    /// 431: the fields are too long.
    LargeFields,
    /// 401 if the key is unknown, 413 for a long query, 415 if this server is no target, otherwise
    /// 400: an oblivious query cannot be answered (RFC 9230 §6.1).
    NotOpened(ObliviousFault),
    /// 500: the query gets no response.
    Refused,
    /// 502: the target of a proxied query gave no usable response.
    BadGateway,
    /// 503: too many proxied queries wait.
    Busy,
    /// 504: the target of a proxied query did not respond in time.
    GatewayTimeout,
}

impl Status {
    /// Returns the three digits of the status.
    pub(crate) const fn digits(self) -> &'static str {
        match self {
            Self::Ok => "200",
            Self::NotOpened(ObliviousFault::UnknownKey) => "401",
            Self::NotOpened(ObliviousFault::Long) => "413",
            Self::NotOpened(ObliviousFault::NoTarget) => "415",
            Self::BadRequest | Self::BadParameters(_) | Self::NotOpened(_) => "400",
            Self::Forbidden => "403",
            Self::NotFound => "404",
            Self::BadMethod => "405",
            Self::Slow => "408",
            Self::NoLength => "411",
            Self::LargeBody => "413",
            Self::LongTarget => "414",
            Self::BadType => "415",
            Self::LargeFields => "431",
            Self::Refused => "500",
            Self::BadGateway => "502",
            Self::Busy => "503",
            Self::GatewayTimeout => "504",
        }
    }

    /// Returns the status for the client of a proxy, from the status of its target (RFC 9230 §4.3).
    const fn of_target(status: u16) -> Self {
        match status {
            200 => Self::Ok,
            401 => Self::NotOpened(ObliviousFault::UnknownKey),
            403 => Self::Forbidden,
            404 => Self::NotFound,
            413 => Self::LargeBody,
            415 => Self::BadType,
            400..500 => Self::BadRequest,
            503 => Self::Busy,
            504 => Self::GatewayTimeout,
            _ => Self::BadGateway,
        }
    }

    /// Returns the status of a proxied query that is not forwarded.
    pub(crate) const fn of_proxy(fault: ProxyFault) -> Self {
        match fault {
            ProxyFault::NoProxy => Self::NotFound,
            ProxyFault::Malformed => Self::BadRequest,
            ProxyFault::Foreign => Self::Forbidden,
            ProxyFault::Busy => Self::Busy,
        }
    }

    /// Returns the text that explains the status to a person, for the body of the response.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::BadParameters(fault) => fault.text(),
            Self::NotOpened(fault) => fault.text(),
            _ => "",
        }
    }
}

/// The parts of a response that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseExtent {
    /// Fields and body.
    Whole,
    /// Fields without a body, because the method is HEAD.
    Fields,
}

/// The content of a request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestContent {
    /// A DNS query.
    Query,
    /// A query that must be decrypted (RFC 9230).
    Oblivious,
    /// An oblivious query that must be forwarded to another server.
    Proxied,
    /// Nothing: the client requests the configurations of the target.
    Configs,
}

/// The form of a response.
#[derive(Clone, Debug, Default)]
pub(crate) enum Media {
    /// A DNS message.
    #[default]
    Message,
    /// JSON.
    Json,
    /// An encrypted DNS message. The keys are known once the query is decrypted.
    Oblivious(Option<Arc<ReplySeal>>),
    /// The response of another server to an oblivious query. Its status is in front of it, as in
    /// [`proxied_reply`](oblivious::proxied_reply).
    Proxied,
    /// The configurations of a target.
    Configs,
}

impl Media {
    /// Returns the media type.
    pub(crate) const fn name(&self) -> &'static [u8] {
        match self {
            Self::Message => MEDIA_TYPE,
            Self::Json => MEDIA_TYPE_JSON,
            Self::Oblivious(_) | Self::Proxied => oblivious::MEDIA_TYPE,
            Self::Configs => MEDIA_TYPE_CONFIGS,
        }
    }

    /// Returns the content of a request that has a response in this form.
    pub(crate) const fn content(&self) -> RequestContent {
        match self {
            Self::Message | Self::Json => RequestContent::Query,
            Self::Oblivious(_) => RequestContent::Oblivious,
            Self::Proxied => RequestContent::Proxied,
            Self::Configs => RequestContent::Configs,
        }
    }

    /// Returns the status of the response with this message, and the message.
    pub(crate) fn answered<'m>(&self, message: &'m [u8]) -> (Status, &'m [u8]) {
        match (self, message.split_first_chunk()) {
            (Self::Proxied, Some((status, body))) => {
                match Status::of_target(u16::from_be_bytes(*status)) {
                    Status::Ok => (Status::Ok, body),
                    status => (status, &[]),
                }
            }
            (Self::Proxied, None) => (Status::BadGateway, &[]),
            _ => (Status::Ok, message),
        }
    }

    /// Returns the message in this form; `None` if it cannot be converted.
    pub(crate) fn body<'m>(&self, message: &'m [u8]) -> Option<Cow<'m, [u8]>> {
        match self {
            Self::Message | Self::Configs | Self::Proxied => Some(Cow::Borrowed(message)),
            Self::Json => json::response(message).map(Cow::Owned),
            Self::Oblivious(seal) => seal.as_ref()?.seal(message).map(Cow::Owned),
        }
    }

    /// Returns for how long caches may keep the message in this form.
    pub(crate) fn freshness(&self, message: &[u8]) -> Freshness {
        match self {
            Self::Message | Self::Json => Freshness::Secs(max_age(message)),
            Self::Configs => Freshness::Secs(CONFIGS_SECS),
            // Nobody else can use the response (RFC 9230 §6.2).
            Self::Oblivious(_) | Self::Proxied => Freshness::None,
        }
    }
}

/// For how long caches may keep a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// For this number of seconds.
    Secs(u32),
    /// Not at all.
    None,
}

impl Freshness {
    /// Writes the value of `cache-control`. Returns its part of `space`.
    pub(crate) fn write(self, space: &mut [u8; 18]) -> &[u8] {
        const MAX_AGE: &[u8] = b"max-age=";
        let Self::Secs(secs) = self else { return b"no-store" };
        let mut digits = [0; 10];
        let digits = decimal(secs, &mut digits);
        let end = MAX_AGE.len() + digits.len();
        space[..MAX_AGE.len()].copy_from_slice(MAX_AGE);
        space[MAX_AGE.len()..end].copy_from_slice(digits);
        &space[..end]
    }
}

/// The form in which a response is sent: its parts and its media type.
#[derive(Clone, Debug)]
pub(crate) struct ResponseForm {
    pub(crate) extent: ResponseExtent,
    pub(crate) media: Media,
}

impl ResponseForm {
    /// A whole DNS message.
    pub(crate) const MESSAGE: Self = Self { extent: ResponseExtent::Whole, media: Media::Message };
}

/// Writes a number in decimal digits.
pub(super) fn decimal(mut value: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

/// Returns the number of seconds for which a response is fresh: the smallest TTL of its answers or,
/// without answers, of its SOA record (RFC 8484 §5.1). HTTP caches must not keep errors.
fn max_age(message: &[u8]) -> u32 {
    let Ok(view) = MessageView::new(message) else { return 0 };
    if !matches!(view.header().rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) {
        return 0;
    }
    let section = |section, rtype: Option<Rtype>| {
        let records = view.section(section).ok()?.map_while(Result::ok);
        let of_type = records.filter(|one| rtype.is_none_or(|rtype| one.rtype == rtype));
        of_type.map(|one| one.ttl_secs()).min()
    };
    section(RecordSection::Answer, None)
        .or_else(|| section(RecordSection::Authority, Some(Rtype::SOA)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_oblivious_responses_are_never_kept() {
        let written = |media: &Media| {
            String::from_utf8(media.freshness(b"").write(&mut [0; 18]).to_vec()).unwrap()
        };
        assert_eq!(written(&Media::Oblivious(None)), "no-store");
        assert_eq!(written(&Media::Configs), "max-age=3600");
        assert_eq!(written(&Media::Message), "max-age=0");
        assert_eq!(Freshness::Secs(u32::MAX).write(&mut [0; 18]), b"max-age=4294967295");
    }

    #[test]
    fn the_status_of_a_target_is_passed_on_if_the_client_needs_it() {
        let status = |octets: &[u8]| Media::Proxied.answered(octets).0.digits();
        for (code, expected) in [
            (200, "200"),
            (401, "401"),
            (429, "400"),
            (301, "502"),
            (500, "502"),
            (503, "503"),
            (504, "504"),
            (0, "502"),
        ] {
            assert_eq!(status(&oblivious::proxied_reply(code, b"x")), expected, "{code}");
        }
        assert_eq!(status(b""), "502");
        let whole = oblivious::proxied_reply(200, b"sealed");
        assert_eq!(Media::Proxied.answered(&whole), (Status::Ok, &b"sealed"[..]));
        assert_eq!(Media::Message.answered(b"\0\x01").1, b"\0\x01");
    }
}
