//! Reading files of unknown origin: regular files only, with a limit on their length.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// O_NONBLOCK of Linux on all architectures but alpha, mips, parisc and sparc, on which towpath does
/// not run: opening a pipe returns without a writer.
const O_NONBLOCK: i32 = 0o4000;

/// Opens a regular file for reading. A pipe, a device or a folder is refused without waiting.
///
/// # Errors
///
/// When the system refuses, or with one sentence when it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)?;
    // The open file is asked, so that it cannot be exchanged in between.
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let what = match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "something else",
    };
    Err(refused(format!("it is {what}, not a regular file")))
}

/// Reads a regular file of UTF-8 text of at most `octets_max`.
/// Errors are those of [`open_regular`], and one sentence when it is longer or no text.
pub fn read_text(path: &Path, octets_max: u64) -> io::Result<String> {
    let file = open_regular(path)?;
    let mut octets = Vec::new();
    file.take(octets_max + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > octets_max {
        return Err(refused(format!("it is longer than {octets_max} octets")));
    }
    String::from_utf8(octets).map_err(|_| refused("it is not UTF-8 text".into()))
}

/// The lines of a file, each of limited length.
#[derive(Debug)]
pub struct BoundedLines<R> {
    reader: BufReader<R>,
    octets_max: usize,
    line: Vec<u8>,
}

impl<R: Read> BoundedLines<R> {
    /// Lines of at most `octets_max`, their ends included.
    pub fn new(source: R, octets_max: usize) -> BoundedLines<R> {
        BoundedLines {
            reader: BufReader::new(source),
            octets_max,
            line: Vec::new(),
        }
    }

    /// The next line with its end, which the last line may lack; None at the end of the file.
    ///
    /// # Errors
    ///
    /// When the system refuses, or with one sentence when the line is longer.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let limit = self.octets_max as u64 + 1;
        let mut limited = (&mut self.reader).take(limit);
        limited.read_until(b'\n', &mut self.line)?;
        if self.line.len() > self.octets_max {
            let why = format!("a line is longer than {} octets", self.octets_max);
            return Err(refused(why));
        }
        Ok((!self.line.is_empty()).then_some(self.line.as_slice()))
    }
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_regular_device_or_folder_is_refused() {
        let refusal = |path| {
            open_regular(Path::new(path))
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(refusal("/dev/zero"), "it is a device, not a regular file");
        assert_eq!(refusal("/"), "it is a folder, not a regular file");
        let missing = open_regular(Path::new("/nonexistent")).expect_err("missing");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn next_line_longer_than_limit_is_refused() {
        let mut lines = BoundedLines::new(&b"1234\n12345\n"[..], 5);
        assert_eq!(lines.next_line().expect("it fits"), Some(&b"1234\n"[..]));
        let why = lines.next_line().expect_err("too long").to_string();
        assert_eq!(why, "a line is longer than 5 octets");
        let mut endless = BoundedLines::new(io::repeat(0), 1000);
        assert!(endless.next_line().is_err());
    }

    #[test]
    fn next_line_last_without_end_is_given() {
        let mut lines = BoundedLines::new(&b"a\nb"[..], 5);
        assert_eq!(lines.next_line().expect("a line"), Some(&b"a\n"[..]));
        assert_eq!(lines.next_line().expect("a line"), Some(&b"b"[..]));
        assert_eq!(lines.next_line().expect("the end"), None);
    }
}
