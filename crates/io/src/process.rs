//! What a process asks of the system for itself: a core, file descriptors, and no more rights than
//! it needs.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::path::Path;
use std::{io, ptr};

use crate::syscall::check;

/// Keeps the calling thread on one core.
///
/// # Errors
/// When there is no such core, or the process may not run there.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: all-zero bytes are the empty set.
    let mut cores: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `core` is below the size of the set, as checked above.
    unsafe { libc::CPU_SET(core, &mut cores) };
    // SAFETY: the set lives through the call and its size is given; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cores) }).map(drop)
}

/// Raises the number of file descriptors that the process may have as far as it can, and gives that
/// number.
///
/// # Errors
/// When the system refuses, which it has no reason to.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call, which writes it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` lives through the call, which reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(limit.rlim_cur)
}

/// Has the timers of the calling thread end when they are due, and not up to 50 us later to save
/// wake-ups.
///
/// # Errors
/// When the system does not know the call.
pub fn sharpen_timers() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: takes no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }).map(drop)
}

/// The limit on nice levels by which a thread may have the ordinary one, 0 (getrlimit(2),
/// `RLIMIT_NICE`).
const NICE_ORDINARY: libc::rlim_t = 20;

/// Has threads that were idle be allowed to become ordinary again when the process is no longer
/// privileged. Without it an idle thread stays so for good.
///
/// # Errors
/// When the process may not raise the limit.
pub fn allow_ordinary_threads() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call, which writes it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NICE, &mut limit) })?;
    if limit.rlim_cur >= NICE_ORDINARY {
        return Ok(());
    }
    limit = libc::rlimit { rlim_cur: NICE_ORDINARY, rlim_max: limit.rlim_max.max(NICE_ORDINARY) };
    // SAFETY: `limit` lives through the call, which reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NICE, &limit) }).map(drop)
}

/// How eager a thread is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eagerness {
    /// Like any other.
    Ordinary,
    /// Only where nobody else wants the core.
    Idle,
}

/// A thread of this process, as the system knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread(libc::pid_t);

impl Thread {
    /// The calling one.
    #[must_use]
    pub fn current() -> Self {
        // SAFETY: takes nothing, and always succeeds.
        Self(unsafe { libc::gettid() })
    }

    /// Sets how eager it is. One that is idle must hold no lock that others wait for: it may be
    /// long before it goes on.
    ///
    /// # Errors
    /// When the system refuses, or the thread is no more. One that is idle becomes ordinary again
    /// only with the right to: see [`allow_ordinary_threads`].
    pub fn set_eagerness(self, eagerness: Eagerness) -> io::Result<()> {
        let policy = match eagerness {
            Eagerness::Ordinary => libc::SCHED_OTHER,
            Eagerness::Idle => libc::SCHED_IDLE,
        };
        // SAFETY: all-zero bytes are priority 0, the only one of these policies.
        let parameters: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the parameters live through the call, which reads them.
        check(unsafe { libc::sched_setscheduler(self.0, policy, &parameters) }).map(drop)
    }
}

/// Octets from which on memory comes from the system alone.
const LARGE: libc::c_int = 1 << 20;
/// Octets at the end of a heap that it keeps when they are freed.
const KEPT: libc::c_int = 4 << 20;

/// Has the C library take large pieces of memory from the system one by one, and give each back as
/// soon as it is freed.
///
/// Else it learns from the first large piece that is freed to take those to come from its heaps:
/// what a list took to compile stays there, or goes in one long call under the lock of a heap.
pub fn keep_large_memory_apart() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer; called before there are other threads, as the library wants it.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Gives memory that was freed back to the system, where the C library keeps some for later.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and may be called at any time in any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Becomes the named user with the user's primary group, and one more if there is one, for good and
/// in all threads.
///
/// Sockets on ports below 1024 are bound before; no capability is kept.
///
/// # Errors
/// When there is no such user, or the process may not become another. Some rights may be gone by
/// then: the process should end.
pub fn drop_privileges(user: &str, more_group: Option<&str>) -> io::Result<()> {
    let (uid, gid) = find_user(user)?;
    let mut groups = vec![gid];
    if let Some(group) = more_group {
        groups.push(find_group(group)?);
    }
    // SAFETY: the count is that of the group ids behind the pointer, which outlive the call.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: takes no pointer; the C library applies it to all threads.
    check(unsafe { libc::setgid(gid) })?;
    // SAFETY: as above.
    check(unsafe { libc::setuid(uid) })?;
    // SAFETY: as above.
    if uid != 0 && unsafe { libc::setuid(0) } == 0 {
        return Err(io::Error::other("the process could become root again"));
    }
    Ok(())
}

/// Has all files that the process creates from now on readable and writable by its own account
/// alone.
pub fn keep_files_private() {
    const GROUP_AND_OTHERS: libc::mode_t = 0o077;
    // SAFETY: takes no pointer, and always succeeds.
    unsafe { libc::umask(GROUP_AND_OTHERS) };
}

/// Whether the process may do everything.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: takes no pointer, and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// Gives a file or directory to a user and its primary group.
///
/// # Errors
/// There is no such user, or it is not permitted.
pub fn give_to_user(path: &Path, user: &str) -> io::Result<()> {
    let (uid, gid) = find_user(user)?;
    std::os::unix::fs::chown(path, Some(uid), Some(gid))
}

/// Gives a file or directory to a group, by its name.
///
/// # Errors
/// There is no such group, or it is not permitted: a process that is not root may give its files to
/// groups that it is a member of.
pub fn give_to_group(path: &Path, group: &str) -> io::Result<()> {
    let gid = find_group(group)?;
    std::os::unix::fs::chown(path, None, Some(gid))
}

/// Id of a group.
///
/// # Errors
/// There is no such group.
pub fn find_group(group: &str) -> io::Result<libc::gid_t> {
    /// Bytes for the strings of one entry, the names of its members included.
    const STRINGS: usize = 256 << 10;
    let name = CString::new(group)?;
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut strings: Vec<libc::c_char> = vec![0; STRINGS];
    let mut found = ptr::null_mut();
    // SAFETY: every pointer leads to memory of ours that lives through the call, the length of
    // `strings` is given, and `name` ends with a zero byte.
    let code = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            strings.as_mut_ptr(),
            STRINGS,
            &mut found,
        )
    };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    if found.is_null() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group}")));
    }
    // SAFETY: `found` is not null, so the call filled `entry`.
    Ok(unsafe { entry.assume_init() }.gr_gid)
}

/// User id and primary group id of a user.
/// The account of this name, and its first group.
///
/// # Errors
/// There is no such account.
pub fn find_user(user: &str) -> io::Result<(libc::uid_t, libc::gid_t)> {
    /// Bytes for the strings of one entry; the longest in practice are some hundred.
    const STRINGS: usize = 16 << 10;
    let name = CString::new(user)?;
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut strings: Vec<libc::c_char> = vec![0; STRINGS];
    let mut found = ptr::null_mut();
    // SAFETY: every pointer leads to memory of ours that lives through the call, the length of
    // `strings` is given, and `name` ends with a zero byte.
    let code = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            strings.as_mut_ptr(),
            STRINGS,
            &mut found,
        )
    };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    if found.is_null() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no user {user}")));
    }
    // SAFETY: `found` is not null, so the call filled `entry`.
    let entry = unsafe { entry.assume_init() };
    Ok((entry.pw_uid, entry.pw_gid))
}

/// Does an error say that the process or the system is short of something, a descriptor or a
/// buffer, and nothing of whom was to be reached?
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    const SHORTAGES: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    match error.raw_os_error() {
        Some(code) => SHORTAGES.contains(&code),
        None => error.kind() == io::ErrorKind::QuotaExceeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::{env, thread};

    /// Set in the child process of a test that changes the whole process.
    const CHILD: &str = "AVOCET_IO_TEST_CHILD";

    fn succeeds_in_child(test: &str) -> bool {
        let me = env::current_exe().unwrap();
        Command::new(me).args(["--exact", test]).env(CHILD, "1").output().unwrap().status.success()
    }

    #[test]
    fn a_pinned_thread_has_one_core() {
        thread::spawn(|| {
            pin_to_core(0).unwrap();
            assert_eq!(thread::available_parallelism().unwrap().get(), 1);
        })
        .join()
        .unwrap();
        assert_eq!(pin_to_core(1 << 20).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(pin_to_core(libc::CPU_SETSIZE as usize - 1).is_err());
    }

    #[test]
    fn sharp_timers_have_the_least_slack() {
        thread::spawn(|| {
            sharpen_timers().unwrap();
            // SAFETY: takes no pointer.
            assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn open_files_are_raised_to_the_hard_limit() {
        let raised = raise_open_files().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
        assert_eq!(numbers, [raised.to_string(), raised.to_string()]);
    }

    #[test]
    fn privileges_are_gone_for_good() {
        if env::var_os(CHILD).is_none() {
            assert!(succeeds_in_child("process::tests::privileges_are_gone_for_good"));
            return;
        }
        // SAFETY: takes no pointer.
        let is_root = unsafe { libc::geteuid() } == 0;
        let dropped = drop_privileges("nobody", None);
        if !is_root {
            assert_eq!(dropped.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        dropped.unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let (uid, gid) = find_user("nobody").unwrap();
        assert!(status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")), "{status}");
        assert!(status.contains(&format!("Groups:\t{gid} \n")), "{status}");
        assert!(status.contains("CapEff:\t0000000000000000\n"), "{status}");
    }

    #[test]
    fn an_unknown_user_is_named_in_the_error() {
        let error = drop_privileges("no-such-user-here", None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no-such-user-here"));
    }
}
