//! The texts of `avocet cache`.

use avocet_control::cache::{
    CacheAge, CacheEntry, CacheStats, CachedPacket, CachedRrset, Dumped, Flushed, RrsetContent,
    StoreCounts,
};
use avocet_control::why::CacheLook;

/// Returns an entry for people, as in a zone file. Data other than records is in comments, and so
/// are records that only serve to find servers.
pub(crate) fn to_text(entry: &CacheEntry) -> String {
    match entry {
        CacheEntry::Packet(packet) => packet_text(packet),
        CacheEntry::Rrset(rrset) if rrset.to_find_servers => {
            let text = records(rrset);
            let noted = text
                .lines()
                .map(|line| format!("; delegation data: {}", line.trim_start_matches("; ")));
            noted.collect::<Vec<_>>().join("\n")
        }
        CacheEntry::Rrset(rrset) => records(rrset),
    }
}

/// Returns the text of `avocet cache show`.
pub(crate) fn look_text(look: &CacheLook) -> String {
    let mut lines: Vec<String> = look.cached.rrsets.iter().map(to_text).collect();
    if let Some(failure) = &look.failure {
        lines.push(format!("; a cached failure: {} ({})", failure.text, failure.ede));
    }
    if lines.is_empty() {
        lines.push(format!("; nothing is cached for {}", look.cached.name));
    }
    lines.join("\n")
}

/// Returns the records of an entry as in a zone file, or a negative answer as a comment.
pub(crate) fn records(rrset: &CachedRrset) -> String {
    let CachedRrset { name, class, .. } = rrset;
    let (ttl, expired) = match rrset.age {
        CacheAge::Fresh { ttl } => (ttl, String::new()),
        CacheAge::Expired { expired_secs } => (0, format!(" ; expired {expired_secs} s ago")),
    };
    match &rrset.content {
        RrsetContent::Records { rtype, data, .. } => {
            let lines: Vec<String> = data
                .iter()
                .map(|data| format!("{name} {ttl} {class} {rtype} {data}{expired}"))
                .collect();
            lines.join("\n")
        }
        RrsetContent::Denial { denies, rtype } => {
            let rtype = rtype.as_deref().unwrap_or_default();
            format!("; {name} {ttl} {class} {rtype} {denies}{expired}").replace("  ", " ")
        }
    }
}

fn packet_text(packet: &CachedPacket) -> String {
    let CachedPacket { name, rtype, class, rcode, flags, ttl } = packet;
    let flags: Vec<&str> = flags.iter().map(|flag| flag.text()).collect();
    format!("; answer {name} {ttl} {class} {rtype} {rcode} {}", flags.join(" "))
}

/// Returns the last line of a dump.
pub(crate) fn end_text(end: &Dumped) -> String {
    format!("; {} RRsets and negative answers, {} responses", end.rrsets, end.packets)
}

/// Returns the text of `avocet cache flush`.
pub(crate) fn flush_text(reply: &Flushed) -> String {
    format!("removed {} RRsets and negative answers", reply.rrsets)
}

/// Returns `cache.key value` lines, sorted by key.
pub(crate) fn stats_text(stats: &CacheStats) -> String {
    let CacheStats { packet_cache, rrset_cache, failure_cache, stale_answers, prefetches } = stats;
    let mut lines = store_lines("failure-cache", failure_cache);
    lines.extend(store_lines("packet-cache", &packet_cache.store));
    lines.push(format!("packet-cache.hits {}", packet_cache.hits));
    lines.push(format!("packet-cache.misses {}", packet_cache.misses));
    lines.push(format!("prefetches {prefetches}"));
    lines.extend(store_lines("rrset-cache", &rrset_cache.store));
    lines.push(format!("rrset-cache.hits {}", rrset_cache.hits));
    lines.push(format!("stale-answers {stale_answers}"));
    lines.sort_unstable();
    lines.join("\n")
}

fn store_lines(cache: &str, counts: &StoreCounts) -> Vec<String> {
    let StoreCounts { entries, bytes, bytes_limit, inserts, evictions, expired } = counts;
    vec![
        format!("{cache}.bytes {bytes}"),
        format!("{cache}.bytes-limit {bytes_limit}"),
        format!("{cache}.entries {entries}"),
        format!("{cache}.evictions {evictions}"),
        format!("{cache}.expired {expired}"),
        format!("{cache}.inserts {inserts}"),
    ]
}

#[cfg(test)]
mod tests {
    use avocet_control::line::{ReplyLine, read_reply};
    use avocet_control::request::Dump;

    use super::*;

    #[test]
    fn lines_for_people_are_those_of_a_zone_file() {
        let origin = r#""signatures":0,"rank":"authoritative-answer","security":"insecure""#;
        let lines = [
            (
                format!(
                    r#"{{"cache":"rrset","name":"a.","class":"IN","type":"A","ttl":7,"data":["192.0.2.1","192.0.2.2"],"to-find-servers":false,{origin}}}"#
                ),
                "a. 7 IN A 192.0.2.1\na. 7 IN A 192.0.2.2",
            ),
            (
                format!(
                    r#"{{"cache":"rrset","name":"a.","class":"IN","type":"A","expired-secs":9,"data":["192.0.2.1"],"to-find-servers":false,{origin}}}"#
                ),
                "a. 0 IN A 192.0.2.1 ; expired 9 s ago",
            ),
            (
                r#"{"cache":"rrset","name":"b.","class":"IN","denies":"NXDOMAIN","ttl":3,"to-find-servers":false}"#.to_owned(),
                "; b. 3 IN NXDOMAIN",
            ),
            (
                format!(
                    r#"{{"cache":"rrset","name":"c.","class":"IN","type":"NS","ttl":7,"data":["x.c.","y.c."],"to-find-servers":true,{origin}}}"#
                ),
                "; delegation data: c. 7 IN NS x.c.\n; delegation data: c. 7 IN NS y.c.",
            ),
            (
                r#"{"cache":"rrset","name":"c.","class":"IN","denies":"NXDOMAIN","ttl":3,"to-find-servers":true}"#.to_owned(),
                "; delegation data: c. 3 IN NXDOMAIN",
            ),
            (
                r#"{"cache":"packet","name":"b.","class":"IN","type":"A","rcode":"NXDOMAIN","flags":["RD","DO"],"ttl":3}"#.to_owned(),
                "; answer b. 3 IN A NXDOMAIN RD DO",
            ),
        ];
        for (line, expected) in lines {
            let Ok(ReplyLine::Part(entry)) = read_reply::<Dump>(&line) else { panic!("{line}") };
            assert_eq!(to_text(&entry), expected);
        }
    }
}
