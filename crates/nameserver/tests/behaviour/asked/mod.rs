//! A server in the test process, queried like a real server.

use std::net::SocketAddr;

use avocet_nameserver::InProcess;
use avocet_wire::builder::OptFields;
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::TC;
use avocet_wire::view::RecordSection;
use avocet_wire::{Builder, Class, MessageView, NameBuf, Rcode, Rtype, rdata, text};

/// Queries the server. Returns RCODE, answers and extended error in one line.
pub(crate) fn ask(server: &mut InProcess, client: [u8; 4], name: &str, rtype: Rtype) -> String {
    ask_over(Over::Udp, server, (client, name, rtype))
}

/// The transport of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

/// Queries the server like [`ask`], over this transport.
pub(crate) fn ask_over(
    over: Over,
    server: &mut InProcess,
    question: ([u8; 4], &str, Rtype),
) -> String {
    let (client, name, rtype) = question;
    server.ask_as(SocketAddr::from((client, 4000)));
    let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
    let mut builder = Builder::new(&mut query, 512, 7, 0x0100).unwrap();
    builder.question(&wire(name), rtype, Class::IN).unwrap();
    builder.opt(&OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: false }, &[]).unwrap();
    let len = builder.finish();
    let len = match over {
        Over::Udp => server.answer(&query[..len], &mut out),
        Over::Tcp => server.answer_over_tcp(&query[..len], &mut out),
    };
    len.map_or_else(|| "nothing".to_owned(), |len| shown(&out[..len]))
}

/// A name in folded wire format.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut out = [0; 255];
    let len = text::name_to_wire(name.as_bytes(), Some(&[0]), &mut out).unwrap();
    NameBuf::from_wire(&out[..len]).unwrap().folded().wire().to_vec()
}

pub(crate) fn shown(message: &[u8]) -> String {
    let view = MessageView::new(message).unwrap();
    let mut line = Rcode(view.header().flags & 0xf).to_string();
    if view.header().has(TC) {
        line.push_str(" TC");
    }
    for record in view.records().unwrap().map(Result::unwrap) {
        if record.section == RecordSection::Answer {
            let mut data = [0; 4096];
            let len = record.expand_rdata(&mut data).unwrap();
            line.push_str(&format!(
                " {} {}",
                record.ttl_secs(),
                rdata::display(record.rtype.0, &data[..len])
            ));
        }
    }
    let options = view
        .edns()
        .unwrap()
        .into_iter()
        .flat_map(|edns| edns.options().map(Result::unwrap).collect::<Vec<_>>());
    for option in options {
        if let EdnsOption::Ede(code, text) = option {
            line.push_str(&format!(" [{} {}]", code.0, String::from_utf8_lossy(text)));
        }
    }
    line
}
