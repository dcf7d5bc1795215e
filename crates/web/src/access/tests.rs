use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A data directory, and a clock that the test sets.
struct Site {
    directory: PathBuf,
    now: Arc<AtomicU64>,
}

impl Site {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-access-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self { directory, now: Arc::new(AtomicU64::new(1_000_000)) }
    }

    fn open(&self) -> Access {
        let now = self.now.clone();
        Access::open(&self.directory, Arc::new(move || now.load(Ordering::Relaxed)))
    }

    fn pass(&self, secs: u64) {
        self.now.fetch_add(secs, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn file(&self) -> PathBuf {
        self.directory.join("access.json")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn user(name: &str, role: Role) -> UserAdd {
    UserAdd { name: name.to_owned(), role, password: secret("correct horse"), limits: None }
}

fn login(name: &str, password: &str, code: Option<&str>) -> Login {
    Login { name: name.to_owned(), password: secret(password), code: code.map(secret) }
}

fn change(name: &str) -> UserChange {
    UserChange {
        name: name.to_owned(),
        role: None,
        limits: None,
        password: None,
        remove_limits: false,
        remove_second_factor: false,
    }
}

#[test]
fn users_and_tokens_are_kept_for_the_owner_only_and_without_their_secrets() {
    let site = Site::new("kept");
    let access = site.open();
    access.user_add(user("ada", Role::Admin)).unwrap();
    let scopes = vec![AccessScope::StatusRead, AccessScope::StatusRead];
    let created = access
        .token_create(TokenCreate { name: "prometheus".to_owned(), scopes, secs: 60 })
        .unwrap();
    let text = fs::read_to_string(site.file()).unwrap();
    assert!(!text.contains("horse") && !text.contains(created.token.reveal()), "{text}");
    assert_eq!(site.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let again = site.open();
    assert_eq!(again.user_list(), access.user_list());
    let principal = again.of_token(created.token.reveal()).unwrap();
    assert_eq!(principal.scopes, [AccessScope::StatusRead]);
    assert!(again.log_in(&login("ada", "correct horse", None), HOME).is_ok());
    site.pass(60);
    assert_eq!(again.of_token(created.token.reveal()), None, "it has expired");
    assert_eq!(again.token_list().tokens, []);
}

#[test]
fn a_password_that_is_changed_while_it_is_checked_begins_no_session() {
    let site = Site::new("overtaken");
    let access = site.open();
    access.user_add(user("ada", Role::Admin)).unwrap();
    access.user_add(user("bob", Role::Admin)).unwrap();
    let check = |name: &str| access.check_password(name, &secret("correct horse")).unwrap();
    let (of_ada, of_bob) = (check("ada"), check("bob"));
    assert!(access.begin_with("ada", &of_ada, HOME).is_ok());
    let next = Some(secret("battery staple"));
    access.user_change(UserChange { password: next, ..change("ada") }).unwrap();
    access.user_remove("bob").unwrap();
    assert_eq!(access.begin_with("ada", &of_ada, HOME).err(), Some(LoginFault::Wrong));
    assert_eq!(access.begin_with("bob", &of_bob, HOME).err(), Some(LoginFault::Wrong));
    assert_eq!(access.session_count(), 0);
}

#[test]
fn a_revoked_token_ends_at_once_and_others_stay() {
    let site = Site::new("revoked");
    let access = site.open();
    let create = || {
        let request =
            TokenCreate { name: "t".to_owned(), scopes: vec![AccessScope::Explain], secs: 60 };
        access.token_create(request).unwrap()
    };
    let (one, other) = (create(), create());
    access.token_revoke(&one.report.id).unwrap();
    assert_eq!(access.of_token(one.token.reveal()), None);
    assert!(access.of_token(other.token.reveal()).is_some());
    let unknown = AccessFault::UnknownToken(one.report.id.clone());
    assert_eq!(access.token_revoke(&one.report.id), Err(unknown));
    for wrong in ["", "avocet_", "x", other.report.id.as_str()] {
        assert_eq!(access.of_token(wrong), None, "{wrong:?}");
    }
}

#[test]
fn the_last_admin_stays() {
    let site = Site::new("last");
    let access = site.open();
    access.user_add(user("ada", Role::Admin)).unwrap();
    access.user_add(user("bob", Role::Viewer)).unwrap();
    let demotion = UserChange { role: Some(Role::Viewer), ..change("ada") };
    assert_eq!(access.user_change(demotion.clone()), Err(AccessFault::LastAdmin));
    assert_eq!(access.user_remove("ada"), Err(AccessFault::LastAdmin));
    access.user_change(UserChange { role: Some(Role::Admin), ..change("bob") }).unwrap();
    access.user_change(demotion).unwrap();
    access.user_remove("ada").unwrap();
    assert_eq!(access.user_remove("ada"), Err(AccessFault::UnknownUser("ada".to_owned())));
}

#[test]
fn names_are_plain_and_unique() {
    let site = Site::new("names");
    let access = site.open();
    for name in ["", "a b", "../a", "<b>", "\u{e4}", &"x".repeat(65)] {
        let refused = access.user_add(user(name, Role::Viewer));
        assert!(matches!(refused, Err(AccessFault::InvalidName(_))), "{name}");
    }
    access.user_add(user("a.b-c_d@e", Role::Viewer)).unwrap();
    let again = access.user_add(user("a.b-c_d@e", Role::Viewer));
    assert_eq!(again, Err(AccessFault::UserExists("a.b-c_d@e".to_owned())));
}

#[test]
fn guesses_are_slowed_down_and_the_right_password_waits_too() {
    let site = Site::new("guesses");
    let access = site.open();
    access.user_add(user("ada", Role::Admin)).unwrap();
    let attempt = |password: &str| access.log_in(&login("ada", password, None), HOME).err();
    for _ in 0..6 {
        let _ = attempt("wrong password");
    }
    assert!(matches!(attempt("wrong password"), Some(LoginFault::Throttled(_))));
    assert!(matches!(attempt("correct horse"), Some(LoginFault::Throttled(_))));
    site.pass(900);
    assert_eq!(attempt("correct horse"), None);
    assert_eq!(attempt("wrong password"), Some(LoginFault::Wrong), "the count begins again");
    let unknown = access.log_in(&login("eve", "correct horse", None), HOME).err();
    assert_eq!(unknown, Some(LoginFault::Wrong), "it does not say which names exist");
}

#[test]
fn a_second_factor_is_needed_once_it_is_confirmed_and_its_codes_work_once() {
    let site = Site::new("factor");
    let access = site.open();
    access.user_add(user("ada", Role::Admin)).unwrap();
    let session = access.log_in(&login("ada", "correct horse", None), HOME).unwrap().id;
    let wrong = access.begin_second_factor(session.reveal(), &secret("wrong"), HOME);
    assert_eq!(wrong, Err(LoginFault::Wrong));
    let begun =
        access.begin_second_factor(session.reveal(), &secret("correct horse"), HOME).unwrap();
    assert!(begun.uri.reveal().starts_with("otpauth://totp/Avocet:ada?secret="));
    let not_yet = access.log_in(&login("ada", "correct horse", None), HOME);
    assert!(not_yet.is_ok(), "it is not confirmed");

    let code = code_at(&begun.secret, site.now());
    let recovery = access.confirm_second_factor(session.reveal(), &secret(&code)).unwrap();
    let fault = |code| access.log_in(&login("ada", "correct horse", code), HOME).err();
    assert_eq!(fault(None), Some(LoginFault::CodeNeeded));
    assert_eq!(fault(Some(&code)), Some(LoginFault::Wrong), "confirmation used it");
    site.pass(30);
    let next = code_at(&begun.secret, site.now());
    assert_eq!(fault(Some(&next)), None);
    assert_eq!(fault(Some(&next)), Some(LoginFault::Wrong), "a replay");
    let reopened = site.open();
    let replay = reopened.log_in(&login("ada", "correct horse", Some(&next)), HOME).err();
    assert_eq!(replay, Some(LoginFault::Wrong), "a replay after a restart");
    assert_eq!(fault(Some(recovery[0].reveal())), None);
    assert_eq!(fault(Some(recovery[0].reveal())), Some(LoginFault::Wrong));

    access.user_change(UserChange { remove_second_factor: true, ..change("ada") }).unwrap();
    assert_eq!(fault(None), None);
}

#[test]
fn a_change_of_a_user_ends_its_sessions() {
    let site = Site::new("ends");
    let access = site.open();
    access.user_add(user("ada", Role::Admin)).unwrap();
    access.user_add(user("bob", Role::Viewer)).unwrap();
    let begin = |name| access.log_in(&login(name, "correct horse", None), HOME).unwrap().id;
    let (ada, bob) = (begin("ada"), begin("bob"));
    access.user_change(UserChange { role: Some(Role::Operator), ..change("bob") }).unwrap();
    assert_eq!(access.of_session(bob.reveal()), None);
    let principal = access.of_session(ada.reveal()).unwrap();
    assert_eq!((principal.name.as_str(), principal.scopes.len()), ("ada", AccessScope::ALL.len()));
    let passwords = (&secret("correct horse"), &secret("another horse"));
    access.change_password("ada", passwords, HOME).unwrap();
    assert_eq!(access.of_session(ada.reveal()), None);
    assert!(access.log_in(&login("ada", "another horse", None), HOME).is_ok());
}

#[test]
fn the_set_up_link_adds_one_admin_and_ends() {
    let site = Site::new("setup");
    let access = site.open();
    let first = access.draw_setup().unwrap().unwrap();
    let link = access.draw_setup().unwrap().unwrap();
    let set_up = |link: &Secret, password: &str| {
        access.set_up(link, ("ada".to_owned(), secret(password)), HOME)
    };
    assert_eq!(
        set_up(&first, "correct horse"),
        Err(LoginFault::SetupOver),
        "a later link replaced"
    );
    assert!(matches!(set_up(&link, "short"), Err(LoginFault::Access(_))), "the link stays");
    assert_eq!(set_up(&link, "correct horse").unwrap().role, Role::Admin);
    assert_eq!(set_up(&link, "correct horse"), Err(LoginFault::SetupOver));
    assert_eq!(access.draw_setup(), Ok(None));
    assert_eq!(site.open().draw_setup(), Ok(None));
}

#[test]
fn the_set_up_link_ends_after_a_day_and_when_a_user_is_added() {
    let site = Site::new("expired");
    let access = site.open();
    let link = access.draw_setup().unwrap().unwrap();
    site.pass(24 * 3600);
    let late = access.set_up(&link, ("ada".to_owned(), secret("correct horse")), HOME);
    assert_eq!(late, Err(LoginFault::SetupOver));
    let link = access.draw_setup().unwrap().unwrap();
    access.user_add(user("bob", Role::Viewer)).unwrap();
    let second = access.set_up(&link, ("ada".to_owned(), secret("correct horse")), HOME);
    assert_eq!(second, Err(LoginFault::SetupOver));
}

#[test]
fn a_damaged_file_locks_everyone_out_and_is_not_overwritten() {
    let site = Site::new("damaged");
    for text in ["", "{", "{\"version\":2,\"users\":[],\"tokens\":[]}", "{\"version\":1}"] {
        fs::write(site.file(), text).unwrap();
        let access = site.open();
        assert_eq!(access.draw_setup(), Ok(None), "no set-up for strangers: {text}");
        let added = access.user_add(user("ada", Role::Admin));
        assert!(matches!(added, Err(AccessFault::Unsaved(_))), "{added:?}");
        assert_eq!(fs::read_to_string(site.file()).unwrap(), text);
    }
}

#[test]
fn a_change_that_the_disk_refuses_has_no_effect() {
    let site = Site::new("refused");
    let access = site.open();
    fs::remove_dir_all(&site.directory).unwrap();
    let added = access.user_add(user("ada", Role::Admin));
    assert!(matches!(added, Err(AccessFault::Unsaved(_))), "{added:?}");
    assert_eq!(access.user_list().users, []);
}

#[test]
fn an_admin_is_not_limited_and_limits_survive_a_restart() {
    let place = Site::new("limits");
    let access = place.open();
    let kids = UserLimits { groups: vec!["kids".to_owned()], zones: Vec::new() };
    let add = |name: &str, role| UserAdd { limits: Some(kids.clone()), ..user(name, role) };
    assert_eq!(access.user_add(add("eve", Role::Admin)), Err(AccessFault::LimitedAdmin));
    access.user_add(user("ada", Role::Admin)).unwrap();
    access.user_add(add("bob", Role::Operator)).unwrap();
    let promotion = UserChange { role: Some(Role::Admin), ..change("bob") };
    assert_eq!(access.user_change(promotion), Err(AccessFault::LimitedAdmin));
    let access = place.open();
    assert_eq!(access.user_list().users[1].limits, kids);
    // An administrator who clears a list by mistake must not make an unlimited user.
    let empty = UserChange { limits: Some(UserLimits::default()), ..change("bob") };
    let refused = access.user_change(empty).unwrap_err();
    assert!(refused.to_string().contains("need a group or a zone"), "{refused}");
    let empty = UserAdd { limits: Some(UserLimits::default()), ..user("eve", Role::Viewer) };
    assert!(matches!(access.user_add(empty), Err(AccessFault::InvalidLimits(_))));
    assert_eq!(access.user_list().users[1].limits, kids);
    let free = UserChange { remove_limits: true, ..change("bob") };
    assert!(access.user_change(free).unwrap().limits.is_empty());
}
