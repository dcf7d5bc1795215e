//! Detection of a list's format from its first lines.

use super::format::{Format, Taken, read_line};
use super::report::Refusal;

/// Maximum number of lines that are examined.
const MAX_LINES: usize = 200;

/// Maximum number of tokens before the data of a record: owner, TTL, class and type.
const MAX_TOKENS_BEFORE_DATA: usize = 4;

/// Returns the format that fits most of the first lines.
pub(super) fn format_of(start: &[u8]) -> Format {
    let text = String::from_utf8_lossy(start);
    let meaningful = |line: &&str| !line.is_empty() && !line.starts_with(['!', '#', ';']);
    let lines: Vec<&str> =
        text.lines().map(str::trim_ascii).filter(meaningful).take(MAX_LINES).collect();
    if lines.iter().any(|line| line.starts_with("[Adblock") || line.starts_with("[AdGuard")) {
        return Format::Adblock;
    }
    if lines.iter().any(|line| is_soa(line)) {
        return Format::Rpz;
    }
    // Lists of Adblock rules may also contain lines of the other formats, except those of other DNS
    // servers.
    let is_rule = |line: &&str| line.starts_with("||") || line.starts_with("@@");
    let of_programs = [Format::Dnsmasq, Format::Unbound];
    if lines.iter().any(is_rule)
        && !lines.iter().any(|line| of_programs.iter().any(|format| is_of(*format, line)))
    {
        return Format::Adblock;
    }
    // Stricter formats come first. A plain name fits several formats.
    let formats =
        [Format::Dnsmasq, Format::Unbound, Format::Hosts, Format::Adblock, Format::Domains];
    let counts = formats.map(|format| lines.iter().filter(|line| is_of(format, line)).count());
    let most = counts.iter().copied().max().unwrap_or(0);
    let best = counts.iter().position(|count| *count == most && most > 0).map(|at| formats[at]);
    match best {
        Some(Format::Domains)
            if lines.iter().filter(|line| line.starts_with("*.")).count() * 2 > lines.len() =>
        {
            Format::Wildcards
        }
        Some(format) => format,
        None if lines.iter().any(|line| line.contains(['^', '$', '(', '['])) => Format::PiholeRegex,
        None => Format::Domains,
    }
}

/// Reports whether the line is an SOA record with the names and optionally the numbers of its data.
fn is_soa(line: &str) -> bool {
    let mut tokens = line.split_ascii_whitespace().peekable();
    let is_hosts = tokens.peek().is_some_and(|first| first.parse::<std::net::IpAddr>().is_ok());
    !is_hosts && tokens.take(MAX_TOKENS_BEFORE_DATA).any(|token| token.eq_ignore_ascii_case("SOA"))
}

/// Returns why the text is refused, if it is a binary file or a web page.
pub(super) fn refusal_of(start: &[u8]) -> Option<Refusal> {
    let is_control =
        |octet: &&u8| **octet < 0x20 && !matches!(**octet, b'\t' | b'\n' | b'\r' | 0x0c);
    if start.starts_with(&[0x1f, 0x8b])
        || start.contains(&0)
        || start.iter().filter(is_control).count() * 20 > start.len()
    {
        return Some(Refusal::Binary);
    }
    let text = String::from_utf8_lossy(&start[..start.len().min(256)]).to_ascii_lowercase();
    let text = text.trim_ascii_start();
    ["<!doctype", "<html", "<?xml", "<head"]
        .iter()
        .any(|mark| text.starts_with(mark))
        .then_some(Refusal::WebPage)
}

/// Reports whether a line has a meaning in this format, and is not also a line of a simpler format.
fn is_of(format: Format, line: &str) -> bool {
    let is_adblock = line.starts_with('|')
        || line.starts_with("@@")
        || line.contains("##")
        || line.starts_with('/') && line.ends_with('/');
    match format {
        Format::Adblock => is_adblock,
        // Lines that concern only the machine itself count as lines of a hosts file, too.
        Format::Hosts => begins_with_address(line),
        Format::Domains if is_adblock || begins_with_address(line) => false,
        _ => matches!(read_line(format, line, &mut Vec::new()), Ok(Taken::Entries)),
    }
}

fn begins_with_address(line: &str) -> bool {
    line.split_ascii_whitespace()
        .next()
        .is_some_and(|first| first.parse::<std::net::IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        for (text, expected) in [
            ("# x\n127.0.0.1 localhost\n0.0.0.0 a.example\n", Format::Hosts),
            ("# x\na.example\nb.example\n", Format::Domains),
            ("*.a.example\n*.b.example\n", Format::Wildcards),
            ("a.example\nb.example\n0.0.0.0 c.example\n", Format::Domains),
            ("0.0.0.0 a.example\n0.0.0.0 b.example\nc.example\n", Format::Hosts),
            ("a.example\nb.example\n/^ads/\n", Format::Domains),
            ("[Adblock Plus]\na.example\n", Format::Adblock),
            ("! x\n||a.example^\n@@||b.example^\n", Format::Adblock),
            ("0.0.0.0 a.example\n||b.example^\n||c.example^\n", Format::Adblock),
            ("0.0.0.0 a.example\nb.example\n*.c.example\n||d.example^\n", Format::Adblock),
            (
                "0.0.0.0 a.example\n0.0.0.0 b.example\n0.0.0.0 c.example\n@@||d.example^\n",
                Format::Adblock,
            ),
            ("address=/a.example/\nserver=/b.example/\n", Format::Dnsmasq),
            ("server:\nlocal-zone: \"a.example\" refuse\n", Format::Unbound),
            ("^ad[0-9]\n(\\.|^)x\\.example$\n", Format::PiholeRegex),
            (
                "$TTL 30\n@ SOA rpz.test. host.rpz.test. 1 2 3 4 5\n NS localhost.\na.example \
                 CNAME .\n",
                Format::Rpz,
            ),
            ("; x\nrpz.test. 300 IN SOA (\n a. b. 1 2 3 4 5 )\na.example CNAME .\n", Format::Rpz),
            ("0.0.0.0 soa\n0.0.0.0 b.example\n", Format::Hosts),
            ("", Format::Domains),
        ] {
            assert_eq!(format_of(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert_eq!(refusal_of(b"\x1f\x8b\x08rest"), Some(Refusal::Binary));
        assert_eq!(refusal_of(b"a.example\n\0\0"), Some(Refusal::Binary));
        assert_eq!(refusal_of(b"\n <!DOCTYPE html>\n"), Some(Refusal::WebPage));
        assert_eq!(refusal_of(b"0.0.0.0 a.example\r\n"), None);
        assert_eq!(refusal_of(b""), None);
    }
}
