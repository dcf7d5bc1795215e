use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;

use super::dnr::Options;
use super::profile::profile;
use super::*;

const ALL: &str = "\"192.168.1.2:53\", \"[fd00::2]:53\", \"tls://192.168.1.2:853\", \
                   \"tls://[fd00::2]:853\", \"quic://192.168.1.2:8853\", \"https://192.168.1.2:443\"";

fn config(listen: &str, names: &str) -> Config {
    config_with(listen, names, "")
}

fn config_with(listen: &str, names: &str, more: &str) -> Config {
    let text = format!(
        "[server]\nlisten = [{listen}]\n[[certificate]]\nnames = [{names}]\ncert = \"a\"\nkey = \"b\"\n{more}"
    );
    Config::from_text(None, &text, &BTreeMap::new()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn connection(listen: &str, word: Option<&str>) -> Result<DeviceConnection, ConnectFault> {
    let config = config(listen, "\"dns.example\", \"*.dns.example\", \"other.example\"");
    let word = word.map(str::to_owned);
    DeviceConnection::of(&config, &Connect { id: word, ..Connect::default() })
}

/// Returns the parts of a stamp, decoded: protocol, properties and the counted texts.
fn decoded(stamp: &str) -> (u8, u64, Vec<String>) {
    let octets = BASE64URL_NOPAD.decode(stamp.strip_prefix("sdns://").unwrap().as_bytes()).unwrap();
    let properties = u64::from_le_bytes(octets[1..9].try_into().unwrap());
    let (mut texts, mut rest) = (Vec::new(), &octets[9..]);
    while let Some((len, after)) = rest.split_first() {
        let (text, after) = after.split_at(usize::from(*len));
        texts.push(String::from_utf8(text.to_vec()).unwrap());
        rest = after;
    }
    (octets[0], properties, texts)
}

#[test]
fn stamps_decode_to_what_is_served() {
    let connection = connection(ALL, None).unwrap();
    let stamps = connection.endpoints.iter().map(|one| decoded(&stamp::stamp(&connection, one)));
    let found: Vec<_> = stamps.collect();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let expected = [
        (3, 7, texts(&["192.168.1.2:853", "", "dns.example:853"])),
        (2, 7, texts(&["192.168.1.2:443", "", "dns.example:443", "/dns-query"])),
        (4, 7, texts(&["192.168.1.2:8853", "", "dns.example:8853"])),
    ];
    assert_eq!(found, expected);
    let plain = decoded(&stamp::plain(&connection).unwrap());
    assert_eq!(plain, (0, 7, texts(&["192.168.1.2:53"])));
}

#[test]
fn clients_alone_filter_nothing() {
    let filters = |more: &str| {
        let config = config_with(ALL, "\"dns.example\"", more);
        !DeviceConnection::of(&config, &Connect::default()).unwrap().promises.filters_nothing
    };
    assert!(!filters("[[client]]\nname = \"phone\"\nids = [\"id:phone\"]\n"));
    assert!(filters("[[rule]]\nname = \"r\"\nwhen = 'true'\naction = \"block\"\n"));
}

#[test]
fn a_word_is_in_the_path_and_in_the_name() {
    let connection = connection(ALL, Some("Ana-7f3k9x")).unwrap();
    assert_eq!(connection.url().unwrap(), "https://dns.example/dns-query/ana-7f3k9x");
    assert_eq!(connection.endpoint(Protocol::Tls).unwrap().host, "ana-7f3k9x.dns.example");
    assert!(profile(&connection).unwrap().contains("/dns-query/ana-7f3k9x{?dns}</string>"));
    assert!(Options::of(&connection).is_err());
    assert_eq!(stamp::plain(&connection), None);
}

#[test]
fn words_that_are_none_and_words_that_cannot_be_sent_are_errors() {
    let long = "a".repeat(64);
    for word in ["", "a b", "a.b", "a/../b", "<x>", "a\"b", "$(id)", "ä", "a\n", "%41", &long] {
        assert_eq!(connection(ALL, Some(word)), Err(ConnectFault::Word(word.to_owned())), "{word}");
    }
    let tls = "\"192.168.1.2:53\", \"tls://192.168.1.2:853\"";
    for word in ["a_b", "-a", "a-"] {
        let found = connection(tls, Some(word));
        assert_eq!(found, Err(ConnectFault::Unsendable("dns.example".to_owned())), "{word}");
        let found = connection(ALL, Some(word)).unwrap().endpoints;
        assert!(found.iter().all(|one| one.protocol == Protocol::Https), "{word}");
    }
}

#[test]
fn wishes_that_cannot_be_met_are_errors() {
    let all = config(ALL, "\"dns.example\", \"*.wild.example\"");
    let of = |name: Option<&str>, listener: Option<&str>| {
        let (name, listener) = (name.map(str::to_owned), listener.map(str::to_owned));
        DeviceConnection::of(&all, &Connect { name, id: None, listener }).map(|found| found.name)
    };
    assert_eq!(of(Some("DNS.example."), None).unwrap(), "dns.example");
    assert_eq!(of(Some("a.wild.example"), None).unwrap(), "a.wild.example");
    for name in ["wild.example", "a.b.wild.example", "*.wild.example", "", ".", "<a>.dns.example"] {
        assert_eq!(of(Some(name), None), Err(ConnectFault::Name(name.to_owned())));
    }
    assert_eq!(of(None, Some("x")), Err(ConnectFault::Listener("x".to_owned())));
    let plain = config("\"192.168.1.2:53\"", "\"dns.example\"");
    let found = DeviceConnection::of(&plain, &Connect::default());
    assert_eq!(found, Err(ConnectFault::NoListener("[server]".to_owned())));
    let wild = config(ALL, "\"*.dns.example\"");
    assert_eq!(DeviceConnection::of(&wild, &Connect::default()), Err(ConnectFault::NoName));
    let unknown = connection("\"0.0.0.0:53\", \"tls://0.0.0.0:853\"", None).unwrap();
    assert!(matches!(Options::of(&unknown), Err(ConnectFault::Form(_))));
    let other_port = connection("\"192.168.1.2:53\", \"tls://192.168.1.2:854\"", None).unwrap();
    assert!(matches!(profile(&other_port), Err(ConnectFault::Form(_))));
}

/// Splits a number of octets from the front.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, after) = rest.split_at(len);
    *rest = after;
    taken
}

fn number(rest: &mut &[u8]) -> usize {
    let octets = take(rest, 2);
    usize::from(u16::from_be_bytes([octets[0], octets[1]]))
}

#[test]
fn options_of_dhcp_have_the_form_of_rfc_9463() {
    let options = Options::of(&connection(ALL, None).unwrap()).unwrap();
    let name = b"\x03dns\x07example\x00";
    let dot = b"\x00\x01\x00\x04\x03dot\x00\x03\x00\x02\x03\x55";
    let doh =
        b"\x00\x01\x00\x06\x02h2\x02h3\x00\x03\x00\x02\x01\xbb\x00\x07\x00\x10/dns-query{?dns}";
    let mut rest = &options.v4[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let len = number(&mut rest);
        let mut instance = take(&mut rest, len);
        assert_eq!(number(&mut instance), found.len() + 1, "priority");
        let len = usize::from(take(&mut instance, 1)[0]);
        assert_eq!(take(&mut instance, len), name);
        assert_eq!(take(&mut instance, 1), [4]);
        assert_eq!(take(&mut instance, 4), [192, 168, 1, 2]);
        found.push(instance);
    }
    assert_eq!(found.len(), 3);
    assert_eq!((found[0], found[1]), (&dot[..], &doh[..]));

    let [one] = &options.v6[..] else { panic!("{options:?}") };
    let mut rest = &one[..];
    assert_eq!(number(&mut rest), 1);
    let len = number(&mut rest);
    assert_eq!(take(&mut rest, len), name);
    let len = number(&mut rest);
    assert_eq!((len, take(&mut rest, len)[0], rest), (16, 0xfd, &dot[..]));

    let hex = data_encoding::HEXUPPER.encode(&options.v4);
    assert!(options.for_kea().contains(&format!("\"data\": \"{hex}\"")));
    assert!(options.for_dnsmasq().starts_with("dhcp-option=162,00:"));
}
