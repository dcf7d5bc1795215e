//! The contents of the caches as text.

use serde_json::Value;

/// A line of the dump for people: records as in a zone file, all else as its comments, as are
/// records that are no answers and only serve to find servers by.
pub(crate) fn to_text(line: &Value) -> String {
    let text = records(line);
    if line["to-find-servers"] != true {
        return text;
    }
    let noted =
        text.lines().map(|line| format!("; delegation data: {}", line.trim_start_matches("; ")));
    noted.collect::<Vec<_>>().join("\n")
}

/// The records of a line as in a zone file, all else as its comments.
pub(crate) fn records(line: &Value) -> String {
    let field = |key: &str| line[key].as_str().unwrap_or_default();
    let ttl = line["ttl"].as_u64().unwrap_or(0);
    let (name, class, rtype) = (field("name"), field("class"), field("type"));
    if field("cache") == "packet" {
        let flags: Vec<&str> =
            line["flags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        return format!(
            "; answer {name} {ttl} {class} {rtype} {} {}",
            field("rcode"),
            flags.join(" ")
        );
    }
    let expired = match line["expired-secs"].as_u64() {
        Some(secs) => format!(" ; expired {secs} s ago"),
        None => String::new(),
    };
    match field("denies") {
        "" => {}
        denies => {
            return format!("; {name} {ttl} {class} {rtype} {denies}{expired}").replace("  ", " ");
        }
    }
    let records = line["data"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let lines: Vec<String> =
        records.map(|data| format!("{name} {ttl} {class} {rtype} {data}{expired}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_for_people_are_those_of_a_zone_file() {
        let lines = [
            (
                json!({ "cache": "rrset", "name": "a.", "class": "IN", "type": "A", "ttl": 7, "data": ["192.0.2.1", "192.0.2.2"] }),
                "a. 7 IN A 192.0.2.1\na. 7 IN A 192.0.2.2",
            ),
            (
                json!({ "cache": "rrset", "name": "a.", "class": "IN", "type": "A", "expired-secs": 9, "data": ["192.0.2.1"] }),
                "a. 0 IN A 192.0.2.1 ; expired 9 s ago",
            ),
            (
                json!({ "cache": "rrset", "name": "b.", "class": "IN", "denies": "NXDOMAIN", "ttl": 3 }),
                "; b. 3 IN NXDOMAIN",
            ),
            (
                json!({ "cache": "rrset", "name": "c.", "class": "IN", "type": "NS", "ttl": 7, "data": ["x.c.", "y.c."], "to-find-servers": true }),
                "; delegation data: c. 7 IN NS x.c.\n; delegation data: c. 7 IN NS y.c.",
            ),
            (
                json!({ "cache": "rrset", "name": "c.", "class": "IN", "denies": "NXDOMAIN", "ttl": 3, "to-find-servers": true }),
                "; delegation data: c. 3 IN NXDOMAIN",
            ),
            (
                json!({ "cache": "packet", "name": "b.", "class": "IN", "type": "A", "rcode": "NXDOMAIN", "flags": ["RD", "DO"], "ttl": 3 }),
                "; answer b. 3 IN A NXDOMAIN RD DO",
            ),
        ];
        for (line, expected) in lines {
            assert_eq!(to_text(&line), expected);
        }
    }
}
