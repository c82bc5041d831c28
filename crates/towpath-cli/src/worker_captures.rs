//! What a race's workers sent through rings of shared memory, and as cells, in the file of its capture.

use crate::args::RaceArgs;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What workers capture themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rings,
    Cells,
    Both,
}

impl Kind {
    /// None for a race without either.
    fn of(transports: &[String]) -> Option<Kind> {
        let has_rings = transports.iter().any(|one| one.contains("shortcut="));
        let has_cells = transports.iter().any(|one| {
            let mut words = one.split(['+', ',']);
            words.any(|word| {
                word.starts_with("cells=") || ["aal34", "aal5", "vmtp-aal34"].contains(&word)
            })
        });
        match (has_rings, has_cells) {
            (true, true) => Some(Kind::Both),
            (true, false) => Some(Kind::Rings),
            (false, true) => Some(Kind::Cells),
            (false, false) => None,
        }
    }
}

/// The folder into which the workers of this race write what crosses their rings, and their cells; None for a race without
/// a capture or without either.
pub fn folder(args: &RaceArgs) -> Option<PathBuf> {
    Kind::of(&args.transports)?;
    let wanted = args.environment.capture.is_some() && !args.leaves_host();
    wanted.then(|| std::env::temp_dir().join(format!("towpath-capture-{}", std::process::id())))
}

/// Captures of workers, in a folder that goes with them.
pub struct WorkerCaptures {
    folder: PathBuf,
    kind: Kind,
}

impl WorkerCaptures {
    /// Makes the folder of `args`, for this user only; None for a race that needs none.
    ///
    /// # Errors
    ///
    /// What the system refuses; the folder must be new.
    pub fn create(args: &RaceArgs) -> io::Result<Option<WorkerCaptures>> {
        let (Some(folder), Some(kind)) = (folder(args), Kind::of(&args.transports)) else {
            return Ok(None);
        };
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Some(WorkerCaptures { folder, kind }))
    }

    /// Appends them to the capture `path`, in the order of their names: sections of pcapng may follow each other. Says what
    /// they are.
    ///
    /// # Errors
    ///
    /// Those of the files.
    pub fn append_to(self, path: &Path) -> io::Result<String> {
        let entries = fs::read_dir(&self.folder)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
        paths.sort();
        let mut capture = File::options().append(true).open(path)?;
        for one in &paths {
            io::copy(&mut File::open(one)?, &mut capture)?;
        }
        let what = match self.kind {
            Kind::Rings => "those through rings",
            Kind::Cells => "the cells",
            Kind::Both => "those through rings and the cells",
        };
        Ok(format!("then {what} of {} processes", paths.len()))
    }
}

impl Drop for WorkerCaptures {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                crate::print::note(format!("{}: {error}", self.folder.display()));
            }
            _ => {}
        }
    }
}
