//! What a program writes: the end of it, in bounded memory.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Characters of a line that an error shows.
const LINE_MAX: usize = 200;

/// How long the end of an output is awaited once all that could write it has ended.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Reads one stream of a program's output in a thread.
pub(super) struct OutputReader {
    kept: Arc<Mutex<VecDeque<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl OutputReader {
    /// Keeps the last `most` octets of `stream`.
    pub(super) fn new(mut stream: impl Read + Send + 'static, most: usize) -> OutputReader {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let into = Arc::clone(&kept);
        let thread = std::thread::Builder::new().spawn(move || {
            let mut piece = vec![0; 16 << 10];
            while let Ok(read @ 1..) = stream.read(&mut piece) {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&piece[..read]);
                let excess = kept.len().saturating_sub(most);
                kept.drain(..excess);
            }
        });
        OutputReader {
            kept,
            thread: thread.ok(),
        }
    }

    /// What has been read so far.
    pub(super) fn text(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }

    /// All of it, once the processes that write it have ended.
    pub(super) fn finish(mut self) -> String {
        let end = Instant::now() + END_LIMIT;
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.text()
    }
}

/// `; it said: "last line" ...`, from the first text that has lines; empty when none has.
pub fn last_lines(texts: &[&str], most: usize) -> String {
    let lines_of = |text: &&&str| text.lines().any(|line| !line.trim().is_empty());
    let Some(text) = texts.iter().find(lines_of) else {
        return "; it said nothing".to_owned();
    };
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.iter().skip(lines.len().saturating_sub(most));
    let shown: Vec<String> = last
        .map(|line| {
            format!(
                "\"{}\"",
                control::validate::printable(line.trim(), LINE_MAX)
            )
        })
        .collect();
    format!("; it said {}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_an_endless_output_is_kept() {
        let text = "x".repeat(100_000) + "end";
        let reader = OutputReader::new(std::io::Cursor::new(text), 1000);
        let kept = reader.finish();
        assert_eq!(kept.len(), 1000);
        assert!(kept.ends_with("xend"));
    }

    #[test]
    fn last_lines_come_from_the_first_text_that_has_any() {
        let said = last_lines(&[" \n", "one\ntwo\n\nthree\n"], 2);
        assert_eq!(said, "; it said \"two\" \"three\"");
        assert_eq!(last_lines(&["", "\n"], 2), "; it said nothing");
        let said = last_lines(&["a\u{1b}[2Jb"], 1);
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}
