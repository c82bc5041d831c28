//! Reads files of /proc and /sys, any of which may be missing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Most bytes read of a file. The longest is /proc/cpuinfo: about 2 KiB for each of up to 1,024
/// processors.
const FILE_MAX: u64 = 4 << 20;

/// The tree the kernel's files are read from: the real one, or a copy of it in a test.
#[derive(Clone, Debug)]
pub(crate) struct KernelFiles {
    root: PathBuf,
}

impl KernelFiles {
    /// The tree of the running system.
    pub(crate) fn system() -> KernelFiles {
        KernelFiles::below(Path::new("/"))
    }

    /// The tree below `root`.
    pub(crate) fn below(root: &Path) -> KernelFiles {
        KernelFiles {
            root: root.to_owned(),
        }
    }

    /// Whether this is the tree of the running system.
    pub(crate) fn is_system(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The content of a file; None when it cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let file = File::open(self.root.join(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file of one line, trimmed; None when it is empty.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// A file of one number.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// A file of numbers in one line.
    pub(crate) fn numbers(&self, path: &str) -> Option<Vec<u64>> {
        let line = self.line(path)?;
        let numbers = line.split_whitespace().map(|word| word.parse().ok());
        numbers.collect()
    }

    /// Whether a file or folder exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The names in a folder, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(path)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}
