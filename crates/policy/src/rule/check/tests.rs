use super::*;

fn vocabulary() -> Vocabulary {
    Vocabulary {
        lists: vec!["ads".to_owned(), "malware".to_owned()],
        groups: vec!["default".to_owned(), "kids".to_owned()],
        listeners: vec!["lan".to_owned()],
        ..Vocabulary::default()
    }
}

#[test]
fn every_value_of_the_language_is_known() {
    for expression in [
        r#"qname.under("example.com") && !qname.matches(r"^ads?\d+\.")"#,
        r#"qname == "a.example." || qname in ["b.example", "c.example"] || "d" == qname"#,
        r#"qname.starts_with("ad") || qname.ends_with(".zip") || qname.contains("track")"#,
        "qname.levels() > 5 || 2 >= qname.levels()",
        r#"qtype == "AAAA" || qtype in ["HTTPS", "TYPE65534", 28] || qtype != "ANY""#,
        r#"qclass == "CH""#,
        r#"client.ip.in("10.0.0.0/8", "2001:db8::/32") || client.ip == "192.0.2.1" || client.ip in ["::1"]"#,
        r#"client.group("kids") ? client.name == "Tablet" : client.name.starts_with("iot-")"#,
        r#"client.mac == "02:00:00:00:00:01" && client.listener == "lan" && client.transport in ["udp", "tcp"]"#,
        r#"now.hour >= 21 || now.minute == 30 || now.weekday in ["mon", "Friday"] || now.weekend"#,
        r#"now.between("21:00", "07:00") && now.between("12:00", "24:00")"#,
        r#"answer.ip.in("10.0.0.0/8") || answer.ip == "0.0.0.0" || answer.cname.under("tracker.example")"#,
        r#"list("ads") || list(["malware", "ads"]) || service("youtube", "tiktok")"#,
        "true && (1 < 2 ? !false : true)",
    ] {
        if let Err(fault) = check(expression, &vocabulary()) {
            panic!("{}", fault.shown(expression));
        }
    }
    let countries = Vocabulary { has_countries: true, ..vocabulary() };
    assert!(check(r#"geo.country in ["nl", "DE"]"#, &countries).is_ok());
}

#[test]
fn names_in_other_alphabets_mean_their_a_labels() {
    let typed = check(r#"qname.under("BÜCHER.example")"#, &vocabulary()).unwrap();
    let ascii = check(r#"qname.under("xn--bcher-kva.example")"#, &vocabulary()).unwrap();
    assert_eq!(format!("{:?}", typed.kind), format!("{:?}", ascii.kind));
    let fault = check("qname == 'a\u{200d}b.example'", &vocabulary()).unwrap_err();
    let shown = fault.to_string();
    assert!(shown.contains("it is not a valid internationalised name"), "{shown}");
}

#[test]
fn faults_point_at_their_column_and_say_what_to_do() {
    for (expression, column, message) in [
        (r#"qname.undr("x")"#, 7, "unknown method `undr`: did you mean `under`?"),
        ("qnme == 'x'", 1, "there is no `qnme`: did you mean `qname`?"),
        (
            "qtype == AAAA",
            10,
            "there is no `AAAA`: write types in quotes, as in `qtype == \"AAAA\"`",
        ),
        ("qtype == 'AAAB'", 10, "unknown type `AAAB`: did you mean `aaaa`?"),
        ("client.group('kid')", 14, "there is no group `kid`: did you mean `kids`?"),
        ("list('addds')", 6, "there is no list `addds`: available: ads, malware"),
        ("list('malwre')", 6, "there is no list `malwre`: did you mean `malware`?"),
        ("service('youtub')", 9, "there is no service `youtub`: did you mean `youtube`?"),
        (
            "client.ip.in('10.0.0.0/33')",
            14,
            "`10.0.0.0/33` is not a network: write it as \"10.0.0.0/8\"",
        ),
        (
            "client.ip == '10.0.0.0/8'",
            14,
            "`10.0.0.0/8` is not an address: use `.in(...)` for networks",
        ),
        ("now.hour == '9'", 13, "expected a number: write `now.hour >= 21`"),
        ("now.between('21:00', '25:00')", 22, "invalid time of day: write it as \"21:30\""),
        ("qname < 'x'", 1, "only numbers can be ordered: compare with `==`, `!=` or `in`"),
        (
            "qname",
            1,
            "this is a value, not a condition: write `qname == \"www.example.com\"` or \
             `qname.under(\"example.com\")`",
        ),
        ("qname.matches('(')", 15, "unclosed group"),
        (
            "now.weekend == true",
            1,
            "a condition cannot be compared: write it without a \
                                    comparison, or with `!`",
        ),
        (
            "geo.country == 'NL'",
            1,
            "countries need a geo database: configure one, or test networks",
        ),
        ("qname == '*.x'", 10, "names are compared as a whole: write `qname.under(\"x\")`"),
        (
            "client.transport == 'sctp'",
            21,
            "there is no transport `sctp`: available: udp, tcp, tls, https, quic, odoh",
        ),
        (
            "'x' in qname",
            8,
            "expected a list after `in`: write `qname == \"www.example.com\"` or \
             `qname.under(\"example.com\")`",
        ),
    ] {
        let fault = check(expression, &vocabulary()).unwrap_err();
        assert_eq!(
            (fault.column(expression), fault.to_string().as_str()),
            (column, message),
            "{expression}"
        );
    }
}

#[test]
fn a_fault_is_shown_with_carets() {
    let expression = "client.group(\"kids\") &&\n  qname.undr(\"x\")";
    let fault = check(expression, &vocabulary()).unwrap_err();
    let shown = "    qname.undr(\"x\")\n          ^^^^ unknown method `undr`: did \
                 you mean `under`?";
    assert_eq!(fault.shown(expression).to_string(), shown);
}
