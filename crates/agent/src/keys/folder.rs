//! The key folder: permissions checked on reading, files replaced atomically.

use super::owned_file::{check_owner, io_at, read};
use super::{Identity, KeyError, PRIVATE_KEY_PREFIX, PublicKey, TrustedKey, decode_hex};
use crate::server::privilege::with_owner_rights;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Octets of a key file at most: a thousand lines.
pub(super) const FILE_MAX: u64 = 128 << 10;

/// Characters of a name at most.
const NAME_MAX: usize = 255;

/// The key folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFolder(PathBuf);

impl KeyFolder {
    /// The folder at `path`.
    pub fn at(path: impl Into<PathBuf>) -> KeyFolder {
        KeyFolder(path.into())
    }

    /// The default: `TOWPATH_KEYS`, else `towpath` in `XDG_CONFIG_HOME` or in `~/.config`.
    ///
    /// # Errors
    ///
    /// [`KeyError::NoHome`] when none of them is set: the current folder is no place for keys.
    pub fn default_location() -> Result<KeyFolder, KeyError> {
        KeyFolder::location_from(|name| std::env::var_os(name))
    }

    fn location_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<KeyFolder, KeyError> {
        let folder = |name: &str| {
            let path = variable(name).filter(|path| !path.is_empty());
            path.map(PathBuf::from)
        };
        if let Some(path) = folder("TOWPATH_KEYS") {
            return Ok(KeyFolder(path));
        }
        let home = || folder("HOME").map(|home| home.join(".config"));
        let config = folder("XDG_CONFIG_HOME").or_else(home);
        config
            .map(|config| KeyFolder(config.join("towpath")))
            .ok_or(KeyError::NoHome)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the user's key.
    ///
    /// # Errors
    ///
    /// [`KeyError::Exists`], or a system error.
    pub fn create(&self) -> Result<Identity, KeyError> {
        let identity = Identity::generate()?;
        let text: String = identity
            .pkcs8
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        let path = self.file("key");
        let _alone = self.lock_exclusive()?;
        if fs::symlink_metadata(&path).is_ok() {
            return Err(KeyError::Exists(path));
        }
        self.replace(&path, &format!("{PRIVATE_KEY_PREFIX}{text}\n"))?;
        Ok(identity)
    }

    /// Reads the user's key.
    ///
    /// # Errors
    ///
    /// [`KeyError::Missing`], [`KeyError::InsecureFile`], or another [`KeyError`].
    pub fn identity(&self) -> Result<Identity, KeyError> {
        let path = self.file("key");
        let text = self
            .read("key")?
            .ok_or_else(|| KeyError::Missing(self.0.clone()))?;
        let octets = text
            .trim()
            .strip_prefix(PRIVATE_KEY_PREFIX)
            .and_then(decode_hex);
        let odd = || KeyError::Malformed(format!("{} holds no key of towpath's", path.display()));
        Identity::from_pkcs8(octets.ok_or_else(odd)?).map_err(|_| odd())
    }

    /// Reads the trusted keys; none if the file does not exist.
    ///
    /// # Errors
    ///
    /// [`KeyError::InsecureFile`], or a malformed line.
    pub fn trusted(&self) -> Result<Vec<TrustedKey>, KeyError> {
        let path = self.file("trusted");
        let text = self.read("trusted")?.unwrap_or_default();
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| parse_trusted_line(line, &path)).collect()
    }

    /// Trusts `key` under `name`. False if it was already trusted under this name.
    ///
    /// # Errors
    ///
    /// A name with blanks, an error of [`KeyFolder::trusted`], or a system error.
    pub fn trust(&self, key: PublicKey, name: &str) -> Result<bool, KeyError> {
        check_name(name)?;
        let wanted = TrustedKey {
            name: name.to_owned(),
            key,
        };
        let _alone = self.lock_exclusive()?;
        if self.trusted()?.contains(&wanted) {
            return Ok(false);
        }
        let path = self.file("trusted");
        let mut text = self.read("trusted")?.unwrap_or_default();
        // The last line may lack its newline.
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &format!("{name} {key}\n");
        if text.len() as u64 > FILE_MAX {
            return Err(KeyError::TooLong(path));
        }
        // Replace the target of a symbolic link, not the link.
        let path = fs::canonicalize(&path).unwrap_or(path);
        self.replace(&path, &text)?;
        Ok(true)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn create_folder(&self) -> Result<(), KeyError> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0);
        made.map_err(io_at(&self.0))
    }

    /// Creates the folder if missing and locks it against other writers until the result is
    /// dropped.
    fn lock_exclusive(&self) -> Result<File, KeyError> {
        self.create_folder()?;
        let folder = File::open(&self.0).map_err(io_at(&self.0))?;
        // Without folder locks on this file system, concurrent writers may lose a line.
        let _ = folder.lock();
        Ok(folder)
    }

    /// Replaces a file atomically, with mode 600.
    fn replace(&self, path: &Path, text: &str) -> Result<(), KeyError> {
        let new = path.with_added_extension("new");
        // Left over from an interrupted run.
        let _ = fs::remove_file(&new);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&new, path));
        written.map_err(|error| {
            let _ = fs::remove_file(&new);
            io_at(path)(error)
        })?;
        // Makes the rename durable; some file systems cannot.
        let _ = path.parent().map(|folder| File::open(folder)?.sync_all());
        Ok(())
    }

    /// Reads a file that only its owner may access; None if missing.
    fn read(&self, name: &str) -> Result<Option<String>, KeyError> {
        with_owner_rights(|| {
            let text = read(&self.file(name))?;
            if text.is_some() {
                self.check_permissions()?;
            }
            Ok(text)
        })
    }

    /// Refuses a folder that others own or can write to.
    fn check_permissions(&self) -> Result<(), KeyError> {
        let about = fs::metadata(&self.0).map_err(io_at(&self.0))?;
        check_owner(&self.0, &about)?;
        let mode = about.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(KeyError::InsecureFolder {
                path: self.0.clone(),
                mode,
            });
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let fine = |c: char| !c.is_control() && !c.is_whitespace();
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('#') || !name.chars().all(fine)
    {
        return Err(KeyError::Malformed(
            "a name is one word without spaces, such as the host's".into(),
        ));
    }
    Ok(())
}

fn parse_trusted_line(line: &str, path: &Path) -> Result<TrustedKey, KeyError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, key] = words[..] else {
        return Err(KeyError::Malformed(format!(
            "{}: a line has a name and a key, not '{}'",
            path.display(),
            control::validate::printable(line, 60)
        )));
    };
    let key = key
        .parse()
        .map_err(|error| KeyError::Malformed(format!("{}: {error}", path.display())))?;
    Ok(TrustedKey {
        name: name.to_owned(),
        key,
    })
}

/// Sets a file's mode, for tests.
#[cfg(test)]
fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its own file");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn folder(name: &str) -> KeyFolder {
        let path = std::env::temp_dir().join(format!("towpath-keys-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        KeyFolder::at(path)
    }

    #[test]
    fn location_without_home_is_refused() {
        let location = |set: &'static [(&str, &str)]| {
            KeyFolder::location_from(move |name| {
                let found = set.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).into())
            })
        };
        let path = |set| location(set).map(|folder| folder.path().to_owned());
        let is = |set, wanted: &str| assert_eq!(path(set).expect("a folder"), Path::new(wanted));
        is(&[("HOME", "/home/u")], "/home/u/.config/towpath");
        is(
            &[("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/c")],
            "/c/towpath",
        );
        is(&[("TOWPATH_KEYS", "/keys")], "/keys");
        for none in [
            &[][..],
            &[("HOME", "")],
            &[("HOME", ""), ("TOWPATH_KEYS", "")],
        ] {
            let why = location(none).expect_err("no place for keys").to_string();
            assert!(
                why.contains("set HOME") && why.contains("TOWPATH_KEYS"),
                "{why}"
            );
        }
    }

    #[test]
    fn file_or_folder_of_another_owner_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can give files away");
            return;
        }
        let keys = folder("owner");
        keys.create().expect("a key");
        for path in [keys.file("key"), keys.path().to_owned()] {
            std::os::unix::fs::chown(&path, Some(1), None).expect("it is given away");
            let refused = keys.identity();
            let is_refused = matches!(&refused, Err(KeyError::OtherOwner { owner: 1, .. }));
            assert!(is_refused, "{refused:?}");
            std::os::unix::fs::chown(&path, Some(0), None).expect("it is taken back");
            keys.identity().expect("it is root's again");
        }
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }

    #[test]
    fn private_key_created_once_with_mode_600() {
        let keys = folder("own");
        assert!(matches!(keys.identity(), Err(KeyError::Missing(_))));
        let made = keys.create().expect("a key");
        assert_eq!(
            keys.identity().expect("the same").public_key(),
            made.public_key()
        );
        assert!(matches!(keys.create(), Err(KeyError::Exists(_))));
        let path = keys.file("key");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for loose in [0o640, 0o604, 0o660, 0o777] {
            chmod(&path, loose);
            let error = keys.identity().expect_err("others may read it");
            assert!(
                matches!(error, KeyError::InsecureFile { mode, .. } if mode == loose),
                "{error}"
            );
        }
        chmod(&path, 0o600);
        fs::write(&path, "towpath private key 1: 00ff").expect("it is written");
        assert!(matches!(keys.identity(), Err(KeyError::Malformed(_))));
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }

    #[test]
    fn trusted_keys_listed_one_per_line() {
        let keys = folder("trust");
        assert_eq!(keys.trusted().expect("an empty list"), []);
        let one = Identity::generate().expect("a key").public_key();
        assert!(keys.trust(one, "lab").expect("it is noted"));
        assert!(!keys.trust(one, "lab").expect("it is there"));
        assert!(keys.trust(one, "two words").is_err());
        assert_eq!(keys.trusted().expect("a list")[0].key, one);
        let path = keys.file("trusted");
        fs::write(&path, "# us\nlab towpath-key-12\n").expect("it is written");
        let why = keys.trusted().expect_err("no key").to_string();
        assert!(why.contains("towpath-key-12"), "{why}");
        chmod(&path, 0o644);
        assert!(matches!(keys.trusted(), Err(KeyError::InsecureFile { .. })));
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }

    #[test]
    fn trust_appends_after_missing_final_newline() {
        let keys = folder("open");
        let [one, two] = [0; 2].map(|_| Identity::generate().expect("a key").public_key());
        assert!(keys.trust(one, "lab").expect("it is noted"));
        let path = keys.file("trusted");
        let text = fs::read_to_string(&path).expect("a list");
        fs::write(&path, text.trim_end()).expect("it is written");
        assert!(keys.trust(two, "lab2").expect("it is noted"));
        let all: Vec<PublicKey> = keys
            .trusted()
            .expect("a list")
            .iter()
            .map(|t| t.key)
            .collect();
        assert_eq!(all, [one, two]);
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&path), mode(keys.path())), (0o600, 0o700));
        // A temporary file of an interrupted run is no obstacle.
        fs::write(path.with_added_extension("new"), "half a l").expect("it is written");
        assert!(keys.trust(one, "lab3").expect("it is noted"));
        assert_eq!(keys.trusted().expect("a list").len(), 3);
        assert_eq!(fs::read_dir(keys.path()).expect("a folder").count(), 1);
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }

    #[test]
    fn oversized_trusted_file_rejected() {
        let keys = folder("long");
        let key = Identity::generate().expect("a key").public_key();
        assert!(keys.trust(key, "lab").expect("it is noted"));
        let path = keys.file("trusted");
        let line = fs::read_to_string(&path).expect("a list");
        let most = FILE_MAX as usize / line.len();
        let fill = |len: usize| {
            let comment = "#".repeat(len - most * line.len());
            fs::write(&path, line.repeat(most) + &comment).expect("it is written");
        };
        fill(FILE_MAX as usize);
        assert_eq!(keys.trusted().expect("just not too long").len(), most);
        let other = keys.trust(key, "other");
        assert!(matches!(other, Err(KeyError::TooLong(_))), "{other:?}");
        assert_eq!(keys.trusted().expect("as it was").len(), most);
        fill(FILE_MAX as usize + 1);
        let why = keys.trusted().expect_err("too long").to_string();
        assert!(
            why.contains("longer than 131072 bytes; remove lines"),
            "{why}"
        );
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }

    #[test]
    fn concurrent_trust_keeps_every_key() {
        let keys = folder("many");
        let key = Identity::generate().expect("a key").public_key();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let keys = &keys;
                scope.spawn(move || keys.trust(key, &format!("host{number}")).expect("noted"));
            }
        });
        assert_eq!(keys.trusted().expect("a list").len(), 8);
        let made: Vec<bool> = std::thread::scope(|scope| {
            let all = [0; 4].map(|_| scope.spawn(|| keys.create().is_ok()));
            all.map(|one| one.join().expect("no panic")).into()
        });
        assert_eq!(made.iter().filter(|made| **made).count(), 1);
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }

    #[test]
    fn writable_folder_and_non_file_rejected() {
        let keys = folder("folder");
        let key = keys.create().expect("a key").public_key();
        for loose in [0o770, 0o702, 0o777] {
            chmod(keys.path(), loose);
            let found = keys.identity();
            assert!(matches!(found, Err(KeyError::InsecureFolder { mode, .. }) if mode == loose));
        }
        // Read access to the folder shows names only.
        chmod(keys.path(), 0o755);
        assert_eq!(keys.identity().expect("the key").public_key(), key);
        let path = keys.file("trusted");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        let why = keys.trusted().expect_err("a pipe").to_string();
        assert!(why.contains("is no file"), "{why}");
        fs::remove_dir_all(keys.path()).expect("it is removed");
    }
}
