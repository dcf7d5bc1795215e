//! The second factor: time-based one-time passwords (RFC 6238), each of which works once, and
//! recovery codes.

use avocet_control::access::{AccessFault, Secret};
use aws_lc_rs::hmac;
use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::secrets::{digest_of, is_equal, random};

/// Number of seconds of one step.
const STEP_SECS: u64 = 30;
/// Number of steps before and after the present one in which a code is accepted, because clocks
/// differ and typing takes time.
const SKEW: u64 = 1;
/// Number of digits of a code.
const DIGITS: usize = 6;
/// Number of recovery codes of a user.
const RECOVERY_CODES: usize = 10;

/// The second factor of a user as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct SecondFactor {
    /// The shared secret in base32.
    secret: Secret,
    /// The last step for which a code was accepted. Codes up to this step are replays.
    last_step: u64,
    /// Digests of the unused recovery codes, in hexadecimal.
    recovery: Vec<String>,
}

/// The result of checking a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeCheck {
    /// The code is accepted, and does not work again.
    Accepted,
    /// The code is wrong, or was used before.
    Refused,
}

/// Creates a random shared secret in base32.
///
/// # Errors
/// The system has no random octets.
pub(crate) fn draw_secret() -> Result<Secret, AccessFault> {
    let octets = Zeroizing::new(random::<20>()?);
    Ok(Secret::new(BASE32_NOPAD.encode(&*octets)))
}

/// Returns the URI that authenticator applications read. User names need no escapes.
pub(crate) fn uri(user: &str, secret: &Secret) -> Secret {
    Secret::new(format!(
        "otpauth://totp/Avocet:{user}?secret={}&issuer=Avocet&algorithm=SHA1&digits={DIGITS}\
         &period={STEP_SECS}",
        secret.reveal()
    ))
}

impl SecondFactor {
    /// Begins to use a shared secret if a code proves that the user has it. Also returns the
    /// recovery codes.
    ///
    /// # Errors
    /// The system has no random octets.
    pub(crate) fn begin(
        secret: Secret,
        code: &str,
        now: u64,
    ) -> Result<Option<(Self, Vec<Secret>)>, AccessFault> {
        let mut factor = Self { secret, last_step: 0, recovery: Vec::new() };
        if factor.check(code, now) == CodeCheck::Refused {
            return Ok(None);
        }
        let mut codes = Vec::new();
        for _ in 0..RECOVERY_CODES {
            let code = BASE32_NOPAD.encode(&random::<10>()?).to_ascii_lowercase();
            factor.recovery.push(hex(&code));
            codes.push(Secret::new(code));
        }
        Ok(Some((factor, codes)))
    }

    /// Checks a code or a recovery code. A recovery code is not valid again.
    pub(crate) fn check(&mut self, code: &str, now: u64) -> CodeCheck {
        let code = Zeroizing::new(code.replace([' ', '-'], "").to_ascii_lowercase());
        let present = now / STEP_SECS;
        for step in present.saturating_sub(SKEW)..=present.saturating_add(SKEW) {
            if step > self.last_step
                && self.code(step).is_some_and(|right| is_equal(right.as_bytes(), code.as_bytes()))
            {
                self.last_step = step;
                return CodeCheck::Accepted;
            }
        }
        let digest = hex(&code);
        let before = self.recovery.len();
        self.recovery.retain(|stored| !is_equal(stored.as_bytes(), digest.as_bytes()));
        if self.recovery.len() < before { CodeCheck::Accepted } else { CodeCheck::Refused }
    }

    /// Returns the code of a step (RFC 4226 §5.3).
    fn code(&self, step: u64) -> Option<String> {
        let secret = Zeroizing::new(BASE32_NOPAD.decode(self.secret.reveal().as_bytes()).ok()?);
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &secret);
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let tag = tag.as_ref();
        let offset = usize::from(tag.last()? & 0x0f);
        let word = <[u8; 4]>::try_from(tag.get(offset..offset + 4)?).ok()?;
        let number = u32::from_be_bytes(word) & 0x7fff_ffff;
        Some(format!("{:0DIGITS$}", number % 1_000_000))
    }
}

fn hex(code: &str) -> String {
    data_encoding::HEXLOWER.encode(&digest_of(code))
}

#[cfg(test)]
pub(crate) fn code_at(secret: &Secret, now: u64) -> String {
    let factor = SecondFactor { secret: secret.clone(), last_step: 0, recovery: Vec::new() };
    factor.code(now / STEP_SECS).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor() -> SecondFactor {
        let secret = Secret::new(BASE32_NOPAD.encode(b"12345678901234567890"));
        SecondFactor { secret, last_step: 0, recovery: Vec::new() }
    }

    /// RFC 6238 appendix B, the last six digits.
    #[test]
    fn codes_are_those_of_the_rfc() {
        for (at, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
        ] {
            assert_eq!(factor().code(at / STEP_SECS).unwrap(), code);
        }
    }

    #[test]
    fn a_code_works_once_and_earlier_ones_no_more() {
        let mut factor = factor();
        let (earlier, present) = (factor.code(999).unwrap(), factor.code(1000).unwrap());
        assert_eq!(factor.check(&present, 30_000), CodeCheck::Accepted);
        assert_eq!(factor.check(&present, 30_000), CodeCheck::Refused);
        assert_eq!(factor.check(&earlier, 30_000), CodeCheck::Refused);
        let next = factor.code(1001).unwrap();
        assert_eq!(factor.check(&next, 30_000), CodeCheck::Accepted);
    }

    #[test]
    fn a_code_is_wrong_before_and_after_its_time() {
        let mut factor = factor();
        let code = factor.code(1000).unwrap();
        assert_eq!(factor.check(&code, 30_000 - 31), CodeCheck::Refused);
        assert_eq!(factor.check(&code, 30_000 + 60), CodeCheck::Refused);
        for wrong in ["", "0", "00000", "0000000", "abcdef"] {
            assert_eq!(factor.check(wrong, 30_000), CodeCheck::Refused, "{wrong}");
        }
    }

    #[test]
    fn a_recovery_code_works_once() {
        let secret = draw_secret().unwrap();
        let code = code_at(&secret, 90_000);
        let (mut factor, codes) = SecondFactor::begin(secret, &code, 90_000).unwrap().unwrap();
        assert_eq!(codes.len(), RECOVERY_CODES);
        let typed = codes[3].reveal().to_ascii_uppercase();
        assert_eq!(factor.check(&typed, 90_000), CodeCheck::Accepted);
        assert_eq!(factor.check(&typed, 90_000), CodeCheck::Refused);
        assert_eq!(factor.check(codes[4].reveal(), 90_000), CodeCheck::Accepted);
    }

    #[test]
    fn enrolment_needs_a_right_code() {
        let secret = draw_secret().unwrap();
        assert!(SecondFactor::begin(secret, "000000x", 90_000).unwrap().is_none());
    }
}
