//! Process-wide settings: core affinity, file descriptors, and dropping privileges.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::{io, ptr};

use crate::syscall::check;

/// Pins the calling thread to one core.
///
/// # Errors
/// There is no such core, or the process may not run on it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: all-zero bytes are the empty set.
    let mut cores: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `core` is below the size of the set, as checked above.
    unsafe { libc::CPU_SET(core, &mut cores) };
    // SAFETY: the set outlives the call and its size is given; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cores) }).map(drop)
}

/// Raises the limit on file descriptors to its hard limit, and returns the hard limit.
///
/// # Errors
/// The system refuses, which is not expected.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call, which writes it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` outlives the call, which reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(limit.rlim_cur)
}

/// Makes timers of the calling thread expire on time. By default they may be up to 50 us late to
/// save wake-ups.
///
/// # Errors
/// The system does not support the call.
pub fn sharpen_timers() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }).map(drop)
}

/// Returns the CPU time that the calling thread has used in user mode and in the kernel, in
/// microseconds.
pub fn thread_cpu_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, which writes it. The call does not fail, because the thread
    // exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// The lowest `RLIMIT_NICE` that permits a thread the default nice level 0 (getrlimit(2)).
const NICE_ORDINARY: libc::rlim_t = 20;

/// The nice level of a thread with a low share of the cores: about a tenth of the share at level 0
/// (sched(7)).
const NICE_LOW: libc::c_int = 10;

/// Permits idle threads to return to normal priority after the process has dropped its privileges.
/// Otherwise an idle thread stays idle forever.
///
/// # Errors
/// The process may not raise the limit.
pub fn allow_ordinary_threads() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call, which writes it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NICE, &mut limit) })?;
    if limit.rlim_cur >= NICE_ORDINARY {
        return Ok(());
    }
    limit = libc::rlimit { rlim_cur: NICE_ORDINARY, rlim_max: limit.rlim_max.max(NICE_ORDINARY) };
    // SAFETY: `limit` outlives the call, which reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NICE, &limit) }).map(drop)
}

/// The scheduling priority of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eagerness {
    /// Normal priority.
    Ordinary,
    /// The thread runs only while no other thread needs the core.
    Idle,
}

/// The system's ID of a thread of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread(libc::pid_t);

impl Thread {
    /// Returns the calling thread.
    #[must_use]
    pub fn current() -> Self {
        // SAFETY: the call takes no argument and always succeeds.
        Self(unsafe { libc::gettid() })
    }

    /// Lowers the share of the cores that the thread gets while others need them, to about a tenth.
    /// The share cannot be raised again.
    ///
    /// # Errors
    /// The system refuses, or the thread has ended.
    pub fn lower_share(self) -> io::Result<()> {
        // SAFETY: the call takes no pointer.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, self.0 as libc::id_t, NICE_LOW) })
            .map(drop)
    }

    /// Sets the scheduling priority. An idle thread must hold no lock that others wait for, because
    /// it may not run for a long time.
    ///
    /// # Errors
    /// The system refuses, or the thread has ended. Returning from idle to normal needs the
    /// permission of [`allow_ordinary_threads`].
    pub fn set_eagerness(self, eagerness: Eagerness) -> io::Result<()> {
        let policy = match eagerness {
            Eagerness::Ordinary => libc::SCHED_OTHER,
            Eagerness::Idle => libc::SCHED_IDLE,
        };
        // SAFETY: all-zero bytes are priority 0, the only one in these policies.
        let parameters: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the parameters outlive the call, which reads them.
        check(unsafe { libc::sched_setscheduler(self.0, policy, &parameters) }).map(drop)
    }
}

/// Minimum size of an allocation for which the C library requests separate memory from the system,
/// in octets.
const LARGE: libc::c_int = 1 << 20;
/// Maximum number of free octets that a heap of the C library keeps at its end.
const KEPT: libc::c_int = 4 << 20;

/// Makes the C library map each large allocation separately and unmap it as soon as it is freed.
///
/// By default, the library raises its threshold when the first large allocation is freed and then
/// serves large allocations from its heaps. The memory that was used to compile a list would then
/// stay in a heap, or be returned in one long call that holds the lock of the heap.
pub fn keep_large_memory_apart() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls take no pointer, and are made before other threads exist, as the library
    // requires.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Gives freed memory that the C library retains back to the system.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointer, and any thread may make it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Switches to the given user with its primary group and an optional further group, permanently and
/// for all threads.
///
/// Bind sockets on ports below 1024 before this call, because no capability is kept.
///
/// # Errors
/// There is no such user, or the process may not switch to it. Some privileges may already be
/// dropped: the process should exit.
pub fn drop_privileges(user: &str, more_group: Option<&str>) -> io::Result<()> {
    let (uid, gid) = find_user(user)?;
    let mut groups = vec![gid];
    if let Some(group) = more_group {
        groups.push(find_group(group)?);
    }
    // SAFETY: the count is the number of group IDs at the pointer, which outlive the call.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: the call takes no pointer. The C library changes the group of all threads.
    check(unsafe { libc::setgid(gid) })?;
    // SAFETY: the call takes no pointer. The C library changes the user of all threads.
    check(unsafe { libc::setuid(uid) })?;
    // SAFETY: the call takes no pointer.
    if uid != 0 && unsafe { libc::setuid(0) } == 0 {
        return Err(io::Error::other("the process could become root again"));
    }
    Ok(())
}

/// Makes all files that the process creates from now on readable and writable by its own user only.
pub fn keep_files_private() {
    const GROUP_AND_OTHERS: libc::mode_t = 0o077;
    // SAFETY: the call takes no pointer and always succeeds.
    unsafe { libc::umask(GROUP_AND_OTHERS) };
}

/// Kills all processes in the process group of a child that leads the group.
///
/// # Errors
/// There is no such group.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let group = libc::pid_t::try_from(leader).ok().filter(|group| *group > 1);
    let group = group.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the call takes no pointer. `group` is the ID of one group, not of all processes.
    check(unsafe { libc::killpg(group, libc::SIGKILL) }).map(drop)
}

/// Reports whether the process runs as root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: the call takes no pointer and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the user ID of the process at the other end of a unix socket, at the time when it
/// connected (SO_PEERCRED).
///
/// # Errors
/// The socket is not a connected unix socket.
pub fn peer_uid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; both pointers outlive the call, and
    // `len` is the size of `peer`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok(peer.uid)
}

/// Changes the group of a file or directory.
///
/// # Errors
/// There is no such group, or the change is not permitted: an unprivileged process may give its
/// files only to groups that it is a member of.
pub fn give_to_group(path: &Path, group: &str) -> io::Result<()> {
    let gid = find_group(group)?;
    std::os::unix::fs::chown(path, None, Some(gid))
}

/// Returns the ID of a group.
///
/// # Errors
/// There is no such group.
pub fn find_group(group: &str) -> io::Result<libc::gid_t> {
    /// Maximum number of bytes for the strings of one entry, including the names of the group's
    /// members.
    const STRINGS: usize = 256 << 10;
    let name = CString::new(group)?;
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut strings: Vec<libc::c_char> = vec![0; STRINGS];
    let mut found = ptr::null_mut();
    // SAFETY: every pointer refers to local memory that outlives the call, the length of `strings`
    // is given, and `name` ends with a zero byte.
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

/// Returns the user ID and primary group ID of a user.
///
/// # Errors
/// There is no such user.
pub fn find_user(user: &str) -> io::Result<(libc::uid_t, libc::gid_t)> {
    /// Maximum number of bytes for the strings of one entry. Most entries need a few hundred.
    const STRINGS: usize = 16 << 10;
    let name = CString::new(user)?;
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut strings: Vec<libc::c_char> = vec![0; STRINGS];
    let mut found = ptr::null_mut();
    // SAFETY: every pointer refers to local memory that outlives the call, the length of `strings`
    // is given, and `name` ends with a zero byte.
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

/// Reports whether an error means that this host lacks descriptors or buffers, and not that the
/// remote end has a problem.
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

    /// The environment variable that marks the child process of a test that changes process-wide
    /// state.
    const CHILD: &str = "AVOCET_IO_TEST_CHILD";

    fn succeeds_in_child(test: &str) -> bool {
        let me = env::current_exe().unwrap();
        Command::new(me).args(["--exact", test]).env(CHILD, "1").output().unwrap().status.success()
    }

    #[test]
    fn the_cpu_time_of_a_thread_grows_as_it_works() {
        let before = thread_cpu_us();
        while thread_cpu_us() < before + 1000 {}
        // A thread that has just started has used less CPU time.
        assert!(thread::spawn(thread_cpu_us).join().unwrap() < before + 1000);
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
            // SAFETY: the call takes no pointer.
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
        // SAFETY: the call takes no pointer.
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
