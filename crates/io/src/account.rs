//! Files of an account, handled by a process that still runs as root.
//!
//! The directories of a service belong to its account, which may replace any file in them by a
//! link. A process of root would follow the link, and could read, write or give away a file of the
//! system. With the rights of the account, it reaches nothing that the account does not reach.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{self, Component, Path, PathBuf};
use std::{io, panic, thread};

use crate::process::{find_group, find_user, is_root};
use crate::syscall::check_len;

#[cfg(any(target_arch = "arm", target_arch = "x86"))]
const SETGROUPS: libc::c_long = libc::SYS_setgroups32;
#[cfg(not(any(target_arch = "arm", target_arch = "x86")))]
const SETGROUPS: libc::c_long = libc::SYS_setgroups;

/// The mode of a directory that the owner may use, and others may enter and list.
const OPEN: u32 = 0o755;
/// The mode of a directory that only its owner may use.
const PRIVATE: u32 = 0o700;
/// The bits of a mode that let the group or others write.
const WRITABLE_FOR_OTHERS: u32 = 0o022;
/// The bit of a mode that keeps others from renaming entries of a directory.
const STICKY: u32 = 0o1000;

/// An account that owns files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    uid: libc::uid_t,
    gid: libc::gid_t,
    /// All groups of the account that count.
    groups: Vec<libc::gid_t>,
}

impl Account {
    /// Returns the account of a user, as a member of its primary group.
    ///
    /// # Errors
    /// There is no such user.
    pub fn find(user: &str) -> io::Result<Self> {
        let (uid, gid) = find_user(user)?;
        Ok(Self { uid, gid, groups: vec![gid] })
    }

    /// Makes the account a member of a group.
    ///
    /// # Errors
    /// There is no such group.
    pub fn in_group(mut self, group: &str) -> io::Result<Self> {
        self.groups.push(find_group(group)?);
        Ok(self)
    }

    /// Returns the account that owns a file or directory.
    ///
    /// # Errors
    /// The path does not exist, or cannot be reached.
    pub fn owner_of(path: &Path) -> io::Result<Self> {
        let facts = fs::metadata(path)?;
        Ok(Self { uid: facts.uid(), gid: facts.gid(), groups: vec![facts.gid()] })
    }

    /// Returns the account of this process.
    #[must_use]
    pub fn of_process() -> Self {
        // SAFETY: the calls take no pointer and always succeed.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self { uid, gid, groups: vec![gid] }
    }

    /// Runs `work` with the rights of the account for files. A process that does not run as root
    /// has no other rights, and runs it with its own.
    ///
    /// # Errors
    /// The process may not act for other accounts, or cannot start a thread.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if !is_root() || self.uid == 0 {
            return Ok(work());
        }
        // The rights are those of a thread, which ends afterwards.
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, || {
                self.take_rights()?;
                Ok(work())
            })?;
            thread.join().unwrap_or_else(|fault| panic::resume_unwind(fault))
        })
    }

    /// Gives the calling thread the rights of the account for files, until the thread ends.
    fn take_rights(&self) -> io::Result<()> {
        const UNCHANGED: u32 = u32::MAX;
        // The C library would change the groups of all threads.
        // SAFETY: the count is the number of group IDs at the pointer, which outlive the call.
        let set = unsafe { libc::syscall(SETGROUPS, self.groups.len(), self.groups.as_ptr()) };
        check_len(set as libc::ssize_t)?;
        // SAFETY: the calls take no pointer. They return the previous ID, also if they fail. The
        // last change takes the capabilities of root for files, too.
        let now = unsafe {
            libc::setfsgid(self.gid);
            libc::setfsuid(self.uid);
            (libc::setfsgid(UNCHANGED), libc::setfsuid(UNCHANGED))
        };
        if now == (self.gid as libc::c_int, self.uid as libc::c_int) {
            return Ok(());
        }
        Err(io::Error::other("the process may not act for the account that owns the files"))
    }

    /// Creates a private directory of the account, and the directories above it that are missing.
    /// Root creates what the account may not create, in directories that only root may change.
    ///
    /// # Errors
    /// A directory cannot be created or given away.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        let as_account = self.run(|| {
            create_parent(path)?;
            DirBuilder::new().mode(PRIVATE).create(path)
        })?;
        match as_account {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_root() => {}
            done => return done,
        }
        let path = in_directories_of_root(path)?;
        create_parent(&path)?;
        DirBuilder::new().mode(PRIVATE).create(&path)?;
        let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
        let created: File = OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
        fchown(&created, Some(self.uid), Some(self.gid))
    }
}

/// Returns a path that leads to the same place without links. Only root may change the directories
/// of the path that exist, so that nobody else decides where the path leads.
///
/// # Errors
/// Another account may change one of the directories.
fn in_directories_of_root(path: &Path) -> io::Result<PathBuf> {
    let path = path::absolute(path)?;
    let written = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
    let written = written.unwrap_or(Path::new("/"));
    let missing = path.strip_prefix(written).map_err(io::Error::other)?;
    let there = fs::canonicalize(written)?;
    let is_direct = missing.components().all(|part| matches!(part, Component::Normal(_)));
    // The directories with the links count as well as those to which they lead.
    for above in written.ancestors().chain(there.ancestors()) {
        let facts = fs::metadata(above)?;
        // In a directory with the sticky bit, only the owner may rename an entry.
        let is_closed = facts.mode() & WRITABLE_FOR_OTHERS == 0 || facts.mode() & STICKY != 0;
        if !is_direct || facts.uid() != 0 || !is_closed {
            let text = format!("root creates nothing below {}", above.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    Ok(there.join(missing))
}

fn create_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => DirBuilder::new().recursive(true).mode(OPEN).create(parent),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn root_reaches_only_what_the_account_reaches_and_only_meanwhile() {
        if !is_root() {
            assert!(std::env::var_os("CI").is_none(), "only root can act for accounts");
            return;
        }
        let directory = std::env::temp_dir().join(format!("avocet-account-{}", std::process::id()));
        let (secret, theirs) = (directory.join("secret"), directory.join("theirs"));
        fs::create_dir_all(&theirs).unwrap();
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&secret, theirs.join("link")).unwrap();
        let nobody = Account::find("nobody").unwrap();
        chown(&theirs, Some(nobody.uid), Some(nobody.gid)).unwrap();
        assert_eq!(Account::owner_of(&theirs).unwrap(), nobody);
        let read = nobody.run(|| fs::read_to_string(theirs.join("link"))).unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let file = theirs.join("file");
        nobody.run(|| fs::write(&file, "")).unwrap().unwrap();
        assert_eq!(Account::owner_of(&file).unwrap(), nobody);
        assert!(nobody.run(|| fs::write(directory.join("file"), "")).unwrap().is_err());
        for parent in [&theirs, &directory] {
            let new = parent.join("a/b");
            nobody.create_directory(&new).unwrap();
            assert_eq!(Account::owner_of(&new).unwrap(), nobody);
            assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, PRIVATE);
        }
        // A link of the account does not decide where root creates a directory.
        let ours = directory.join("ours");
        fs::create_dir(&ours).unwrap();
        symlink(&ours, theirs.join("way")).unwrap();
        for path in ["way/data", "way/new/data"] {
            let created = nobody.create_directory(&theirs.join(path));
            assert_eq!(created.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(theirs.join("link")).unwrap(), "secret");
        fs::remove_dir_all(&directory).unwrap();
    }
}
