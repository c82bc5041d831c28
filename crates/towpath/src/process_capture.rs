//! What this process sends and receives where no interface shows it as it is, in a pcapng file: packets that cross rings
//! of shared memory, and ATM cells, which an interface shows as octets of datagrams.
//!
//! A process writes one file, `PID.pcapng`, into the folder that [`capture_into`] or the environment variable
//! [`VARIABLE`] names. Endpoints that are created from then on write to it.

use crate::xtp::environment_path;
use capture::{FileLimit, PcapngWriter};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable with the folder of the captures of a process.
pub const VARIABLE: &str = "TOWPATH_CAPTURE_RINGS";

/// Octets of a file at most: some 50,000 packets, or 130,000 cells. What follows is left out.
const FILE_MAX: u64 = 16 << 20;

/// Mode of a file, which holds keys of associations.
const MODE: u32 = 0o600;

/// The file of this process. Each block is written at once, so that a killed process leaves a whole file.
pub(crate) type Writer = Arc<Mutex<PcapngWriter<File>>>;

#[derive(Default)]
struct ProcessCapture {
    folder: Option<PathBuf>,
    writer: Option<Writer>,
}

static PROCESS_CAPTURE: Mutex<ProcessCapture> = Mutex::new(ProcessCapture {
    folder: None,
    writer: None,
});

/// Captures packets that go through rings, and ATM cells, of all endpoints created from now on, into a new file in
/// `folder`.
pub fn capture_into(folder: &Path) {
    let mut capture = locked(&PROCESS_CAPTURE);
    *capture = ProcessCapture {
        folder: Some(folder.to_owned()),
        writer: None,
    };
}

/// The file of this process, if there is to be one.
/// Errors: a file that cannot be written, or exists; the text names it.
pub(crate) fn writer() -> io::Result<Option<Writer>> {
    let mut capture = locked(&PROCESS_CAPTURE);
    let folder = match &capture.folder {
        Some(folder) => Some(folder.clone()),
        None => environment_path(VARIABLE),
    };
    let Some(folder) = folder else {
        return Ok(None);
    };
    let writer = match &capture.writer {
        Some(writer) => writer,
        None => capture.writer.insert(create(&folder)?),
    };
    Ok(Some(Arc::clone(writer)))
}

/// A new file: in a folder of everybody's another user may have put one there.
fn create(folder: &Path) -> io::Result<Writer> {
    let path = folder.join(format!("{}.pcapng", std::process::id()));
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(MODE);
    let limit = FileLimit {
        packets: None,
        octets: Some(FILE_MAX),
    };
    let comment = "packets that crossed rings of shared memory, and no interface; ATM cells";
    let written = file.open(&path);
    let written = written.and_then(|file| PcapngWriter::new(file, comment, limit));
    let writer = written.map_err(|error| {
        let text = format!("cannot write the capture {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })?;
    Ok(Arc::new(Mutex::new(writer)))
}

/// A writer is consistent between its calls, also after a panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds since 1970 began.
pub(crate) fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
