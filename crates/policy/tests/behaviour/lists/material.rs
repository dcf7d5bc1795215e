//! Lists and questions as short texts.

use avocet_policy::list::{
    Asker, Compiler, Format, Image, Kind, ListId, ListQuestion, ListSet, Origin, Progress, Report,
    Rewrites, Scratch, Source,
};
use avocet_wire::{Rtype, rdata};

pub(crate) const SECRET: [u8; 32] = [7; 32];

pub(crate) fn list(place: usize) -> ListId {
    ListId::at(place).unwrap()
}

pub(crate) fn source(place: usize, kind: Kind, format: Option<Format>) -> Source {
    Source { list: list(place), kind, format, rewrites: Rewrites::Permitted, origin: Origin::Own }
}

/// Reads a text in chunks of this size.
pub(crate) fn read(compiler: &mut Compiler, source: Source, text: &[u8], chunk: usize) -> Report {
    let mut reader = compiler.list(source);
    for part in text.chunks(chunk.max(1)) {
        if reader.feed(part) == Progress::Enough {
            break;
        }
    }
    reader.finish()
}

/// Returns an image of block lists in these formats.
pub(crate) fn image(texts: &[(Format, &str)]) -> Image {
    let mut compiler = Compiler::new(SECRET);
    for (place, (format, text)) in texts.iter().enumerate() {
        let report =
            read(&mut compiler, source(place, Kind::Block, Some(*format)), text.as_bytes(), 1000);
        assert_eq!(report.first_faults, [], "{text}");
    }
    Image::open(compiler.finish().0).unwrap()
}

/// Returns the folded wire form of a name.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend(label.to_ascii_lowercase().bytes());
    }
    wire.push(0);
    wire
}

/// Looks up a name for any client, type A. Returns the decision, and every line as `list:line`.
pub(crate) fn ask(image: &Image, name: &str) -> String {
    ask_as(image, name, "A", Asker::default(), &ListSet::ALL)
}

pub(crate) fn ask_as(
    image: &Image,
    name: &str,
    rtype: &str,
    asker: Asker<'_>,
    in_force: &ListSet,
) -> String {
    let qname = wire(name);
    let question =
        ListQuestion { qname: &qname, qtype: Rtype(rdata::from_mnemonic(rtype).unwrap()), asker };
    let mut scratch = Scratch::empty();
    let found = image.lookup(question, in_force, &mut scratch);
    let mut text = format!("{:?}", found.decision());
    if found.is_important() {
        text += "!";
    }
    for one in found.matches() {
        text += &format!(" {}:{}", one.list.place(), one.line);
    }
    if let Some(rewrite) = found.rewrite() {
        text += &format!(" -> {rewrite}");
    }
    text
}
