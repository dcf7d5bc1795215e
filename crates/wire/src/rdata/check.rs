//! A validator of uncompressed record data.

use super::reader::Reader;
use super::table::{self, Field};
use super::{MAX_RDATA, Problem, RdataError, apl, bitmap, gateway, location, svcb};

/// Minimum number of octets of a ZONEMD digest (RFC 8976 §2.2.4).
const MIN_ZONEMD_DIGEST: usize = 12;

/// Checks that uncompressed data has the structure of its type: every length is within the data,
/// names are valid and uncompressed, no octets remain, and the rules of the type hold. Valid data
/// can be written as text and parsed back to the same octets.
///
/// # Errors
/// The first malformed field.
pub fn check(rtype: u16, rdata: &[u8]) -> Result<(), RdataError> {
    if rdata.len() > MAX_RDATA {
        return Err(RdataError::whole(Problem::TooLong));
    }
    let fields = table::find(rtype).map_or(&[][..], |row| row.fields);
    if fields.is_empty() {
        return Ok(());
    }
    let mut reader = Reader::new(rdata);
    for (index, &field) in fields.iter().enumerate() {
        let start = reader.position();
        check_field(field, &mut reader)
            .map_err(|problem| RdataError::in_field(problem, index, field, start))?;
    }
    if reader.is_empty() {
        return Ok(());
    }
    Err(RdataError::on_wire(Problem::Trailing, reader.position()))
}

fn check_field(field: Field, reader: &mut Reader<'_>) -> Result<(), Problem> {
    if let Some(width) = field.width() {
        return reader.take(usize::from(width)).map(drop);
    }
    match field {
        Field::Name => reader.name().map(drop),
        Field::Names => repeat(reader, Reader::name),
        Field::CharString => reader.char_string().map(drop),
        Field::OptionalCharString if reader.is_empty() => Ok(()),
        Field::OptionalCharString => reader.char_string().map(drop),
        Field::CharStrings => {
            reader.char_string()?;
            repeat(reader, Reader::char_string)
        }
        Field::CaaTag => check_tag(reader.char_string()?),
        Field::Text | Field::OptionalBase64 | Field::Base64OrDash => {
            reader.rest();
            Ok(())
        }
        Field::NonEmptyText | Field::Base64 | Field::Hex | Field::Nsap => {
            reader.some_rest().map(drop)
        }
        Field::CountedBase64 => reader.counted().map(drop),
        Field::ZonemdDigest if reader.rest().len() < MIN_ZONEMD_DIGEST => Err(Problem::Missing),
        Field::Salt => reader.char_string().map(drop),
        Field::Hash => match reader.char_string()? {
            [] => Err(Problem::Missing),
            _ => Ok(()),
        },
        Field::TypeBitmap => bitmap::check_types(reader.rest()),
        Field::NxtBitmap => bitmap::check_nxt(reader.rest()),
        Field::Services => bitmap::check_services(reader),
        Field::SvcParams => svcb::check(reader.rest()),
        Field::AddressPrefixes => apl::check(reader.rest()),
        Field::Location => location::check(reader),
        Field::IpsecGateway => gateway::check_ipsec(reader),
        Field::AmtRelay => gateway::check_relay(reader),
        Field::A6 => gateway::check_a6(reader),
        Field::HostIdentity => gateway::check_host_identity(reader),
        // The first arm of the match handles fixed-width fields, and the guard of the digest's arm
        // lets only valid digests reach this arm.
        _ => Ok(()),
    }
}

/// Reads elements until the data ends.
fn repeat<'a>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<&'a [u8], Problem>,
) -> Result<(), Problem> {
    while !reader.is_empty() {
        read(reader)?;
    }
    Ok(())
}

/// Checks a property tag: one or more letters and digits (RFC 8659 §4.1).
pub(super) fn check_tag(tag: &[u8]) -> Result<(), Problem> {
    if tag.is_empty() || !tag.iter().all(u8::is_ascii_alphanumeric) {
        return Err(Problem::Rule("a property tag is letters and digits"));
    }
    Ok(())
}
