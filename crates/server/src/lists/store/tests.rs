//! A store on a real disk, with truncated and damaged files.

use std::collections::BTreeMap as Map;

use avocet_config::Config;

use super::*;

const SECRET: [u8; 32] = [7; 32];

struct Data(PathBuf);

impl Data {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-lists-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn image(&self) -> PathBuf {
        self.0.join("lists/image")
    }

    fn store(&self) -> Store {
        Store::new(&self.0)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a policy with these lists: name, and the keys of its table.
fn policy(lists: &[(&str, String)]) -> PolicyConfig {
    let tables = lists.iter().map(|(name, keys)| format!("[[list]]\nname = \"{name}\"\n{keys}\n"));
    Config::from_text(None, &tables.collect::<String>(), &Map::new()).unwrap().policy
}

fn from_file(path: &Path) -> String {
    format!("file = \"{}\"", path.display())
}

/// Returns a Lehmer generator, which gives the same numbers for the same seed.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed * 2 + 1;
    move || {
        state = state.wrapping_mul(0xda94_2042_e4dd_58b5);
        state >> 16
    }
}

#[test]
fn a_start_reads_the_image_and_compiles_only_for_other_lists() {
    let data = Data::new("start");
    let (a, b) = (data.file("a", "a.example\n"), data.file("b", "b.example\nc.example\n"));
    let config = policy(&[("a", from_file(&a)), ("b", from_file(&b))]);
    let made = data.store().load(&config, SECRET).unwrap();
    assert_eq!(made.names(), 3);
    // A different secret would give a different image.
    let read = data.store().load(&config, [8; 32]).unwrap();
    assert_eq!((read.digest(), read.making()), (made.digest(), made.making()));
    for other in [
        policy(&[("b", from_file(&b)), ("a", from_file(&a))]),
        policy(&[("a", from_file(&a)), ("b", format!("{}\nkind = \"allow\"", from_file(&b)))]),
        policy(&[("a", from_file(&a)), ("b", format!("{}\nformat = \"hosts\"", from_file(&b)))]),
        policy(&[("a", from_file(&a))]),
    ] {
        assert_ne!(data.store().load(&other, SECRET).unwrap().making().lists, made.making().lists);
    }
    assert!(data.store().load(&policy(&[]), SECRET).is_none());
}

#[test]
fn a_start_serves_no_image_of_another_file_and_of_no_earlier_text() {
    let data = Data::new("other");
    let (a, b) = (data.file("a", "a.example\n"), data.file("b", "b.example\nc.example\n"));
    let of = |path: &Path| policy(&[("x", from_file(path))]);
    let load = |config: &PolicyConfig| data.store().load(config, SECRET).unwrap().names();
    assert_eq!(load(&of(&a)), 1);
    assert_eq!(load(&of(&b)), 2, "another path");
    data.file("b", "b.example\nc.example\nd.example\n");
    assert_eq!(load(&of(&b)), 3, "another text");
    fs::remove_file(&b).unwrap();
    assert_eq!(load(&of(&b)), 3, "the last good copy of the same file");
    assert_eq!(load(&of(&data.0.join("none"))), 0, "no copy of another one");
}

#[test]
fn a_truncated_or_damaged_image_is_compiled_again() {
    let data = Data::new("torn");
    let list = data.file("a", "a.example\n||b.example^\n/^ad[0-9]+/\n");
    let config = policy(&[("a", from_file(&list))]);
    let made = data.store().load(&config, SECRET).unwrap();
    let whole = fs::read(data.image()).unwrap();
    for seed in 0..200 {
        let mut number = numbers(seed);
        let mut octets = whole.clone();
        let at = (number() % whole.len() as u64) as usize;
        match seed % 3 {
            0 => octets.truncate(at),
            1 => octets[at] ^= 1 << (number() % 8),
            _ => octets.extend_from_slice(&number().to_le_bytes()),
        }
        fs::write(data.image(), &octets).unwrap();
        let lists = data.store().load(&config, SECRET).unwrap_or_else(|| panic!("seed {seed}"));
        // If the damaged image is still readable, it has the same content; otherwise it is rebuilt.
        assert_eq!(lists.digest(), made.digest(), "seed {seed}");
        assert_eq!(lists.names(), 2, "seed {seed}");
    }
}

#[test]
fn a_damaged_copy_is_not_used() {
    let data = Data::new("copy");
    let list = data.file("a", "a.example\nb.example\n");
    let config = policy(&[("a", from_file(&list))]);
    assert_eq!(data.store().load(&config, SECRET).unwrap().names(), 2);
    let files = fs::read_dir(data.0.join("lists")).unwrap().map(|file| file.unwrap().path());
    let copy = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "list"))
        .unwrap();
    let mut octets = fs::read(&copy).unwrap();
    *octets.last_mut().unwrap() ^= 1;
    fs::write(&copy, &octets).unwrap();
    fs::remove_file(data.image()).unwrap();
    assert!(check(&data.0, &config.lists[0]).is_err());
    // The file exists, so it is read again.
    assert_eq!(data.store().load(&config, SECRET).unwrap().names(), 2);
    fs::remove_file(&list).unwrap();
    fs::write(&copy, &octets).unwrap();
    fs::remove_file(data.image()).unwrap();
    let lists = data.store().load(&config, SECRET).unwrap();
    assert_eq!((lists.names(), lists.making().lists[0].stamp.as_deref()), (0, None));
}

#[test]
fn a_file_that_is_no_list_or_gone_keeps_its_last_good_copy() {
    let data = Data::new("file");
    let list = data.file("a", "a.example\nb.example\n");
    let config = policy(&[("a", from_file(&list))]);
    let mut store = data.store();
    assert_eq!(
        store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(())),
        Ok(TextChange::Changed)
    );
    assert_eq!(
        store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(())),
        Ok(TextChange::Same)
    );
    data.file("a", "<!DOCTYPE html><html><body>log in</body></html>\n");
    assert!(matches!(
        store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(())),
        Err(Failure::HeldBack(_))
    ));
    fs::remove_file(&list).unwrap();
    assert!(matches!(
        store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(())),
        Err(Failure::File(_))
    ));
    assert_eq!(store.compile(&config, SECRET).unwrap().names(), 2);
}

#[test]
fn an_emptied_file_keeps_its_last_good_copy_until_it_is_forced() {
    let data = Data::new("emptied");
    let list = data.file("a", "a.example\nb.example\n");
    let config = policy(&[("a", from_file(&list))]);
    let mut store = data.store();
    assert_eq!(store.load(&config, SECRET).unwrap().names(), 2);
    for text in ["", "# a comment\n", "not a name\n"] {
        data.file("a", text);
        let taken = store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(()));
        let Err(Failure::HeldBack(why)) = taken else { panic!("{text:?}: {taken:?}") };
        assert!(why.contains("no entries"), "{why}");
        assert!(why.contains("--force"), "{why}");
    }
    assert_eq!(data.store().load(&config, SECRET).unwrap().names(), 2, "nor does a start take it");
    let forced = store.take_file(&config.lists[0], &list, Taking::Forced, |_, _| Ok(()));
    assert_eq!(forced, Ok(TextChange::Changed));
    assert_eq!(store.compile(&config, SECRET).unwrap().names(), 0);
    data.file("a", "");
    let taken = store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(()));
    assert_eq!(taken, Ok(TextChange::Changed), "without entries before there is nothing to lose");
}

#[test]
fn a_file_that_lost_most_of_its_entries_keeps_its_last_good_copy() {
    let data = Data::new("shrunk");
    let names = |count: u32| (0..count).map(|n| format!("{n}.example\n")).collect::<String>();
    let list = data.file("a", &names(3_000));
    let config = policy(&[("a", from_file(&list))]);
    let mut store = data.store();
    assert_eq!(store.load(&config, SECRET).unwrap().names(), 3_000);
    data.file("a", &names(1_000));
    let taken = store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(()));
    assert!(matches!(taken, Err(Failure::HeldBack(_))), "{taken:?}");
    data.file("a", &names(2_000));
    let taken = store.take_file(&config.lists[0], &list, Taking::Judged, |_, _| Ok(()));
    assert_eq!(taken, Ok(TextChange::Changed));
}

#[test]
fn where_nothing_can_be_written_lists_are_in_force_all_the_same() {
    let data = Data::new("full");
    // The directory is replaced with a file: nothing can be created below it, even by root.
    fs::write(data.0.join("lists"), "").unwrap();
    let list = data.file("a", "a.example\n");
    let config = policy(&[("a", from_file(&list))]);
    let mut store = data.store();
    assert_eq!(store.load(&config, SECRET).unwrap().names(), 1);
    assert!(store.save_states(&Map::new()).is_err());
}

#[test]
fn copies_of_lists_that_are_no_more_are_put_aside() {
    let data = Data::new("clear");
    let (a, b) = (data.file("a", "a.example\n"), data.file("b", "b.example\n"));
    data.store().load(&policy(&[("a", from_file(&a)), ("b", from_file(&b))]), SECRET).unwrap();
    let config = policy(&[("b", from_file(&b))]);
    data.store().load(&config, SECRET).unwrap();
    let names = fs::read_dir(data.0.join("lists"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut copies: Vec<String> = names.filter(|name| name.contains(".list")).collect();
    assert_eq!((copies.len(), copies.remove(0).starts_with("b-")), (1, true));
}

#[test]
fn a_list_that_was_renamed_or_removed_for_a_while_has_its_copy() {
    let data = Data::new("renamed");
    let path = data.file("a", "a.example\nb.example\n");
    let other = data.file("other", "c.example\n");
    let of = |name: &str| policy(&[(name, from_file(&path))]);
    let names = |config: &PolicyConfig| data.store().load(config, SECRET).unwrap().names();
    assert_eq!(names(&of("ads")), 2);
    // Only the copy has the text from now on.
    fs::remove_file(&path).unwrap();
    assert_eq!(names(&of("adverts")), 2, "renamed");
    assert_eq!(names(&policy(&[("other", from_file(&other))])), 1);
    assert_eq!(names(&of("adverts")), 2, "added again");
    assert_eq!(names(&of("ads")), 2, "and named as before");
}

#[test]
fn the_oldest_copies_of_lists_that_are_no_more_are_removed() {
    let data = Data::new("retired");
    let path = data.file("a", "a.example\n");
    for n in 0..70 {
        let _ = data.store().load(&policy(&[(&format!("l{n}"), from_file(&path))]), SECRET);
        fs::copy(&path, data.0.join(format!("a{n}"))).unwrap();
        let other = from_file(&data.0.join(format!("a{n}")));
        data.store().load(&policy(&[(&format!("m{n}"), other)]), SECRET).unwrap();
    }
    let files = fs::read_dir(data.0.join("lists")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let retired = paths.filter(|path| path.extension().is_some_and(|it| it == "retired")).count();
    assert_eq!(retired, 64);
}

#[test]
fn a_copy_that_could_not_be_written_is_written_later_and_its_state_is_not_kept_before() {
    let data = Data::new("unsaved");
    let config = policy(&[("a", "url = \"https://lists.example/a\"".to_owned())]);
    let list = &config.lists[0];
    let lists = data.file("lists", "no directory");
    let mut store = data.store();
    let (text, etag) = (b"a.example\n".to_vec(), Some("\"1\"".to_owned()));
    let text = PulledText::Url(Fetched::Text { text, etag, last_modified: None });
    let pulled = Pulled { known: None, taking: Taking::Judged, text };
    assert_eq!(store.take_pulled(list, pulled).unwrap().change, TextChange::Changed);
    assert!(store.unsaved("a").is_some() && store.head(list).is_some());
    assert!(!store.save_now(), "the disk cannot be written yet");

    fs::remove_file(lists).unwrap();
    let state = SourceState { succeeded_at_secs: 7, ..SourceState::default() };
    let states = Map::from([("a".to_owned(), state)]);
    store.save_states(&states).unwrap();
    assert!(data.store().load_states().is_empty(), "the next start fetches the list");
    assert!(!store.save_again(), "the last attempt was a moment ago");
    assert!(store.save_now() && store.unsaved("a").is_none());
    assert_eq!(data.store().head(list), store.head(list));
    store.save_states(&states).unwrap();
    assert_eq!(data.store().load_states(), states);
}
