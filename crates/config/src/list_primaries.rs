//! Reads the keys of a `[[list]]` about its primaries, which are the same as in a `[[zone]]`.

use super::check::Check;
use super::key::KeyConfig;
use super::policy_spec::ListTable;
use super::primary::Primaries;
use super::primary_settings::{PrimarySettings, primaries};
use super::setting::Setting;

/// Returns a reader of the primaries of a list. `keys` are the configured TSIG keys.
pub(super) fn primaries_by(
    keys: &[KeyConfig],
) -> impl Fn(&mut ListTable, &mut Check) -> Primaries + '_ {
    move |spec, check| of_list(spec, keys, check)
}

/// Validates the settings of the primaries of a list. Each key that they name must be configured.
fn of_list(spec: &mut ListTable, keys: &[KeyConfig], check: &mut Check) -> Primaries {
    fn take<T>(setting: &mut Setting<T>) -> Setting<T> {
        std::mem::take(setting)
    }
    let settings = PrimarySettings {
        primaries: take(&mut spec.primaries),
        key: take(&mut spec.key),
        ca: take(&mut spec.ca),
        pins: take(&mut spec.pins),
        client_cert: take(&mut spec.client_cert),
        client_key: take(&mut spec.client_key),
    };
    primaries(settings, keys, check)
}
