//! `address=/NAME/NAME/ADDRESS`, `server=/NAME/` and `local=/NAME/` (dnsmasq(8)), which cover names
//! and all names below them.
//!
//! An empty address, `#` or an unreachable address blocks. Any other address is the answer.
//! `server=/NAME/#` allows. A leading `*` in a name matches any text. If several lines with
//! addresses match, the addresses for the closest name apply.

use std::net::IpAddr;

use super::super::entry::{Effect, Entry, GIVEN, Scope, Target};
use super::super::modifier::Modifiers;
use super::super::name;
use super::super::reason::Reason;
use super::super::rewrite::Rewrite;
use super::{Taken, hosts, without_comment};

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    let line = without_comment(line);
    if line.is_empty() {
        return Ok(Taken::Nothing);
    }
    let (option, value) =
        line.split_once('=').ok_or(Reason::Malformed("expected option=/name/"))?;
    let names_and_value = |value: &str| {
        let value = value.trim_ascii().strip_prefix('/')?;
        value.rsplit_once('/').map(|(names, last)| (names.to_owned(), last.trim_ascii().to_owned()))
    };
    let split = names_and_value(value).ok_or(Reason::Malformed("expected /name/ after the option"));
    let option = option.trim_ascii();
    let (names, effect, rewrite) = match option.strip_prefix("--").unwrap_or(option) {
        "address" => {
            let (names, value) = split?;
            (names, Effect::Block, answer(&value)?)
        }
        "server" | "local" => {
            let (names, value) = split?;
            (names, upstream(&value)?, None)
        }
        _ => {
            return Err(Reason::Malformed("only address, server and local lines can block names"));
        }
    };
    for written in names.split('/') {
        let marks = if rewrite.is_some() { GIVEN } else { 0 };
        let entry = Entry { effect, marks, ..Entry::block(target(written)?) };
        out.push(entry.with(Modifiers { rewrite: rewrite.clone(), ..Modifiers::default() }));
    }
    Ok(Taken::Entries)
}

fn answer(value: &str) -> Result<Option<Rewrite>, Reason> {
    if value.is_empty() || value == "#" {
        return Ok(None);
    }
    let address: IpAddr =
        value.parse().map_err(|_| Reason::Malformed("expected an address after the names"))?;
    Ok((!hosts::is_nowhere(address)).then(|| Rewrite::address(address)))
}

fn upstream(value: &str) -> Result<Effect, Reason> {
    match value {
        "" => Ok(Effect::Block),
        "#" => Ok(Effect::Allow),
        _ => Err(Reason::Malformed("forwarding belongs in the configuration, not in a list")),
    }
}

fn target(written: &str) -> Result<Target, Reason> {
    if matches!(written, "" | "#" | "*" | ".") {
        return Err(Reason::Everything);
    }
    if let Some(rest) = written.strip_prefix("*.") {
        return Ok(Target::Name(Scope::Below, name::read(rest)?));
    }
    if let Some(rest) = written.strip_prefix('*') {
        name::read(rest)?;
        return Ok(Target::Glob(format!("{}|", rest.to_ascii_lowercase())));
    }
    Ok(Target::Name(Scope::Subtree, name::read(written.strip_prefix('.').unwrap_or(written))?))
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::check as check_line;

    fn check(line: &str, expected: &str) {
        check_line(Format::Dnsmasq, line, expected);
    }

    #[test]
    fn names_without_an_address_are_blocked_with_all_below() {
        check("address=/ads.example/", "block +ads.example.");
        check("address=/ads.example/#", "block +ads.example.");
        check("address=/ads.example/0.0.0.0", "block +ads.example.");
        check("address=/ads.example/::", "block +ads.example.");
        check("server=/ads.example/", "block +ads.example.");
        check("local=/a.example/b.example/ # both", "block +a.example.; block +b.example.");
        check("--local=/a.example/", "block +a.example.");
    }

    #[test]
    fn addresses_are_answers_and_a_hash_lets_through() {
        check("address=/nas.example/192.0.2.7", "block +nas.example. -> A 192.0.2.7");
        check("server=/good.ads.example/#", "allow +good.ads.example.");
    }

    #[test]
    fn a_star_at_the_front_is_any_text() {
        check("address=/*.ads.example/", "block <ads.example.");
        check("local=/*ads.example/", "block ads.example|");
    }

    #[test]
    fn faults_are_told() {
        check("address=/#/0.0.0.0", "fault: the line matches every name");
        check("address=//0.0.0.0", "fault: the line matches every name");
        check("address=/a.example/x", "fault: expected an address after the names");
        check(
            "server=/a.example/192.0.2.1",
            "fault: forwarding belongs in the configuration, not in a list",
        );
        check("cache-size=1", "fault: only address, server and local lines can block names");
        check("ads.example", "fault: expected option=/name/");
        check("address=ads.example", "fault: expected /name/ after the option");
    }
}
