//! DNS queries and responses in the JSON form of Google and Cloudflare: `GET /resolve?name=`.
//!
//! There is no standard. Names and data are in presentation form, types are numbers.

use std::fmt::{self, Write};

use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{AD, CD, RA, RD, TC};
use avocet_wire::name::{MAX_NAME, NameError};
use avocet_wire::view::{RecordSection, RecordView, WireError};
use avocet_wire::{MessageView, Rtype, rdata, text};

/// The media type of responses.
pub(crate) const MEDIA_TYPE_JSON: &[u8] = b"application/dns-json";
/// Maximum number of octets of a response. Names that a message repeats by pointers are written in
/// full: without a limit, a message of 64 KiB would become 14 MB.
pub(super) const MAX_JSON: usize = 256 << 10;
/// Maximum number of octets of the text of a name: each octet of a label may be `\DDD`.
const MAX_NAME_TEXT: usize = 4 * MAX_NAME;
/// The EDNS buffer size of a query. It does not limit the response, because a stream has no such
/// limit.
const UDP_SIZE: u16 = 1232;
/// The DO flag in the TTL field of OPT (RFC 6891 §6.1.3).
const DNSSEC_OK: u16 = 1 << 15;

/// The reason why the parameters of a request are not a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterFault {
    /// The name is missing.
    NoName,
    /// There are several names or several types.
    Repeated,
    /// The name is malformed.
    BadName,
    /// The type is unknown.
    BadType,
    /// The value of a flag means neither set nor unset.
    BadFlag,
}

impl ParameterFault {
    /// Returns the text for the client.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::NoName => "the parameter `name` is missing\n",
            Self::Repeated => "the parameter `name` or `type` occurs more than once\n",
            Self::BadName => "the parameter `name` is no domain name\n",
            Self::BadType => "the parameter `type` is neither a number nor the name of a type\n",
            Self::BadFlag => "the parameters `cd` and `do` are 0, 1, false or true\n",
        }
    }
}

/// Returns the query in the parameters of a request.
///
/// # Errors
/// The parameters have no query.
pub(super) fn query(parameters: &[u8]) -> Result<Vec<u8>, ParameterFault> {
    let (mut name, mut rtype) = (None, None);
    let (mut checking_disabled, mut dnssec_ok) = (false, false);
    for parameter in parameters.split(|octet| *octet == b'&') {
        let at = parameter.iter().position(|octet| *octet == b'=').unwrap_or(parameter.len());
        let (key, value) = (&parameter[..at], parameter.get(at + 1..).unwrap_or_default());
        match key {
            b"name" if name.is_none() => {
                let wire = decoded(value).and_then(|text| name_of(&text));
                name = Some(wire.ok_or(ParameterFault::BadName)?);
            }
            b"type" if rtype.is_none() => {
                let read = decoded(value).and_then(|text| type_of(&text));
                rtype = Some(read.ok_or(ParameterFault::BadType)?);
            }
            b"name" | b"type" => return Err(ParameterFault::Repeated),
            b"cd" => checking_disabled = is_set(value).ok_or(ParameterFault::BadFlag)?,
            b"do" => dnssec_ok = is_set(value).ok_or(ParameterFault::BadFlag)?,
            // Other parameters are ignored, such as `edns_client_subnet` and `random_padding`.
            _ => {}
        }
    }
    let name = name.ok_or(ParameterFault::NoName)?;
    // AD in a query asks for the AD bit in the response (RFC 6840 §5.7).
    let flags = RD | AD | if checking_disabled { CD } else { 0 };
    let mut query = Vec::with_capacity(12 + name.len() + 4 + 11);
    for word in [0, flags, 1, 0, 0, 1] {
        query.extend_from_slice(&word.to_be_bytes());
    }
    query.extend_from_slice(&name);
    let rtype = rtype.unwrap_or(Rtype::A);
    query.extend_from_slice(&[rtype.0.to_be_bytes(), [0, 1]].concat());
    query.push(0);
    let of_edns = if dnssec_ok { DNSSEC_OK } else { 0 };
    for word in [Rtype::OPT.0, UDP_SIZE, 0, of_edns, 0] {
        query.extend_from_slice(&word.to_be_bytes());
    }
    Ok(query)
}

/// Decodes the value of a parameter (RFC 3986 §2.1). Returns `None` if it is longer than the
/// longest name.
fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() > 3 * MAX_NAME_TEXT {
        return None;
    }
    let (mut octets, mut out) = (value.iter(), Vec::with_capacity(value.len()));
    while let Some(&octet) = octets.next() {
        out.push(match octet {
            b'%' => {
                let digit = |octet: &u8| char::from(*octet).to_digit(16);
                let (high, low) = (octets.next().and_then(digit)?, octets.next().and_then(digit)?);
                (high << 4 | low) as u8
            }
            b'+' => b' ',
            octet => octet,
        });
    }
    Some(out)
}

fn name_of(text: &[u8]) -> Option<Vec<u8>> {
    const ROOT: &[u8] = &[0];
    let mut wire = [0; MAX_NAME];
    // `@` means the origin in zone files.
    let is_name = !text.is_empty() && text != b"@" && text.len() <= MAX_NAME_TEXT;
    let len = is_name.then(|| text::name_to_wire(text, Some(ROOT), &mut wire).ok())??;
    Some(wire[..len].to_vec())
}

/// Reads a type by number or name. The server decides about types that only queries may have, such
/// as ANY.
fn type_of(text: &[u8]) -> Option<Rtype> {
    let text = str::from_utf8(text).ok()?;
    if let Ok(number) = text.parse::<u16>() {
        return (number > 0).then_some(Rtype(number));
    }
    rdata::from_mnemonic(&text.to_ascii_uppercase()).map(Rtype)
}

fn is_set(value: &[u8]) -> Option<bool> {
    match value {
        b"1" | b"true" | b"True" => Some(true),
        b"0" | b"false" | b"False" | b"" => Some(false),
        _ => None,
    }
}

/// Writes a DNS message in JSON. Returns `None` if it is malformed or too long.
pub(super) fn response(message: &[u8]) -> Option<Vec<u8>> {
    let view = MessageView::new(message).ok()?;
    let mut out = JsonText { text: String::with_capacity(message.len() * 4) };
    write(&view, &mut out).ok()?;
    Some(out.text.into_bytes())
}

/// The error that a message cannot be written in JSON.
struct NoJson;

impl From<WireError> for NoJson {
    fn from(_: WireError) -> Self {
        Self
    }
}

impl From<NameError> for NoJson {
    fn from(_: NameError) -> Self {
        Self
    }
}

impl From<fmt::Error> for NoJson {
    fn from(_: fmt::Error) -> Self {
        Self
    }
}

fn write(view: &MessageView<'_>, out: &mut JsonText) -> Result<(), NoJson> {
    let header = view.header();
    let edns = view.edns()?;
    let high = edns.as_ref().map_or(0, |edns| u16::from(edns.rcode_high));
    write!(out.raw(), "{{\"Status\":{}", high << 4 | header.rcode().0)?;
    for (name, flag) in [("TC", TC), ("RD", RD), ("RA", RA), ("AD", AD), ("CD", CD)] {
        write!(out.raw(), ",\"{name}\":{}", header.has(flag))?;
    }
    out.raw().write_str(",\"Question\":[")?;
    for (place, question) in view.questions().enumerate() {
        let question = question?;
        out.begin(place)?;
        out.name(question.qname()?.wire())?;
        write!(out.raw(), ",\"type\":{}}}", question.qtype.0)?;
    }
    out.raw().write_char(']')?;
    for (name, section) in [
        ("Answer", RecordSection::Answer),
        ("Authority", RecordSection::Authority),
        ("Additional", RecordSection::Additional),
    ] {
        write_section((name, section), view, out)?;
    }
    let mut options = edns.iter().flat_map(|edns| edns.options()).filter_map(Result::ok);
    let ede = options.find_map(|option| match option {
        EdnsOption::Ede(code, extra) => Some((code, extra)),
        _ => None,
    });
    if let Some((code, extra)) = ede {
        write!(out.raw(), ",\"extended_dns_errors\":[{{\"info_code\":{},", code.0)?;
        out.raw().write_str("\"extra_text\":\"")?;
        out.write_str(&String::from_utf8_lossy(extra))?;
        out.raw().write_str("\"}]")?;
    }
    out.raw().write_char('}')?;
    Ok(())
}

/// Writes a section, unless it is empty.
fn write_section(
    (name, section): (&str, RecordSection),
    view: &MessageView<'_>,
    out: &mut JsonText,
) -> Result<(), NoJson> {
    // Decompressed data can be longer than its message.
    let mut wire = vec![0; usize::from(u16::MAX)];
    let mut place = 0;
    for record in view.section(section)? {
        let record = record?;
        if record.rtype == Rtype::OPT {
            continue;
        }
        if place == 0 {
            write!(out.raw(), ",\"{name}\":[")?;
        }
        out.begin(place)?;
        place += 1;
        out.name(record.owner()?.wire())?;
        write!(out.raw(), ",\"type\":{},\"TTL\":{},", record.rtype.0, record.ttl_secs())?;
        out.raw().write_str("\"data\":\"")?;
        write_data(&record, &mut wire, out)?;
        out.raw().write_str("\"}")?;
    }
    if place > 0 {
        out.raw().write_char(']')?;
    }
    Ok(())
}

fn write_data(record: &RecordView<'_>, wire: &mut [u8], out: &mut JsonText) -> fmt::Result {
    let octets = match record.expand_rdata(wire) {
        Ok(len) => wire.get(..len).unwrap_or_default(),
        Err(_) => record.rdata(),
    };
    write!(out, "{}", rdata::display(record.rtype.0, octets))
}

/// A text of at most [`MAX_JSON`] octets. Text that is written to it with `write!` is the content
/// of a JSON string.
struct JsonText {
    text: String,
}

/// The part of the text that is outside of strings and is written without escapes.
struct Raw<'t>(&'t mut JsonText);

impl JsonText {
    fn raw(&mut self) -> Raw<'_> {
        Raw(self)
    }

    /// Begins an object in an array, at this index.
    fn begin(&mut self, place: usize) -> fmt::Result {
        self.raw().write_str(if place == 0 { "{" } else { ",{" })
    }

    fn name(&mut self, wire: &[u8]) -> fmt::Result {
        self.raw().write_str("\"name\":\"")?;
        text::write_name(wire, self)?;
        self.raw().write_char('"')
    }

    fn push(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > MAX_JSON {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

impl Write for Raw<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push(text)
    }
}

impl Write for JsonText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The start of the part that is not written yet.
        let mut from = 0;
        for (at, letter) in text.char_indices() {
            let is_plain = !letter.is_control() && !matches!(letter, '"' | '\\' | '<' | '>' | '&');
            if is_plain {
                continue;
            }
            self.push(&text[from..at])?;
            from = at + letter.len_utf8();
            // RFC 8259 §7. Characters with a meaning in HTML are escaped, because some clients
            // guess the type of the content.
            write!(self.raw(), "\\u{:04x}", u32::from(letter))?;
        }
        self.push(&text[from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_query(parameters: &str, expected: Option<(&str, u16, u16, u16)>) {
        let octets = query(parameters.as_bytes());
        let found = octets.as_ref().ok().map(|octets| {
            let view = MessageView::new(octets).unwrap();
            let question = view.questions().next().unwrap().unwrap();
            let mut name = String::new();
            text::write_name(question.qname().unwrap().wire(), &mut name).unwrap();
            let edns = view.edns().unwrap().unwrap();
            let set = view.header().flags & CD;
            (name, question.qtype.0, set, u16::from(edns.dnssec_ok))
        });
        let expected =
            expected.map(|(name, rtype, cd, dnssec)| (name.to_owned(), rtype, cd, dnssec));
        assert_eq!(found, expected, "{parameters:.80}");
    }

    #[test]
    fn parameters_become_a_query() {
        check_query("name=www.example", Some(("www.example.", 1, 0, 0)));
        check_query("type=aaaa&name=www.example.", Some(("www.example.", 28, 0, 0)));
        check_query("name=.&type=48&cd=1&do=true&x", Some((".", 48, CD, 1)));
        check_query("name=a%2eb&cd=0&do=false", Some(("a.b.", 1, 0, 0)));
        check_query("name=%5c034%5C%5c.b", Some(("\\\"\\\\.b.", 1, 0, 0)));
        check_query("name=a&edns_client_subnet=192.0.2.0/24", Some(("a.", 1, 0, 0)));
    }

    #[test]
    fn parameters_that_are_wrong_are_no_query() {
        let long = format!("name={}", "a.".repeat(200));
        let longer = format!("name={}", "%61".repeat(5_000));
        let label = format!("name={}", "a".repeat(64));
        for parameters in [
            "",
            "name",
            "name=",
            "name=@",
            "name=a..b",
            "name=a%2",
            "name=a%zz",
            "name=a&name=b",
            "name=a&type=",
            "name=a&type=0",
            "name=a&type=65536",
            "name=a&type=nope",
            "name=a&type=-1",
            "name=a&cd=2",
            "name=a&do=x",
            "type=1",
            "name=a+b%",
            &long,
            &longer,
            &label,
        ] {
            check_query(parameters, None);
        }
    }

    /// Returns a response with one TXT record. Its name and its text have these octets.
    fn message(octets: &[u8]) -> Vec<u8> {
        let label = [&[octets.len() as u8][..], octets, &[0]].concat();
        let mut out = b"\0\0\x81\xa0\0\x01\0\x01\0\0\0\0".to_vec();
        out.extend_from_slice(&[&label[..], b"\0\x10\0\x01"].concat());
        out.extend_from_slice(b"\xc0\x0c\0\x10\0\x01\0\0\x01\x2c");
        out.extend_from_slice(&[0, octets.len() as u8 + 1, octets.len() as u8]);
        out.extend_from_slice(octets);
        out
    }

    #[test]
    fn a_response_has_the_fields_that_clients_know() {
        let text = String::from_utf8(response(&message(b"a")).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"Status\":0,\"TC\":false,\"RD\":true,\"RA\":true,\"AD\":true,\"CD\":false,\
             \"Question\":[{\"name\":\"a.\",\"type\":16}],\"Answer\":[{\"name\":\"a.\",\"type\":16,\
             \"TTL\":300,\"data\":\"\\u0022a\\u0022\"}]}"
        );
    }

    #[test]
    fn no_octet_of_a_name_or_record_leaves_its_string() {
        for octet in 0..=255 {
            let text = response(&message(&[octet, b'x', octet])).unwrap();
            let text = String::from_utf8(text).unwrap();
            let is_plain = |letter: char| matches!(letter, ' '..='~');
            assert!(text.chars().all(is_plain), "{octet}: {text}");
            // Outside of strings, quotation marks come in pairs; within, they are escaped.
            assert_eq!(text.matches('"').count(), message_quotes(), "{octet}: {text}");
            assert!(!text.contains(['<', '>', '&']), "{octet}: {text}");
        }
    }

    fn message_quotes() -> usize {
        String::from_utf8(response(&message(b"a")).unwrap()).unwrap().matches('"').count()
    }

    #[test]
    fn a_message_that_repeats_a_long_name_is_cut_off_at_the_limit() {
        let long: Vec<u8> = (0..3).flat_map(|_| [&[63][..], &[1; 63]].concat()).collect();
        let mut out = b"\0\0\x81\x80\0\x01\x0f\0\0\0\0\0".to_vec();
        out.extend_from_slice(&[&long[..], b"\0\0\x01\0\x01"].concat());
        for _ in 0..0xf00 {
            out.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04abcd");
        }
        assert_eq!(response(&out), None);
        let whole = message(b"abc");
        for len in 0..whole.len() {
            assert_eq!(response(&whole[..len]), None, "{len}");
        }
    }
}
