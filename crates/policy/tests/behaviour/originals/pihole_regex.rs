//! Pi-hole's documentation of regular expressions: `docs/regex/tutorial.md` at commit 1a89bc5c,
//! `pi-hole.md` at cc389e95, `approximate.md` at 4788414c and `overview.md` at 00680a0c.

use avocet_policy::list::Format::PiholeRegex;

use crate::originals::asking::{broken, check, check_all};

/// Expressions, with names that match and names that do not.
const TUTORIAL: &[(&str, &[&str], &[&str])] = &[
    ("domain", &["some.domain.com", "domain.com", "verylongdomain.com"], &["example.com"]),
    ("^localhost$", &["localhost"], &["a.localhost", "localhost.com"]),
    ("^abc", &["abcdomain.com", "abc.domain.com"], &["def.abc.com"]),
    ("com$", &["domain.com"], &["domain.com.co.uk"]),
    ("^domain.$", &["domaina", "domainb", "domainc"], &["domain"]),
    ("ab{4}", &["abbbb"], &["abbb"]),
    ("ab{4,}", &["abbbb", "abbbbbbbb"], &["abbb"]),
    ("^ab{3,5}$", &["abbb", "abbbb", "abbbbb"], &["abb", "abbbbbb"]),
    ("^r-*movie", &["r------movie.com", "rmovie.com"], &["r-a-movie.com"]),
    ("^r-?movie", &["rmovie.com", "r-movie.com"], &["r--movie.com"]),
    ("^r-+movie", &["r-movie.com", "r--movie.com"], &["rmovie.com"]),
    ("^a?b+", &["abbbb.com", "b.com"], &["aab.com"]),
    ("^x[abc]$", &["xa", "xb", "xc"], &["xd"]),
    ("^x[a-c]$", &["xa", "xb", "xc"], &["xd"]),
    ("^x[a-c]+$", &["xabccba"], &["x"]),
    ("^x[a-z]$", &["xq"], &["x1"]),
    ("^x[a-zA-Z]$", &["xQ"], &["x1"]),
    ("^x[a-z0-9]$", &["xq", "x1"], &["x-"]),
    ("^x[^a-z]$", &["x1", "x-"], &["xq", "xQ"]),
    ("abc[0-9]+", &["abc1.example", "abc123.example"], &["abc.example"]),
    ("^x[a-z-]$", &["x-", "xa"], &["x1"]),
    ("^x[]a]$", &["xa"], &["xb"]),
    ("^x[^]a]$", &["xb"], &["xa"]),
    ("(abc)", &["abc.example"], &["ab.example"]),
    ("^x(abc)*$", &["x", "xabcabc"], &["xabcdefabc"]),
    ("^(abc){1,3}$", &["abc", "abcabc", "abcabcabc"], &["abcabcabcabc"]),
    ("(abc)|(def)", &["abc.example", "def.example"], &["ghi.example"]),
    (r"domain(a|b)\.com", &["domaina.com", "domainb.com"], &["domain.com", "domainx.com"]),
    (r"domain(a|b)*\.com", &["domain.com", "domainaaaa.com", "domainbbb.com"], &["domainc.com"]),
    ("^x[[:digit:]]$", &["x1"], &["xa"]),
    ("^x[[:lower:]]$", &["xa", "xA"], &["x1"]),
    ("^x[[:upper:]]$", &["xa", "xA"], &["x1"]),
    ("^x[[:alpha:]]$", &["xa", "xA"], &["x1"]),
    ("^x[[:alnum:]]$", &["xa", "x1"], &["x-"]),
    ("^x[[:xdigit:]]$", &["xf", "x1"], &["xg"]),
    ("^x[[:punct:]]y", &["x-y", "x.y"], &["xay"]),
    ("^x[[:graph:]]y", &["x-y", "xay"], &["xy"]),
    ("^x[[:print:]]y", &["x-y", "xay"], &["xy"]),
    ("^x[[:blank:][:space:][:cntrl:]]y", &[], &["x-y", "xay"]),
    (r"^x\dy\D", &["x1y.a", "x1y-a"], &["xay.", "x1y2"]),
    // The advanced examples.
    (r"^[0-9][^a-z]+\.((com)|(edu))$", &["555661.com", "456.edu"], &["555g555.com"]),
    (
        r"^[a-z0-9]+([-]{1}[a-z0-9]+)*\.[a-z]{2,7}$",
        &["example.com", "a-b.com"],
        &["www.example.com", "-a.com"],
    ),
    // The cheat sheet.
    ("^client", &["client.server.com"], &["more.client.server.com"]),
    ("ing$", &["exciting"], &["ingenious"]),
    ("^ah*$", &["ahhhhh", "a"], &["b"]),
    ("^ah?$", &["a", "ah"], &["ahh"]),
    ("^ah+$", &["ah", "ahhh"], &["a"]),
    ("^do.*", &["do", "dog", "door", "dot"], &["ado"]),
    ("^do.+", &["dog", "door", "dot"], &["do"]),
    ("(mon|tues)day", &["monday", "tuesday"], &["friday", "mondiag"]),
    ("[cbf]ar", &["car", "bar", "far"], &["tar"]),
    ("^x[^0-9]", &["xa"], &["x1"]),
    ("^[0-9]{3}$", &["315", "316"], &["31.a"]),
    ("^[0-9]{2,4}x", &["12x", "123x", "1234x"], &["1x", "12345x"]),
    ("^[0-9]{2,}x", &["1234567x", "123456789x"], &["1x"]),
    (r"google\.com", &["google.com"], &["googlexcom"]),
];

#[test]
fn the_tutorial() {
    for (regex, found, not_found) in TUTORIAL {
        let questions: Vec<(&str, &str)> = found
            .iter()
            .map(|name| (*name, "blocked"))
            .chain(not_found.iter().map(|name| (*name, "-")))
            .collect();
        check_all(PiholeRegex, regex, &questions);
    }
    // The operator's own list may deny every name, as for a group whose devices get none.
    for line in [".", "do.*|", "[a-z]", "[^0-9]", "(abc)*", "a?"] {
        check_all(PiholeRegex, line, &[("a.example", "blocked")]);
    }
}

#[test]
fn types_of_queries() {
    check_all(PiholeRegex, "abc;querytype=AAAA", &[("abc AAAA", "blocked"), ("abc A", "-")]);
    check_all(
        PiholeRegex,
        ".*;querytype=!A",
        &[("a.example AAAA", "blocked"), ("a.example A", "-")],
    );
    check_all(
        PiholeRegex,
        ".*;querytype=PTR",
        &[("1.2.0.192.in-addr.arpa PTR", "blocked"), ("a.example A", "-")],
    );
    check_all(
        PiholeRegex,
        ".*;querytype=ANY",
        &[("a.example ANY", "blocked"), ("a.example A", "-")],
    );
    let several =
        [("a.example A", "blocked"), ("a.example AAAA", "blocked"), ("a.example MX", "-")];
    check_all(PiholeRegex, ".*;querytype=A,AAAA", &several);
    let all_but = [("a.example A", "-"), ("a.example AAAA", "-"), ("a.example MX", "blocked")];
    check_all(PiholeRegex, ".*;querytype=!A,AAAA", &all_but);
    // OTHER includes the types that Pi-hole does not count by name.
    let others = [
        ("a.example IXFR", "blocked"),
        ("a.example CAA", "blocked"),
        ("a.example A", "-"),
        ("a.example HTTPS", "-"),
    ];
    check_all(PiholeRegex, ".*;querytype=OTHER", &others);
}

#[test]
fn inverted_expressions() {
    check_all(
        PiholeRegex,
        "^abc$;invert",
        &[("abc", "-"), ("abcd", "blocked"), ("a.example", "blocked")],
    );
    // Inverting the expression does not invert the type.
    check_all(
        PiholeRegex,
        "^abc$;querytype=AAAA;invert",
        &[("abc AAAA", "-"), ("abc A", "-"), ("a.example AAAA", "blocked"), ("a.example A", "-")],
    );
}

#[test]
fn replies() {
    check(
        PiholeRegex,
        &[
            ("myregex;reply=nodata", "myregex", "=NODATA"),
            ("myregex;reply=nxdomain", "myregex", "=NXDOMAIN"),
            ("myregex;reply=refused", "myregex", "=REFUSED"),
            // Pi-hole's own address and dropping are replaced by the usual block response.
            ("myregex;reply=ip", "myregex", "blocked"),
            ("myregex;reply=none", "myregex", "blocked"),
            ("myregex;reply=1.2.3.4", "myregex", "=A 1.2.3.4"),
            // Pi-hole returns the null address of the other family; here there is no data.
            ("myregex;reply=1.2.3.4", "myregex AAAA", "=NODATA"),
            ("myregex;reply=fe80::1234", "myregex AAAA", "=AAAA fe80::1234"),
            ("myregex;reply=fe80::1234", "myregex A", "=NODATA"),
            ("myregex;reply=1.2.3.4;reply=fe80::1234", "myregex A", "=A 1.2.3.4"),
            ("myregex;reply=1.2.3.4;reply=fe80::1234", "myregex AAAA", "=AAAA fe80::1234"),
        ],
    );
}

#[test]
fn comments_within_expressions() {
    check_all(
        PiholeRegex,
        r"(^|\.)doubleclick\.(?#perhaps: more than .net)net$",
        &[
            ("doubleclick.net", "blocked"),
            ("www.doubleclick.net", "blocked"),
            ("doubleclick.com", "-"),
        ],
    );
    check_all(
        PiholeRegex,
        r"^a(?#one; two)b(?#)c;querytype=A",
        &[("abc A", "blocked"), ("abc AAAA", "-"), ("ab A", "-")],
    );
    check_all(PiholeRegex, r"^a\(?#?b", &[("ab", "blocked"), ("b", "-")]);
}

#[test]
fn what_is_not_linear_in_time_is_a_fault() {
    let back_reference = "the regular expression is wrong: backreferences are not supported";
    broken(
        PiholeRegex,
        &[
            (r"(cat)\.(foo)\.(dog)---\1%\3!\2", back_reference),
            (r"(1234|4321)\.(foo)\.(dog)--\1", back_reference),
            (
                r"^doubleclick\.(nt){+1}$",
                "the regular expression is wrong: repetition quantifier expects a valid decimal",
            ),
            (
                r"^doubleclick\.(neet){-1}$",
                "the regular expression is wrong: repetition quantifier expects a valid decimal",
            ),
            (
                r"(foobar){#2}",
                "the regular expression is wrong: repetition quantifier expects a valid decimal",
            ),
            (
                r"(foobar){+2#2~3}",
                "the regular expression is wrong: repetition quantifier expects a valid decimal",
            ),
        ],
    );
}
