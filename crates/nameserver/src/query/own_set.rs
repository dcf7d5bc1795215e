//! Writes the server's own records to a message.

use avocet_resolver::OwnSet;
use avocet_wire::Class;
use avocet_wire::builder::{Builder, Full, Record, Section};

/// Writes an RRset of this server to a section.
pub(super) fn write_set(
    builder: &mut Builder<'_>,
    section: Section,
    set: &OwnSet<'_>,
) -> Result<(), Full> {
    let mut written = Ok(());
    set.for_each(|rdata| {
        let record = Record {
            owner: &set.owner,
            rtype: set.rtype,
            class: Class::IN,
            ttl_secs: set.ttl_secs,
            rdata,
        };
        if written.is_ok() {
            written = builder.record(section, &record);
        }
    });
    written
}
