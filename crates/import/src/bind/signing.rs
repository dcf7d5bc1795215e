//! `dnssec-policy`: the zones that BIND signs, and how it signs them.

use crate::hosted::ArrayTable;

use super::reader::BindReader;
use super::scope::View;
use super::statement::{Statement, last};

/// Maximum lifetimes of a key and of a signature, in days.
const MAX_KEY_DAYS: u64 = 36_500;
const MAX_SIGNATURE_DAYS: u64 = 365;

impl<'r> BindReader<'r> {
    /// Sets `sign` if BIND signs the zone.
    pub(super) fn sign(
        &mut self,
        name: &str,
        zone: &'r Statement,
        view: &View<'r>,
        table: &mut ArrayTable,
    ) {
        let block = zone.block();
        let automatic = view.find_for(block, &["auto-dnssec"]);
        let automatic = automatic.filter(|found| found.word(1) == Some("maintain"));
        let policy = view.find_for(block, &["dnssec-policy"]);
        let policy = policy.and_then(|found| found.word(1)).map(str::to_ascii_lowercase);
        match policy.as_deref() {
            Some("none" | "insecure") | None if automatic.is_none() => return,
            Some("default" | "none" | "insecure") | None => table.set("sign", true),
            Some(policy) if self.policies.contains_key(policy) => {
                self.policy(policy);
                table.set("sign", policy);
            }
            Some(policy) => {
                self.draft.note(zone, format!("there is no dnssec-policy {policy:?}"));
                table.set("sign", true);
            }
        }
        let written = view.find_for(block, &["key-directory"]).and_then(|found| found.word(1));
        let directory = written.map_or_else(|| self.directory.clone(), |path| self.path(path));
        let start = if name == "." { "K.+".to_owned() } else { format!("K{name}.+") };
        let is_private = |file: &str| {
            file.to_ascii_lowercase().starts_with(&start.to_ascii_lowercase())
                && file.ends_with(".private")
        };
        let has_keys = self.has_file(&directory, is_private);
        let reason = match has_keys {
            true => format!(
                "its keys stay in {directory}: copy those in use into keys/ZONE of the data \
                 directory before the first start, because the DS records of the parent name them"
            ),
            false => format!(
                "its keys were not found in {directory}: without them, the server makes others, \
                 which the DS records of the parent do not name"
            ),
        };
        self.draft.note(format!("{}: zone {name} is signed", zone.place()), reason);
    }

    /// Writes a `[[signing-policy]]` when the first zone uses this policy.
    fn policy(&mut self, name: &str) {
        let Some(policy) = self.policies.get(name).copied() else { return };
        if self.draft.hosted.has("signing-policy", name) {
            return;
        }
        let mut table = ArrayTable::of("signing-policy", policy.place());
        table.set("name", name);
        for inner in policy.block() {
            match inner.key().as_str() {
                "keys" => self.policy_keys(inner, &mut table),
                "nsec3param" => {
                    let opt_out = inner.after("optout");
                    let is_out = opt_out.is_some_and(|word| matches!(word, "yes" | "true" | "1"));
                    table.set("denial", if is_out { "nsec3-opt-out" } else { "nsec3" });
                    for zero in ["iterations", "salt-length"] {
                        if inner.after(zero).is_some_and(|value| value != "0") {
                            self.draft.note(inner, format!("{zero} is 0 here (RFC 9276)"));
                        }
                    }
                }
                "signatures-validity" => self.policy_days(inner, "validity-days", &mut table),
                "signatures-refresh" => self.policy_days(inner, "refresh-days", &mut table),
                "dnskey-ttl" => self.policy_secs(inner, "dnskey-ttl-secs", &mut table),
                "parent-ds-ttl" => self.policy_secs(inner, "parent-ds-ttl-secs", &mut table),
                "zone-propagation-delay" => self.policy_secs(inner, "propagation-secs", &mut table),
                "parent-propagation-delay" => {
                    self.policy_secs(inner, "parent-propagation-secs", &mut table);
                }
                "cdnskey"
                | "cds-digest-types"
                | "inline-signing"
                | "publish-safety"
                | "retire-safety"
                | "max-zone-ttl"
                | "purge-keys"
                | "signatures-jitter"
                | "signatures-validity-dnskey" => {
                    self.draft.quiet(format!("dnssec-policy: {}", inner.key()));
                }
                _ => self.draft.note(inner, "no equivalent for signing"),
            }
        }
        if let (Some(validity), Some(refresh)) =
            (table.number("validity-days"), table.number("refresh-days"))
            && refresh >= validity
        {
            self.draft.note(policy, "signatures are renewed at half of their time at the latest");
            table.set("refresh-days", validity / 2);
        }
        self.draft.hosted.add(table);
    }

    fn policy_keys(&mut self, keys: &Statement, table: &mut ArrayTable) {
        let mut algorithms = Vec::new();
        for key in keys.block() {
            let role = key.key();
            let algorithm = key.after("algorithm").unwrap_or_default().to_ascii_lowercase();
            let algorithm = match algorithm.as_str() {
                "13" => "ecdsap256sha256".to_owned(),
                "15" => "ed25519".to_owned(),
                _ => algorithm,
            };
            if !algorithms.contains(&algorithm) {
                algorithms.push(algorithm);
            }
            let lifetime = key.after("lifetime").unwrap_or("unlimited").to_ascii_lowercase();
            let setting = if role == "zsk" { "zsk-lifetime-days" } else { "ksk-lifetime-days" };
            match (lifetime.as_str(), secs(&lifetime)) {
                ("unlimited" | "0", _) => table.set(setting, 0),
                (_, Some(secs)) => table.set(setting, days(secs, MAX_KEY_DAYS)),
                _ => self.draft.note(key, "its lifetime is not known"),
            }
        }
        if last(keys.block(), "ksk").is_some() {
            table.set("keys", "ksk-zsk");
        }
        match algorithms.first().map(String::as_str) {
            Some("ecdsap256sha256") => table.set("algorithm", "ecdsap256sha256"),
            Some("ed25519") => table.set("algorithm", "ed25519"),
            Some(other) => {
                let reason = format!("keys are ecdsap256sha256 or ed25519, not {other}");
                self.draft.note(keys, reason);
            }
            None => {}
        }
        if algorithms.len() > 1 {
            self.draft.note(keys, "all keys have one algorithm");
        }
    }

    fn policy_days(&mut self, inner: &Statement, key: &'static str, table: &mut ArrayTable) {
        match inner.word(1).and_then(secs) {
            Some(secs) => table.set(key, days(secs, MAX_SIGNATURE_DAYS)),
            None => self.draft.note(inner, "its time is not known"),
        }
    }

    fn policy_secs(&mut self, inner: &Statement, key: &'static str, table: &mut ArrayTable) {
        match inner.word(1).and_then(secs) {
            Some(secs) => table.set(key, i64::try_from(secs.clamp(1, 604_800)).unwrap_or_default()),
            None => self.draft.note(inner, "its time is not known"),
        }
    }
}

fn days(secs: u64, most: u64) -> i64 {
    i64::try_from(secs.div_ceil(86_400).clamp(1, most)).unwrap_or_default()
}

/// Parses a time: seconds, a TTL such as `1d12h`, or a duration such as `P1Y2M` or `PT12H` (ISO
/// 8601).
pub(super) fn secs(written: &str) -> Option<u64> {
    let lower = written.to_ascii_lowercase();
    if let Ok(secs) = lower.parse() {
        return Some(secs);
    }
    let (mut is_iso, mut is_time) = (false, false);
    let (mut total, mut number) = (0_u64, None::<u64>);
    for c in lower.chars() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(digit))?);
            continue;
        }
        let factor = match c {
            'p' if total == 0 && number.is_none() => {
                is_iso = true;
                continue;
            }
            't' if is_iso => {
                is_time = true;
                continue;
            }
            'y' if is_iso => 31_536_000,
            'm' if is_iso && !is_time => 2_678_400,
            'w' => 604_800,
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(factor)?)?;
    }
    number.is_none().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_forms() {
        for (text, expected) in [
            ("3600", Some(3_600)),
            ("1d12h", Some(129_600)),
            ("P30D", Some(2_592_000)),
            ("PT1H30M", Some(5_400)),
            ("p1m", Some(2_678_400)),
            ("unlimited", None),
            ("1x", None),
            ("1d2", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(secs(text), expected, "{text}");
        }
    }
}
