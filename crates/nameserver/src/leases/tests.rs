//! Lease files of each format, good, damaged and empty.

use super::*;

const NOW: u64 = 1_795_262_400;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let shown = |device: &Neighbour| {
        let mac = device.mac.map_or("-".to_owned(), |mac| mac.to_string());
        format!("{} {mac} {}", device.address, device.name.as_deref().unwrap_or("-"))
    };
    let devices = devices_at(&read_leases(text).leases, NOW);
    assert_eq!(devices.iter().map(shown).collect::<Vec<_>>(), expected);
}

#[test]
fn leases_of_dnsmasq_are_read() {
    check(
        "1795300000 02:00:00:00:00:01 192.168.1.20 tablet 01:02:00:00:00:00:01\n\
         0 06-02:00:00:00:00:02 192.168.1.21 * *\n\
         1795000000 02:00:00:00:00:03 192.168.1.22 gone *\n\
         duid 00:01:00:01:2a\n\
         1795300000 12345678 fd00::20 tablet 00:01\n\
         what is this\n",
        &[
            "192.168.1.20 02:00:00:00:00:01 tablet",
            "192.168.1.21 02:00:00:00:00:02 -",
            "fd00::20 - tablet",
        ],
    );
}

#[test]
fn leases_of_isc_dhcpd_are_read() {
    check(
        "# written by dhcpd\nauthoring-byte-order little-endian;\n\
         lease 10.0.0.5 {\n  starts 6 2026/11/21 10:00:00;\n  binding state active;\n  \
         hardware ethernet 02:00:00:00:00:01;\n  client-hostname \"old\";\n}\n\
         lease 10.0.0.5 {\n  binding state active;\n  next binding state free;\n  \
         hardware ethernet 02:00:00:00:00:09;\n  client-hostname \"tablet\";\n}\n\
         lease 10.0.0.6 {\n  binding state active;\n  hardware ethernet 02:00:00:00:00:02;\n}\n\
         lease 10.0.0.6 {\n  binding state free;\n  hardware ethernet 02:00:00:00:00:02;\n}\n",
        &["10.0.0.5 02:00:00:00:00:09 tablet"],
    );
}

#[test]
fn leases_of_kea_are_read() {
    check(
        "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context\n\
         10.0.0.5,02:00:00:00:00:01,,4000,1795300000,1,0,0,tablet.lan.,0,\n\
         10.0.0.6,02:00:00:00:00:02,,4000,1795000000,1,0,0,gone,0,\n\
         10.0.0.7,02:00:00:00:00:03,,4000,1795300000,1,0,0,declined,1,\n\
         10.0.0.8,02:00:00:00:00:04,,4000,1795300000,1,0,0,,0,\n",
        &["10.0.0.5 02:00:00:00:00:01 tablet.lan.", "10.0.0.8 02:00:00:00:00:04 -"],
    );
    check(
        "address,duid,valid_lifetime,expire,subnet_id,pref_lifetime,lease_type,iaid,prefix_len,fqdn_fwd,fqdn_rev,hostname,hwaddr,state\n\
         fd00::5,00:01,4000,1795300000,1,3000,0,7,128,0,0,tablet,02:00:00:00:00:01,0\n",
        &["fd00::5 02:00:00:00:00:01 tablet"],
    );
}

#[test]
fn what_is_no_file_of_leases_names_nobody() {
    for text in ["", "\0\0\0", "lease {\n}\n", "lease 10.0.0.5 {", "address,\n,\n", "1 2 3 4 5 6\n"]
    {
        check(text, &[]);
    }
}

/// Checks the first broken line of a text; 0 for none.
#[track_caller]
fn check_fault(text: &str, line: u32) {
    assert_eq!(read_leases(text).fault.map_or(0, |fault| fault.line), line, "{text}");
}

const KEA: &str = "address,hwaddr,expire,hostname,state\n";

#[test]
fn a_file_that_a_dhcp_server_wrote_has_no_broken_line() {
    check_fault("", 0);
    check_fault("\n# comment\n", 0);
    check_fault("duid 00:01\n1795300000 12345678 fd00::20 tablet 00:01\n", 0);
    check_fault("0 02:00:00:00:00:01 192.168.1.20 tablet *", 0);
    check_fault("# dhcpd\nauthoring-byte-order little-endian;\n\nserver-duid \"\\000\";\n", 0);
    check_fault(
        "lease 10.0.0.5 {\n  set vendor = \"a{\";\n  on expiry {\n    if known {\n      log (\n\
         \x20     \"x\");\n    } else {\n    }\n  }\n}\nhost x {\n  dynamic;\n}\n",
        0,
    );
    check_fault(KEA, 0);
    check_fault(&format!("{KEA}10.0.0.5,02:00:00:00:00:01,1795300000,tablet,0\n"), 0);
}

#[test]
fn a_damaged_file_has_a_broken_line() {
    for text in ["\0\0\0", "<html>error</html>\n", "0 02:00:00:00:00:01 192.16", "{\n\"a\": 1\n}"] {
        check_fault(text, 1);
    }
    check_fault("0 02:00:00:00:00:01 192.168.1.20 tablet *\n0 02:00:00:00:00:02 10.0.0.6 pho", 2);
    check_fault("lease 10.0.0.5 {\n  binding state active;\n", 3);
    check_fault("lease 10.0.0.5 {\nlease 10.0.0.6 {\n}\n", 2);
    check_fault("lease 10.0.0.5 {\n}\n\u{fffd}\u{fffd}\n", 3);
    check_fault(&format!("{KEA}10.0.0.5,02:00:00:00:00:01,1795"), 2);
    check_fault("address,hwaddr,exp", 1);
}

/// A lease file of a test, removed at its end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn of(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("avocet-leases-{test}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Checks the names after the file has this content.
#[track_caller]
fn check_names(leases: &mut Leases, file: &Scratch, text: &[u8], names: &[&str]) {
    std::fs::write(&file.0, text).unwrap();
    // A file of the same size that was written within one tick of the clock is read again.
    leases.read = None;
    let found = leases.look(&file.0, NOW).iter().filter_map(|device| device.name.as_deref());
    assert_eq!(found.collect::<Vec<_>>(), names);
}

const TWO: &[u8] =
    b"0 02:00:00:00:00:01 10.0.0.5 tablet *\n1795300000 02:00:00:00:00:02 10.0.0.6 phone *\n";

#[test]
fn a_damaged_or_emptied_file_does_not_end_the_identification_of_devices() {
    let (file, mut leases) = (Scratch::of("damaged"), Leases::default());
    check_names(&mut leases, &file, b"", &[]);
    assert_eq!(leases.fault(&file.0), None);
    check_names(&mut leases, &file, TWO, &["tablet", "phone"]);
    assert_eq!(leases.fault(&file.0), None);
    for (text, reason) in [
        (&b"\xff\x00\x9f\n\x01 2"[..], "line 1: this is not a lease"),
        (b"<html>error</html>", "line 1: this is not a lease"),
        (&TWO[..30], "line 1: the line is cut"),
        (b"", "has no leases any more"),
        (b"duid 00:01\n", "has no leases any more"),
    ] {
        check_names(&mut leases, &file, text, &["tablet", "phone"]);
        let fault = leases.fault(&file.0).unwrap();
        assert!(fault.contains(reason) && fault.contains("in force"), "{fault}");
    }
    // A line that can be read counts, and the devices of other lines stay.
    let cut = b"0 02:00:00:00:00:03 10.0.0.5 laptop *\n1795300000 02:00:00:00:00:02 10.0.0.6 ph";
    check_names(&mut leases, &file, cut, &["laptop", "phone"]);
    assert!(leases.fault(&file.0).unwrap().contains("line 2: the line is cut"));
    check_names(&mut leases, &file, &TWO[..38], &["tablet"]);
    assert_eq!(leases.fault(&file.0), None);
}

#[test]
fn a_lease_identifies_its_address_until_it_ends() {
    let (file, mut leases) = (Scratch::of("ends"), Leases::default());
    check_names(&mut leases, &file, TWO, &["tablet", "phone"]);
    let count = |leases: &mut Leases, now_secs| leases.look(&file.0, now_secs).len();
    assert_eq!(count(&mut leases, 1_795_299_999), 2);
    assert_eq!(count(&mut leases, 1_795_300_000), 1);
    // The clock was wrong.
    assert_eq!(count(&mut leases, NOW), 2);
    // Whether a lease was renewed is in the file only.
    std::fs::write(&file.0, "broken\n").unwrap();
    assert_eq!(count(&mut leases, 1_795_300_000), 2);
    std::fs::write(&file.0, "").unwrap();
    assert_eq!(count(&mut leases, 1_795_300_000), 1);
}

#[test]
fn leases_from_before_a_cleanup_of_kea_count() {
    let (file, mut leases) = (Scratch::of("kea"), Leases::default());
    let row = |number: u8, name: &str| {
        format!("10.0.0.{number},02:00:00:00:00:0{number},1795300000,{name},0\n")
    };
    let text = |rows: &[String]| [KEA, &rows.concat()].concat().into_bytes();
    let (tablet, phone, laptop) = (row(5, "tablet"), row(6, "phone"), row(6, "laptop"));
    let both = text(&[tablet.clone(), phone]);
    check_names(&mut leases, &file, &both, &["tablet", "phone"]);
    let [during, after, completed] =
        ["1", "2", "completed"].map(|ending| Scratch(file.0.with_added_extension(ending)));
    std::fs::rename(&file.0, &during.0).unwrap();
    for (rows, names) in [(&[][..], ["tablet", "phone"]), (&[laptop][..], ["tablet", "laptop"])] {
        check_names(&mut leases, &file, &text(rows), &names);
        assert_eq!(leases.fault(&file.0), None);
    }
    // The result of the cleanup counts alone, and then takes the place of the result before it.
    std::fs::write(&completed.0, &both).unwrap();
    std::fs::write(&during.0, text(&[row(7, "early")])).unwrap();
    check_names(&mut leases, &file, &text(&[]), &["tablet", "phone"]);
    std::fs::remove_file(&during.0).unwrap();
    std::fs::rename(&completed.0, &after.0).unwrap();
    let gone = "10.0.0.5,02:00:00:00:00:05,1795300000,tablet,2\n".to_owned();
    check_names(&mut leases, &file, &text(&[gone]), &["phone"]);
    std::fs::write(&after.0, [&both[..], b"10.0."].concat()).unwrap();
    check_names(&mut leases, &file, &text(&[tablet]), &["tablet", "phone"]);
    assert!(leases.fault(&file.0).unwrap().contains("line 4"));
}

#[test]
fn a_damaged_file_does_not_bring_back_leases_that_had_ended() {
    let (file, mut leases) = (Scratch::of("ended"), Leases::default());
    check_names(&mut leases, &file, TWO, &["tablet", "phone"]);
    let later = 1_795_300_001;
    let names = |leases: &mut Leases, now_secs| {
        let devices = leases.look(&file.0, now_secs).iter();
        devices.filter_map(|device| device.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut leases, later), ["tablet"]);
    for text in ["broken\n", "<html>error</html>"] {
        std::fs::write(&file.0, text).unwrap();
        assert_eq!(names(&mut leases, later + 5), ["tablet"]);
    }
    std::fs::remove_file(&file.0).unwrap();
    assert_eq!(names(&mut leases, later + 10), ["tablet"]);
    std::fs::write(&file.0, TWO).unwrap();
    assert_eq!(names(&mut leases, later + 15), ["tablet"]);
}
