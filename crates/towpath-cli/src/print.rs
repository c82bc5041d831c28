//! Output. Results go to standard output, everything else to standard error.
//!
//! A closed pipe (`towpath show DIR | head`) is no error: the command goes on and writes its files
//! completely. A full disk is an error.

use crate::CliError;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// A line on standard output.
///
/// # Errors
///
/// When it cannot be written, unless the reader closed the pipe.
pub fn line(text: impl Display) -> Result<(), CliError> {
    check_written(writeln!(anstream::stdout(), "{text}"))
}

/// Bytes on standard output, as they are. Errors are those of [`line()`].
pub fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout();
    check_written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// A value as JSON on standard output. Errors are those of [`line()`].
pub fn json(value: &impl serde::Serialize) -> Result<(), CliError> {
    line(serde_json::to_string_pretty(value).map_err(CliError::failed)?)
}

/// A line on standard error; a write error is ignored.
pub fn note(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

fn check_written(written: std::io::Result<()>) -> Result<(), CliError> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError::failed(format!(
            "cannot write to standard output: {error}; send it elsewhere"
        ))),
        _ => Ok(()),
    }
}

/// Breaks `text` at spaces into lines that end before column `width`. The first line starts at
/// column `start`; the others are indented by `indent` spaces.
pub fn wrap(text: &str, width: usize, start: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut used = start;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let first = wrapped.is_empty();
        if !first && used + 1 + length > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            used = indent;
        } else if !first {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn wrapped_lines_keep_width_and_words() {
        let text = "the quick brown fox jumps over the lazy dog";
        let wrapped = wrap(text, 16, 0, 4);
        assert!(wrapped.lines().all(|line| line.len() <= 16), "{wrapped}");
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("    ")));
        let words: Vec<&str> = wrapped.split_whitespace().collect();
        assert_eq!(words.join(" "), text);
    }
}
