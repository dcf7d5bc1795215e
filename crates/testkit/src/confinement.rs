//! Runs a command under the system-call filters of a systemd unit file (seccomp(2)), so that a test
//! detects calls that the unit forbids and the server needs.
//!
//! Supports `RestrictAddressFamilies=`, `SystemCallFilter=` and `MemoryDenyWriteExecute=`. Of each
//! group of system calls only the members that the server is known to call are permitted. That is a
//! subset of systemd's group, so whatever works here works under systemd. An unknown line is a
//! panic, never a filter that is too wide.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{c_long, sock_filter};

/// The filters of a unit file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    families: Vec<u32>,
    calls: Vec<c_long>,
    denies_write_execute: bool,
}

/// Socket families by their names in unit files.
const FAMILIES: [(&str, i32); 4] = [
    ("AF_INET", libc::AF_INET),
    ("AF_INET6", libc::AF_INET6),
    ("AF_UNIX", libc::AF_UNIX),
    ("AF_NETLINK", libc::AF_NETLINK),
];

macro_rules! calls {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

/// Members of `@system-service` that are not in `@privileged`.
const SERVICE: &[(&str, c_long)] = calls! {
    SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_chdir SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_clone
    SYS_clone3 SYS_close SYS_close_range SYS_connect SYS_copy_file_range SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl
    SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2
    SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod SYS_fchmodat SYS_fcntl SYS_fdatasync SYS_flock SYS_fstat
    SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64 SYS_getegid
    SYS_geteuid SYS_getgid SYS_getgroups SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom
    SYS_getresgid SYS_getresuid SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday
    SYS_getuid SYS_io_uring_enter SYS_io_uring_register SYS_io_uring_setup SYS_ioctl SYS_kill SYS_linkat SYS_listen
    SYS_lseek SYS_madvise SYS_membarrier SYS_mkdirat SYS_mlock SYS_mlockall SYS_mmap SYS_mprotect SYS_mremap SYS_msync
    SYS_munlock SYS_munmap SYS_nanosleep SYS_newfstatat SYS_openat SYS_openat2 SYS_pidfd_open SYS_pipe2 SYS_ppoll
    SYS_prctl SYS_pread64 SYS_preadv SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_read SYS_readlinkat SYS_readv
    SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction
    SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_sched_getaffinity
    SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto
    SYS_set_robust_list SYS_set_tid_address SYS_setpriority SYS_setrlimit SYS_setsid SYS_setsockopt SYS_shutdown
    SYS_sigaltstack SYS_signalfd4 SYS_socket SYS_socketpair SYS_splice SYS_statfs SYS_statx SYS_symlinkat SYS_sync
    SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tgkill SYS_timer_create SYS_timer_delete SYS_timer_settime
    SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat
    SYS_utimensat SYS_wait4 SYS_waitid SYS_write SYS_writev
};

/// System calls that exist only on older architectures.
#[cfg(target_arch = "x86_64")]
const SERVICE_OLD: &[(&str, c_long)] = calls! {
    SYS_access SYS_arch_prctl SYS_chmod SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_fork
    SYS_getdents SYS_getpgrp SYS_getrlimit SYS_link SYS_lstat SYS_mkdir SYS_open SYS_pause SYS_pipe SYS_poll SYS_readlink
    SYS_rename SYS_rmdir SYS_select SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utimes SYS_vfork
};
#[cfg(not(target_arch = "x86_64"))]
const SERVICE_OLD: &[(&str, c_long)] = &[];

/// `@chown`, which is part of `@privileged`.
#[cfg(target_arch = "x86_64")]
const CHOWN: &[(&str, c_long)] = calls! { SYS_chown SYS_fchown SYS_fchownat SYS_lchown };
#[cfg(not(target_arch = "x86_64"))]
const CHOWN: &[(&str, c_long)] = calls! { SYS_fchown SYS_fchownat };

impl Confinement {
    /// Reads the filters of a unit file.
    ///
    /// # Panics
    /// The file has an unknown socket family or group of system calls.
    #[must_use]
    pub fn of_unit(text: &str) -> Self {
        let mut confinement =
            Self { families: Vec::new(), calls: Vec::new(), denies_write_execute: false };
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            match (key, value) {
                ("RestrictAddressFamilies", names) => names.split_whitespace().for_each(|name| {
                    confinement.families.push(family(name));
                }),
                ("SystemCallFilter", "@system-service") => {
                    confinement.permit(&[SERVICE, SERVICE_OLD])
                }
                // The permitted calls above exclude these.
                ("SystemCallFilter", "~@privileged") => {}
                ("SystemCallFilter", "@chown") => confinement.permit(&[CHOWN]),
                ("SystemCallFilter", other) => panic!("the filter {other} is not known"),
                ("SystemCallErrorNumber", number) => assert_eq!(number, "EPERM"),
                ("MemoryDenyWriteExecute", value) => {
                    confinement.denies_write_execute = value == "yes"
                }
                _ => {}
            }
        }
        assert!(
            !confinement.families.is_empty() && !confinement.calls.is_empty(),
            "no filters in the unit file"
        );
        confinement
    }

    fn permit(&mut self, groups: &[&[(&str, c_long)]]) {
        self.calls.extend(groups.iter().copied().flatten().map(|(_, call)| call));
    }

    /// Returns the filters without one socket family.
    #[must_use]
    pub fn without_family(mut self, name: &str) -> Self {
        let family = family(name);
        self.families.retain(|permitted| *permitted != family);
        self
    }

    /// Applies the filters to a command from its start.
    pub fn apply(&self, command: &mut Command) {
        let program = self.program();
        // SAFETY: between fork and exec only system calls are made; the program was built before.
        unsafe { command.pre_exec(move || install(&program)) };
    }

    /// Returns the filter as a program for seccomp(2), which permits a system call or returns an
    /// error number.
    fn program(&self) -> Vec<sock_filter> {
        const PERMIT: u32 = libc::SECCOMP_RET_ALLOW;
        const DENY: u32 = libc::SECCOMP_RET_ERRNO;
        const EXECUTE: u32 = libc::PROT_EXEC as u32;
        const WRITE_EXECUTE: u32 = (libc::PROT_WRITE | libc::PROT_EXEC) as u32;
        let mut program = vec![
            load(NUMBER),
            skip_unless(libc::SYS_socket as u32, 2 + 2 * self.families.len() as u8),
        ];
        program.push(load(ARGUMENTS));
        for family in &self.families {
            program.extend([skip_unless(*family, 1), give(PERMIT)]);
        }
        program.push(give(DENY | libc::EAFNOSUPPORT as u32));
        if self.denies_write_execute {
            for (call, denied) in [(libc::SYS_mmap, WRITE_EXECUTE), (libc::SYS_mprotect, EXECUTE)] {
                program.extend([
                    skip_unless(call as u32, 5),
                    load(ARGUMENTS + 2 * ARGUMENT),
                    mask(denied),
                ]);
                program.extend([
                    skip_unless(denied, 1),
                    give(DENY | libc::EPERM as u32),
                    give(PERMIT),
                ]);
            }
        }
        for call in self.calls.iter().filter(|call| **call != libc::SYS_socket) {
            program.extend([skip_unless(*call as u32, 1), give(PERMIT)]);
        }
        program.push(give(DENY | libc::EPERM as u32));
        program
    }
}

fn family(name: &str) -> u32 {
    let family = FAMILIES.iter().find(|(known, _)| *known == name);
    let (_, family) = family.unwrap_or_else(|| panic!("the family {name} is not known"));
    *family as u32
}

/// Offsets of the call number and its arguments in `struct seccomp_data`: low halves, on machines
/// that store them first.
const NUMBER: u32 = 0;
const ARGUMENTS: u32 = 16;
const ARGUMENT: u32 = 8;

fn load(offset: u32) -> sock_filter {
    sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: offset,
    }
}

fn mask(bits: u32) -> sock_filter {
    sock_filter {
        code: (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: bits,
    }
}

/// Skips instructions unless the loaded value equals `value`.
fn skip_unless(value: u32, instructions: u8) -> sock_filter {
    sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: instructions,
        k: value,
    }
}

fn give(verdict: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: verdict }
}

fn install(program: &[sock_filter]) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the call takes only numbers.
    let code = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel reads the program during the call, which the program outlives.
    let code =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const UNIT: &str = "[Service]\nRestrictAddressFamilies=AF_INET AF_UNIX\n\
                        MemoryDenyWriteExecute=yes\nSystemCallFilter=@system-service\n\
                        SystemCallFilter=~@privileged\nSystemCallErrorNumber=EPERM\n";

    fn shell(confinement: &Confinement, script: &str) -> bool {
        let mut command = Command::new("sh");
        confinement.apply(command.args(["-c", script]));
        command.status().unwrap().success()
    }

    #[test]
    fn what_the_unit_forbids_fails_and_the_rest_works() {
        let confinement = Confinement::of_unit(UNIT);
        assert!(shell(&confinement, "cat /dev/null && ls / > /dev/null"));
        assert!(!shell(&confinement, "chown $(id -u) ."), "chown is privileged");
        assert!(shell(
            &Confinement::of_unit(&format!("{UNIT}SystemCallFilter=@chown\n")),
            "chown $(id -u) ."
        ));
    }

    #[test]
    #[should_panic = "the family AF_PACKET is not known"]
    fn a_family_that_is_not_known_is_no_filter() {
        let _ = Confinement::of_unit("RestrictAddressFamilies=AF_PACKET\n");
    }

    /// Returns the members of a group, including those of nested groups.
    fn members(group: &str) -> Option<HashSet<String>> {
        let output = Command::new("systemd-analyze")
            .args(["syscall-filter", "--no-pager", group])
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).unwrap();
        let mut found = HashSet::new();
        for name in text
            .lines()
            .skip(1)
            .map(str::trim)
            .filter(|name| !name.is_empty() && !name.starts_with('#'))
        {
            if name.starts_with('@') {
                found.extend(members(name)?);
            } else {
                found.insert(format!("SYS_{name}"));
            }
        }
        Some(found)
    }

    #[test]
    fn what_is_permitted_is_permitted_by_systemd_too() {
        let (Some(service), Some(privileged)) =
            (members("@system-service"), members("@privileged"))
        else {
            println!("passed over: there is no systemd-analyze");
            return;
        };
        for (name, _) in SERVICE.iter().chain(SERVICE_OLD) {
            assert!(service.contains(*name) && !privileged.contains(*name), "{name}");
        }
        let chown = members("@chown").unwrap();
        CHOWN.iter().for_each(|(name, _)| assert!(chown.contains(*name), "{name}"));
    }
}
