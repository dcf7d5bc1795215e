//! Geographical locations: LOC (RFC 1876).

use std::fmt::{self, Write};

use super::Problem;
use super::input::{Input, number};
use super::output::Stop;
use super::reader::Reader;

/// The equator and the prime meridian, in thousandths of a second of arc.
const ZERO_ANGLE: u32 = 1 << 31;
/// Number of thousandths of a second of arc per degree.
const DEGREE: u32 = 3_600_000;
/// Sea level, in centimetres above the lowest altitude that LOC can express.
const ZERO_ALTITUDE: i64 = 10_000_000;
/// The default size of one metre, as mantissa and exponent of centimetres.
const DEFAULT_SIZE: u8 = 0x12;
/// The default horizontal precision: ten kilometres.
const DEFAULT_HORIZONTAL: u8 = 0x16;
/// Largest size that a digit and an exponent of at most 9 can express, in centimetres.
const MAX_SIZE: u64 = 9_000_000_000;
/// The default vertical precision: ten metres.
const DEFAULT_VERTICAL: u8 = 0x13;

/// The data of LOC, version 0.
struct Location {
    /// Diameter of the place, horizontal and vertical precision.
    sizes: [u8; 3],
    latitude: u32,
    longitude: u32,
    altitude: u32,
}

fn read(reader: &mut Reader<'_>) -> Result<Location, Problem> {
    if reader.u8()? != 0 {
        return Err(Problem::Rule("a version of LOC other than 0"));
    }
    let sizes = reader.array()?;
    let (latitude, longitude) = (reader.u32()?, reader.u32()?);
    if latitude.abs_diff(ZERO_ANGLE) > 90 * DEGREE {
        return Err(Problem::Rule("a latitude of more than 90 degrees"));
    }
    if longitude.abs_diff(ZERO_ANGLE) > 180 * DEGREE {
        return Err(Problem::Rule("a longitude of more than 180 degrees"));
    }
    if !sizes.iter().all(|size| is_size(*size)) {
        return Err(Problem::Rule("a size that is not one decimal digit and an exponent"));
    }
    Ok(Location { sizes, latitude, longitude, altitude: reader.u32()? })
}

/// Reports whether the octet is 0, or a digit from 1 to 9 with an exponent of at most 9.
const fn is_size(size: u8) -> bool {
    size == 0 || (size >> 4 != 0 && size >> 4 <= 9 && size & 15 <= 9)
}

pub(super) fn check(reader: &mut Reader<'_>) -> Result<(), Problem> {
    read(reader).map(drop)
}

/// Parses `d1 [m1 [s1]] N|S d2 [m2 [s2]] E|W alt[m] [size[m] [horizontal[m] [vertical[m]]]]`.
pub(super) fn parse(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let latitude = parse_angle(input, 90, *b"ns")?;
    let longitude = parse_angle(input, 180, *b"ew")?;
    let altitude = parse_altitude(input.next()?)?;
    let start = out.len();
    out.push(0);
    for default in [DEFAULT_SIZE, DEFAULT_HORIZONTAL, DEFAULT_VERTICAL] {
        out.push(input.next().map_or(Ok(default), parse_size)?);
    }
    for number in [latitude, longitude, altitude] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    check(&mut Reader::new(&out[start..]))
}

/// Parses degrees, minutes, seconds and the direction. `directions` lists the positive one first.
fn parse_angle(input: &mut Input<'_>, max: u64, directions: [u8; 2]) -> Result<u32, Problem> {
    let mut angle = 0;
    for (unit, max) in [(u64::from(DEGREE), max), (60_000, 59), (1, 59_999)] {
        let token = input.next()?;
        if unit != u64::from(DEGREE) && is_direction(token, directions) {
            return signed_angle(angle, token, directions);
        }
        angle += unit
            * match unit {
                1 => decimal(token, 3, max)?,
                _ => number(token, max)?,
            };
    }
    signed_angle(angle, input.next()?, directions)
}

fn is_direction(token: &[u8], directions: [u8; 2]) -> bool {
    matches!(token, [letter] if directions.contains(&letter.to_ascii_lowercase()))
}

fn signed_angle(angle: u64, token: &[u8], directions: [u8; 2]) -> Result<u32, Problem> {
    if !is_direction(token, directions) {
        return Err(Problem::Rule("a direction is N or S, then E or W"));
    }
    let angle = u32::try_from(angle).map_err(|_| Problem::Number)?;
    match token.eq_ignore_ascii_case(&directions[..1]) {
        true => Ok(ZERO_ANGLE + angle),
        false => Ok(ZERO_ANGLE - angle),
    }
}

/// Parses digits with at most `places` decimals as a multiple of the last place, up to `max`.
fn decimal(token: &[u8], places: usize, max: u64) -> Result<u64, Problem> {
    let mut parts = token.splitn(2, |octet| *octet == b'.');
    let whole = parts.next().unwrap_or_default();
    let mut digits = whole.to_vec();
    let fraction = parts.next().unwrap_or_default();
    if whole.is_empty() || fraction.len() > places {
        return Err(Problem::Number);
    }
    digits.extend_from_slice(fraction);
    digits.resize(whole.len() + places, b'0');
    number(&digits, max)
}

/// Strips the optional unit `m`.
fn metres(token: &[u8]) -> &[u8] {
    token.strip_suffix(b"m").or(token.strip_suffix(b"M")).unwrap_or(token)
}

fn parse_altitude(token: &[u8]) -> Result<u32, Problem> {
    let (sign, digits) = match metres(token) {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let centimetres = decimal(digits, 2, u64::from(u32::MAX))? as i64;
    u32::try_from(ZERO_ALTITUDE + sign * centimetres).map_err(|_| Problem::Number)
}

/// Parses a size. Only its first digit is kept (RFC 1876 §2).
fn parse_size(token: &[u8]) -> Result<u8, Problem> {
    let mut mantissa = decimal(metres(token), 2, MAX_SIZE)?;
    let mut exponent = 0;
    while mantissa > 9 {
        mantissa /= 10;
        exponent += 1;
    }
    Ok((mantissa as u8) << 4 | exponent)
}

pub(super) fn write(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let location = read(reader)?;
    write_angle(location.latitude, ['N', 'S'], f)?;
    write_angle(location.longitude, ['E', 'W'], f)?;
    let altitude = i64::from(location.altitude) - ZERO_ALTITUDE;
    let sign = if altitude < 0 { "-" } else { "" };
    let centimetres = altitude.unsigned_abs();
    write!(f, "{sign}{}.{:02}m", centimetres / 100, centimetres % 100)?;
    for size in location.sizes {
        f.write_char(' ')?;
        write_size(size, f)?;
    }
    Ok(())
}

fn write_angle(
    angle: u32,
    [positive, negative]: [char; 2],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let direction = if angle >= ZERO_ANGLE { positive } else { negative };
    let angle = angle.abs_diff(ZERO_ANGLE);
    let (minutes, seconds) = (angle / 60_000, angle % 60_000);
    write!(f, "{} {} ", minutes / 60, minutes % 60)?;
    write!(f, "{}.{:03} {direction} ", seconds / 1000, seconds % 1000)
}

fn write_size(size: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let centimetres = u64::from(size >> 4) * 10_u64.pow(u32::from(size & 15));
    match centimetres {
        0..100 => write!(f, "0.{centimetres:02}m"),
        _ => write!(f, "{}m", centimetres / 100),
    }
}
