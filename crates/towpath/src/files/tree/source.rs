//! The tree that is sent: its entries, and the files in it.

use super::confined::ConfinedFolder;
use super::frames::Attributes;
use super::path::TreePath;
use rustix::fs::{Dir, FileType, Stat};
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::OwnedFd;

/// An entry of a tree.
#[derive(Debug)]
pub(super) enum Entry {
    File {
        path: TreePath,
        attributes: Attributes,
        size: u64,
    },
    Folder {
        path: TreePath,
    },
    Link {
        path: TreePath,
        target: Vec<u8>,
    },
    /// What is not sent, and why.
    LeftOut {
        path: TreePath,
        reason: String,
    },
}

/// A file, or a folder with all that is in it.
pub(super) struct Source {
    top: Top,
    /// Where files are read, while the walk is ahead.
    files: Option<ConfinedFolder>,
}

enum Top {
    /// One file; None once its entry was given.
    File(File, Option<Stat>),
    Folder(Walk),
}

/// A walk through a folder: a folder's files and links, then its folders.
struct Walk {
    folder: ConfinedFolder,
    /// Folders to come, the next one last.
    pending: Vec<TreePath>,
    /// The folder whose names are given, and those to come, the next one last.
    current: TreePath,
    names: Vec<Vec<u8>>,
    /// Folders in the order in which they were met: parents before children.
    ends: Vec<(TreePath, Attributes)>,
}

impl Source {
    /// The tree at an open descriptor of a file or folder.
    /// Fails with `InvalidInput` for anything else, and for a folder unless `recursive`.
    pub(super) fn new(top: OwnedFd, recursive: bool) -> io::Result<Source> {
        let about = rustix::fs::fstat(&top)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => Ok(Source {
                top: Top::File(top.into(), Some(about)),
                files: None,
            }),
            FileType::Directory if recursive => {
                let folder = ConfinedFolder::new(top);
                Ok(Source {
                    files: Some(folder.again()?),
                    top: Top::Folder(Walk {
                        folder,
                        pending: vec![TreePath::default()],
                        current: TreePath::default(),
                        names: Vec::new(),
                        ends: Vec::new(),
                    }),
                })
            }
            FileType::Directory => Err(invalid_input("it is a folder; add -r")),
            _ => Err(invalid_input("it is neither a file nor a folder")),
        }
    }

    /// The next entry; None after the last one.
    pub(super) fn next_entry(&mut self) -> Option<Entry> {
        match &mut self.top {
            Top::File(_, about) => about
                .take()
                .map(|about| file_entry(TreePath::default(), &about)),
            Top::Folder(walk) => walk.next_entry(),
        }
    }

    /// Once the entries are over: the next folder whose attributes are final, children before parents.
    pub(super) fn next_folder_end(&mut self) -> Option<(TreePath, Attributes)> {
        match &mut self.top {
            Top::File(..) => None,
            Top::Folder(walk) => walk.ends.pop(),
        }
    }

    /// Opens a file of the tree at its beginning. Errors: the system's; `InvalidInput` when it is no file any more.
    pub(super) fn open_file(&mut self, path: &TreePath) -> io::Result<File> {
        match (&mut self.files, &mut self.top) {
            (Some(files), _) => files.open_file(path),
            (None, Top::File(file, _)) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Ok(file)
            }
            (None, Top::Folder(_)) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Walk {
    fn next_entry(&mut self) -> Option<Entry> {
        loop {
            if let Some(name) = self.names.pop() {
                match self.entry_of(&name) {
                    Some(entry) => return Some(entry),
                    None => continue,
                }
            }
            let path = self.pending.pop()?;
            return Some(match self.enter(&path) {
                Ok(()) => Entry::Folder { path },
                Err(error) => left_out(path, &error.to_string()),
            });
        }
    }

    /// Reads the names in a folder.
    fn enter(&mut self, path: &TreePath) -> io::Result<()> {
        let folder = self.folder.open_folder(path)?;
        let attributes = attributes_of(&rustix::fs::fstat(&folder)?);
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.names = names;
        self.current = path.clone();
        self.ends.push((path.clone(), attributes));
        Ok(())
    }

    /// The entry of a name in the current folder; None for a folder, whose turn comes later.
    fn entry_of(&mut self, name: &[u8]) -> Option<Entry> {
        let Some(path) = self.current.child(name) else {
            let reason = "something in it has too long a path; make an archive of it";
            return Some(left_out(self.current.clone(), reason));
        };
        let about = match self.folder.stat(&path) {
            Ok(about) => about,
            Err(error) => return Some(left_out(path, &error.to_string())),
        };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => Some(file_entry(path, &about)),
            FileType::Directory => {
                self.pending.push(path);
                None
            }
            FileType::Symlink => Some(self.link_entry(path)),
            _ => Some(left_out(path, "it is neither a file, a folder nor a link")),
        }
    }

    fn link_entry(&mut self, path: TreePath) -> Entry {
        let read = self.folder.parent(&path).and_then(|(parent, name)| {
            Ok(rustix::fs::readlinkat(parent, name, Vec::new())?.into_bytes())
        });
        match read {
            Ok(target) if path.may_lead_to(&target) => Entry::Link { path, target },
            Ok(_) => left_out(path, LINK_REASON),
            Err(error) => left_out(path, &error.to_string()),
        }
    }
}

/// Why a link is not sent or taken.
pub(super) const LINK_REASON: &str =
    "a link that may lead out of the tree; copy what it leads to by itself";

fn left_out(path: TreePath, reason: &str) -> Entry {
    Entry::LeftOut {
        path,
        reason: reason.to_owned(),
    }
}

fn file_entry(path: TreePath, about: &Stat) -> Entry {
    Entry::File {
        path,
        attributes: attributes_of(about),
        size: u64::try_from(about.st_size).unwrap_or_default(),
    }
}

fn attributes_of(about: &Stat) -> Attributes {
    Attributes {
        mode: (about.st_mode & 0o777) as u16,
        mtime_s: about.st_mtime,
        mtime_ns: (about.st_mtime_nsec as u32).min(999_999_999),
    }
}

fn invalid_input(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
