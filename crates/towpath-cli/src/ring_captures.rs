//! What crossed the rings of a race's workers, in the file of its capture.

use crate::args::RaceArgs;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder into which the workers of this race write what crosses their rings; None for a race without a capture or
/// without rings.
pub fn folder(args: &RaceArgs) -> Option<PathBuf> {
    let has_rings = args.transports.iter().any(|one| one.contains("shortcut="));
    let wanted = has_rings && args.environment.capture.is_some() && !args.leaves_host();
    wanted.then(|| std::env::temp_dir().join(format!("towpath-rings-{}", std::process::id())))
}

/// Captures of workers, in a folder that goes with them.
pub struct RingCaptures(PathBuf);

impl RingCaptures {
    /// Makes the folder, for this user only.
    ///
    /// # Errors
    ///
    /// What the system refuses; the folder must be new.
    pub fn create(folder: PathBuf) -> io::Result<RingCaptures> {
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(RingCaptures(folder))
    }

    /// Appends them to the capture `path`, in the order of their names: sections of pcapng may follow each other. Returns how
    /// many processes had rings.
    ///
    /// # Errors
    ///
    /// Those of the files.
    pub fn append_to(self, path: &Path) -> io::Result<usize> {
        let entries = fs::read_dir(&self.0)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
        paths.sort();
        let mut capture = File::options().append(true).open(path)?;
        for one in &paths {
            io::copy(&mut File::open(one)?, &mut capture)?;
        }
        Ok(paths.len())
    }
}

impl Drop for RingCaptures {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                crate::print::note(format!("{}: {error}", self.0.display()));
            }
            _ => {}
        }
    }
}
