//! The statements that create local records.

use std::net::IpAddr;

use crate::draft::{Draft, Record, Reverse};

use super::Statement;

/// Statements that this module reads.
pub(super) const KEYS: &[&str] = &[
    "caa-record",
    "cname",
    "dns-rr",
    "host-record",
    "mx-host",
    "naptr-record",
    "ptr-record",
    "srv-host",
    "txt-record",
];

/// Reads a statement that creates records. Returns whether the statement is of this kind, even if
/// it is invalid.
pub(super) fn take(
    statement: &Statement,
    domain: Option<&str>,
    ttl_secs: Option<u32>,
    draft: &mut Draft,
) -> bool {
    let fields = fields(&statement.value);
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let place = statement.place.as_str();
    let put = |draft: &mut Draft, owner: &str, rtype: &str, data: &str| {
        let reverse = Reverse::Answered;
        draft.record(Record { owner, rtype, data, ttl_secs, reverse }, place);
    };
    let taken = match statement.key.as_str() {
        "host-record" => host(&fields, ttl_secs, place, draft),
        "cname" => cname(&fields, ttl_secs, place, draft),
        "ptr-record" => one(&fields, 2, |f| put(draft, f[0], "PTR", f[1])),
        "txt-record" => one(&fields, 1, |f| {
            let texts: Vec<String> = f[1..].iter().map(|text| text_string(text)).collect();
            let data = if texts.is_empty() { "\"\"".to_owned() } else { texts.join(" ") };
            put(draft, f[0], "TXT", &data);
        }),
        "srv-host" => one(&fields, 1, |f| {
            let at = |index: usize, otherwise| {
                f.get(index).copied().filter(|text| !text.is_empty()).unwrap_or(otherwise)
            };
            let name = match domain {
                Some(domain) if f[0].split('.').count() == 2 => format!("{}.{domain}", f[0]),
                _ => f[0].to_owned(),
            };
            let data = format!("{} {} {} {}", at(3, "0"), at(4, "0"), at(2, "1"), full(at(1, ".")));
            put(draft, &name, "SRV", &data);
        }),
        "mx-host" => one(&fields, 2, |f| {
            let data = format!("{} {}", f.get(2).unwrap_or(&"1"), full(f[1]));
            put(draft, f[0], "MX", &data);
        }),
        "caa-record" => one(&fields, 4, |f| {
            put(draft, f[0], "CAA", &format!("{} {} {}", f[1], f[2], text_string(f[3])));
        }),
        "naptr-record" if fields.len() >= 6 => one(&fields, 3, |f| {
            let target = f
                .get(6)
                .filter(|target| !target.is_empty())
                .map_or_else(|| ".".to_owned(), |target| full(target));
            let texts: Vec<String> = f[3..6].iter().map(|text| text_string(text)).collect();
            put(draft, f[0], "NAPTR", &format!("{} {} {} {target}", f[1], f[2], texts.join(" ")));
        }),
        "dns-rr" => one(&fields, 2, |f| {
            let hex: String =
                f.get(2).unwrap_or(&"").chars().filter(char::is_ascii_hexdigit).collect();
            let data = format!("\\# {} {hex}", hex.len() / 2);
            put(draft, f[0], &format!("TYPE{}", f[1]), data.trim_end());
        }),
        "naptr-record" => false,
        _ => return false,
    };
    if !taken {
        draft.note(statement, "fields are missing");
    }
    true
}

/// Calls `take` with the fields if there are at least `least`. Returns whether there were enough.
fn one(fields: &[&str], least: usize, take: impl FnOnce(&[&str])) -> bool {
    let is_whole =
        fields.len() >= least && fields.iter().take(least).all(|field| !field.is_empty());
    if is_whole {
        take(fields);
    }
    is_whole
}

/// Reads `NAME[,NAME..][,ADDRESS][,ADDRESS][,TTL]`.
fn host(fields: &[&str], ttl_secs: Option<u32>, place: &str, draft: &mut Draft) -> bool {
    let is_name = |field: &&&str| field.parse::<IpAddr>().is_err() && field.parse::<u32>().is_err();
    let names: Vec<&&str> = fields.iter().take_while(is_name).collect();
    let rest = fields.get(names.len()..).unwrap_or_default();
    let ttl = rest.iter().find_map(|field| field.parse().ok()).or(ttl_secs);
    let addresses: Vec<IpAddr> = rest.iter().filter_map(|field| field.parse().ok()).collect();
    for name in &names {
        for address in &addresses {
            draft.address(name, *address, ttl, place);
        }
    }
    !names.is_empty() && !addresses.is_empty()
}

/// Reads `ALIAS[,ALIAS..],TARGET[,TTL]`.
fn cname(fields: &[&str], ttl_secs: Option<u32>, place: &str, draft: &mut Draft) -> bool {
    let (fields, ttl) = match fields.split_last() {
        Some((last, before)) if before.len() > 1 && last.parse::<u32>().is_ok() => {
            (before, last.parse().ok())
        }
        _ => (fields, ttl_secs),
    };
    let Some((target, aliases)) = fields.split_last().filter(|(_, aliases)| !aliases.is_empty())
    else {
        return false;
    };
    for alias in aliases {
        let data = full(target);
        let record = Record {
            owner: alias,
            rtype: "CNAME",
            data: &data,
            ttl_secs: ttl,
            reverse: Reverse::Answered,
        };
        draft.record(record, place);
    }
    true
}

/// Splits at commas outside quotes.
fn fields(value: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        // A backslash in quotes escapes the next character.
        let (c, is_escaped) =
            if c == '\\' && is_quoted { (rest.next().unwrap_or(c), true) } else { (c, false) };
        match c {
            _ if is_escaped => fields.last_mut().into_iter().for_each(|field| field.push(c)),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().into_iter().for_each(|field| field.push(c)),
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

/// Returns a name with a final dot.
fn full(name: &str) -> String {
    if name.ends_with('.') { name.to_owned() } else { format!("{name}.") }
}

/// Returns a character-string in presentation form (RFC 1035 §5.1).
fn text_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
