//! Tests of `[dns64]`.

use super::*;

fn dns64(keys: &str) -> Result<Config, ConfigErrors> {
    read_with(&format!("[dns64]\n{keys}\n"), &[])
}

#[test]
fn a_translators_prefix_has_one_of_six_lengths() {
    assert!(dns64("").unwrap().dns64.translation().is_none());
    for prefix in ["64:ff9b::/96", "2001:db8::/32", "2001:db8:1:2::/64"] {
        let config = dns64(&format!("prefix = \"{prefix}\"")).unwrap();
        assert!(config.dns64.translation().is_some(), "{prefix}");
        assert_eq!(config.dns64.exclude, ["::ffff:0:0/96".parse().unwrap()]);
    }
    for prefix in ["64:ff9b::/97", "64:ff9b::1/96", "2001:db8:0:0:ff00::/96", "10.0.0.0/8", "x"] {
        let error = dns64(&format!("prefix = \"{prefix}\"")).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("a.toml:2:10: \"{prefix}\" is not a translator prefix")),
            "{error}"
        );
    }
    let error = dns64("exclude = [\"10.0.0.0/8\"]").unwrap_err().to_string();
    assert!(
        error.ends_with("10.0.0.0/8 is an IPv4 network, which AAAA records never match"),
        "{error}"
    );
}

#[test]
fn addresses_are_translated_in_both_modes() {
    for mode in ["forward", "recurse"] {
        let text =
            format!("[resolver]\nmode = \"{mode}\"\n[dns64]\nprefix = \"64:ff9b::/96\"\n{FORWARD}");
        assert!(read_with(&text, &[]).unwrap().dns64.translation().is_some(), "{mode}");
    }
}
