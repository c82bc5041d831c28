//! The key of contestants that a study seals: drawn for each run, and gone with it, since a study has no secrets.

use rustix::rand::GetRandomFlags;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The option of such contestants. Its file has a name of its own in the study's folder.
const OPTION: &str = "seal-key=drawn.key";

/// The file in the study's folder, in which its runs work.
const FILE: &str = "drawn.key";

/// Octets of a key.
const KEY_LEN: usize = 32;

/// A key's file, which is removed with it.
#[derive(Debug)]
pub struct DrawnKey(PathBuf);

impl Drop for DrawnKey {
    fn drop(&mut self) {
        // A file that is gone already needs no removal.
        let _ = fs::remove_file(&self.0);
    }
}

/// Draws a key into `folder` for words that ask for one; None for all others.
///
/// # Errors
///
/// The system gives no random octets, or the file cannot be written.
pub fn draw_for(words: &[String], folder: &Path) -> io::Result<Option<DrawnKey>> {
    let asks = words.iter().any(|word| asks(word));
    asks.then(|| draw(folder.join(FILE))).transpose()
}

/// Words as a command may read them where no run has begun: with a key that lasts as long as the answer.
/// Errors are those of [`draw_for`].
pub fn readable(words: &[String]) -> io::Result<(Vec<String>, Option<DrawnKey>)> {
    if !words.iter().any(|word| asks(word)) {
        return Ok((words.to_vec(), None));
    }
    // Nobody can have made a file of that name before.
    let name: String = random::<8>()?
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    let path = std::env::temp_dir().join(format!("towpath-{name}.key"));
    let key = draw(path.clone())?;
    let option = format!("seal-key={}", path.display());
    let words = words.iter().map(|word| with_option(word, &option));
    Ok((words.collect(), Some(key)))
}

/// Whether one of a contestant's options asks for a drawn key.
fn asks(word: &str) -> bool {
    word.split([',', '+']).any(|part| part == OPTION)
}

fn with_option(word: &str, option: &str) -> String {
    match asks(word) {
        true => word.replace(OPTION, option),
        false => word.to_owned(),
    }
}

/// Draws a key into a file that its owner alone may read. What had that name is removed, not followed.
fn draw(path: PathBuf) -> io::Result<DrawnKey> {
    let key = random::<KEY_LEN>()?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let drawn = DrawnKey(path);
    (&file).write_all(&key)?;
    Ok(drawn)
}

fn random<const LEN: usize>() -> io::Result<[u8; LEN]> {
    let mut octets = [0; LEN];
    // As short a request is answered whole (getrandom(2)).
    rustix::rand::getrandom(&mut octets, GetRandomFlags::empty())?;
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn words(text: &str) -> Vec<String> {
        vec!["race".to_owned(), text.to_owned()]
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("towpath-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("room");
        folder
    }

    /// The key of a run in `folder`, which ends here.
    fn key(folder: &Path) -> Vec<u8> {
        let drawn = draw_for(&words("tcp,push=seal,seal-key=drawn.key"), folder).expect("room");
        assert!(drawn.is_some());
        let file = folder.join("drawn.key");
        let mode = fs::metadata(&file)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::read(file).expect("it is there")
    }

    #[test]
    fn key_is_drawn_for_sealed_contestants_alone_and_removed() {
        let folder = folder("drawn-key");
        for own in [
            "tcp,push=seal,seal-key=mine",
            "tcp,push=seal,seal-key=drawn.key.mine",
        ] {
            assert!(
                draw_for(&words(own), &folder).expect("room").is_none(),
                "{own}"
            );
        }
        let (first, second) = (key(&folder), key(&folder));
        assert!(first.len() == KEY_LEN && first != second);
        fs::remove_dir(&folder).expect("it is empty");
    }

    #[test]
    fn what_has_the_name_of_the_key_is_not_written_through() {
        let folder = folder("drawn-link");
        let other = folder.join("other");
        fs::write(&other, "kept").expect("room");
        std::os::unix::fs::symlink(&other, folder.join(FILE)).expect("room");
        assert_eq!(key(&folder).len(), KEY_LEN);
        assert_eq!(fs::read(&other).expect("it is there"), b"kept");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn words_that_are_read_before_a_run_name_a_key_that_is_there_until_then() {
        let (plain, none) = readable(&words("tcp,push=seal,seal-key=mine")).expect("room");
        assert!(none.is_none() && plain == words("tcp,push=seal,seal-key=mine"));
        let asked = words("tcp,push=seal,seal-key=drawn.key+xtp,push=seal,seal-key=drawn.key");
        let (sealed, key) = readable(&asked).expect("room");
        let labels = sealed[1].split('+');
        for label in labels {
            assert!(loadgen::contestant::parse(label).is_ok(), "{label}");
        }
        drop(key);
        assert!(
            loadgen::contestant::parse(&sealed[1]).is_err(),
            "its key is gone"
        );
    }
}
