//! The country of a record, at the place where each publisher stores it.

use super::GeoError;
use super::value::{DataSection, Steps};
use crate::rule::Country;

/// The code that some databases use for an unknown country. ISO 3166-1 reserves it for users.
const UNKNOWN: Country = *b"ZZ";

/// Returns the country of the record at offset `at`. This is the first that exists of:
/// `country.iso_code`, `registered_country.iso_code`, the text of `country_code`, and the text of
/// `country`. Values other than two letters are ignored.
///
/// # Errors
/// The record is damaged, or no steps are left.
pub(super) fn country(
    data: DataSection<'_>,
    at: usize,
    steps: &mut Steps,
) -> Result<Option<Country>, GeoError> {
    let keys = ["country", "registered_country", "country_code"];
    let Some([country, registered, code]) = data.fields(at, keys, steps)? else { return Ok(None) };
    for place in [country, registered].into_iter().flatten() {
        if let Some([Some(code)]) = data.fields(place, ["iso_code"], steps)?
            && let Some(country) = data.text(code, steps)?.and_then(two_letters)
        {
            return Ok(Some(country));
        }
    }
    for place in [code, country].into_iter().flatten() {
        if let Some(country) = data.text(place, steps)?.and_then(two_letters) {
            return Ok(Some(country));
        }
    }
    Ok(None)
}

fn two_letters(text: &[u8]) -> Option<Country> {
    let letters = Country::try_from(text)
        .ok()
        .filter(|letters| letters.iter().all(u8::is_ascii_alphabetic))?;
    Some(letters.map(|letter| letter.to_ascii_uppercase())).filter(|country| *country != UNKNOWN)
}
