//! Tests of the changes that catalogs of other servers cause.

use avocet_wire::FoldedName;

use super::*;

/// The catalogs of a server that follows `a.` and `b.`.
struct Followed {
    config: Arc<Config>,
    catalogs: Catalogs,
}

impl Followed {
    /// Creates a server with these additional tables.
    fn new(name: &str, tables: impl FnOnce(&Path) -> String) -> Self {
        let data = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
        fs::create_dir_all(data.join("zones")).unwrap();
        let consumer = |name: &str| {
            format!(
                "[[zone]]\nname = \"{name}\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consumer\"\n"
            )
        };
        let text = format!(
            "[data]\ndirectory = {data:?}\n{}{}{}",
            consumer("a"),
            consumer("b"),
            tables(&data)
        );
        let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
        Self { config: Arc::new(config), catalogs: Catalogs::load(&data) }
    }

    /// Applies versions of the two catalogs with these records.
    fn follow(&self, [a, b]: [&str; 2]) -> Option<CatalogChange> {
        let source = |name: &[u8]| Some(catalog(name, if name == b"\x01a\0" { a } else { b }));
        let change = self.catalogs.follow(&self.config, source)?;
        self.catalogs.put(change.members.clone());
        Some(change)
    }

    /// Returns the names of the zones that are served.
    fn served(&self) -> Vec<String> {
        let mut config = Config::clone(&self.config);
        self.catalogs.extend(&mut config);
        config.zones.iter().map(|zone| shown(&zone.name)).collect()
    }

    fn end(self) {
        fs::remove_dir_all(&self.config.data.directory).unwrap();
    }
}

fn catalog(name: &[u8], records: &str) -> Arc<HostedZone> {
    let text = format!(
        "$TTL 0\n@ SOA invalid. invalid. 1 2 3 4 5\n@ NS invalid.\nversion TXT 2\n{records}"
    );
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let apex = FoldedName::new(name).unwrap();
    Arc::new(avocet_zone::load(apex, Path::new("catalog"), 0, &mut open).0.unwrap())
}

#[test]
fn a_catalog_that_grows_does_not_displace_zones_that_are_served() {
    let followed = Followed::new("full-catalogs", |_| String::new());
    followed.follow(["", "x.zones PTR served.example.\n"]).unwrap();
    let many: String = (0..MAX_CATALOG_MEMBERS)
        .map(|number| format!("m{number}.zones PTR z{number}.example.\n"))
        .collect();
    let change = followed.follow([&many, "x.zones PTR served.example.\n"]).unwrap();
    assert_eq!((change.purged.len(), change.members.len()), (0, MAX_CATALOG_MEMBERS));
    let (a, b) = (followed.catalogs.state(b"\x01a\0"), followed.catalogs.state(b"\x01b\0"));
    assert_eq!((a.0.refused.len(), a.1), (1, MAX_CATALOG_MEMBERS as u64 - 1));
    assert!(a.0.refused[0].ends_with("there are 4096 members"), "{:?}", a.0.refused);
    assert_eq!((b.0.refused.len(), b.1), (0, 1));
    followed.end();
}

#[test]
fn a_member_never_has_the_file_of_a_configured_zone() {
    let followed = Followed::new("taken-files", |data| {
        let zone =
            |name: &str, file: PathBuf| format!("[[zone]]\nname = \"{name}\"\nfile = {file:?}\n");
        let (zones, linked) = (data.join("zones"), data.join("linked"));
        fs::write(zones.join("link.example.zone"), "").unwrap();
        std::os::unix::fs::symlink(zones.join("link.example.zone"), &linked).unwrap();
        zone("one", zones.join("file.example.zone"))
            + &zone("two", data.join("zones/../zones/relative.example.zone"))
            + &zone("three", linked)
            + &zone("four", data.join("zones/journal.example.zone.journal"))
            + &zone("five", data.join("machines"))
            + &format!("provider = \"csv\"\nhead-file = {:?}\n", zones.join("head.example.zone"))
    });
    let names = ["file", "relative", "link", "journal", "head", "free"];
    let listed = names.map(|name| format!("{name}.zones PTR {name}.example.\n")).concat();
    // The member is known from the last run, which had another configuration.
    let member = |name: &str| CatalogMember {
        zone: typed_name(&format!("{name}.example")).unwrap(),
        id: typed_name(name).unwrap(),
        groups: Vec::new(),
        owner: None,
    };
    let known = names.map(|name| Membership::of(b"\x01a\0", member(name)));
    followed.catalogs.put(known.into());
    let served = followed.served();
    assert_eq!(served[7..], ["free.example."], "{served:?}");
    let change = followed.follow([&listed, ""]).unwrap();
    let members: Vec<_> = change.members.keys().map(|name| shown(name)).collect();
    assert_eq!(members, ["free.example."]);
    let refused = followed.catalogs.state(b"\x01a\0").0.refused;
    assert_eq!(refused.len(), 5, "{refused:?}");
    assert!(refused.iter().all(|one| one.ends_with("another zone has its file")), "{refused:?}");
    followed.end();
}

#[test]
fn a_server_of_the_catalogs_keeps_a_zone_that_moves_between_them() {
    let followed = Followed::new("kept-in-a-move", |_| String::new());
    let listed = "x.zones PTR moves.example.\n";
    let announced = "x.zones PTR moves.example.\ncoo.x.zones PTR b.\n";
    followed.follow([listed, ""]).unwrap();
    for step in [[announced, ""], [announced, listed], ["", listed]] {
        if let Some(change) = followed.follow(step) {
            assert!(change.purged.is_empty() && change.begun.is_empty(), "{step:?}");
        }
        assert!(followed.served().contains(&"moves.example.".to_owned()), "{step:?}");
    }
    followed.end();
}
