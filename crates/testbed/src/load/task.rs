//! The tasks of the artificial workload.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// A task of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadTask {
    /// Compiles a C file; nothing without a compiler.
    Compile,
    /// Arithmetic in registers.
    Cpu,
    /// Fills and justifies text.
    Format,
    /// Edits a file line by line.
    Edit,
    /// Copies a file of 60,000 octets.
    Copy,
    /// `ps -alx` and `who`, or reading the same files.
    Status,
    /// Copies memory beyond the caches.
    Memory,
    /// Writes a file and syncs it.
    Disk,
    /// Trivial system calls.
    Calls,
}

/// The workload of 1984, in its order.
pub const SCRIPT: [LoadTask; 6] = [
    LoadTask::Compile,
    LoadTask::Cpu,
    LoadTask::Format,
    LoadTask::Edit,
    LoadTask::Copy,
    LoadTask::Status,
];

const ALL: [(LoadTask, &str); 9] = [
    (LoadTask::Compile, "compile"),
    (LoadTask::Cpu, "cpu"),
    (LoadTask::Format, "format"),
    (LoadTask::Edit, "edit"),
    (LoadTask::Copy, "copy"),
    (LoadTask::Status, "status"),
    (LoadTask::Memory, "memory"),
    (LoadTask::Disk, "disk"),
    (LoadTask::Calls, "calls"),
];

/// Octets of the copied file, as in the study.
const FILE: usize = 60_000;

/// Rounds of the CPU-bound task: about 20 ms at 3 GHz, as long as the other tasks.
const ROUNDS: u64 = 10_000_000;

/// Non-zero seed of the xorshift generator (Marsaglia 2003).
const SEED: u64 = 88_172_645_463_325_252;

/// Octets of memory copied: twice the last-level cache of most machines.
const MEMORY: usize = 64 << 20;

/// System calls per run: about 20 ms at 0.2 us each.
const CALLS: u32 = 100_000;

/// Words of the formatted text, and columns of a line.
const WORDS: usize = 20_000;
const COLUMNS: usize = 72;

/// Functions of the C file: about 700 lines.
const FUNCTIONS: usize = 100;

impl LoadTask {
    /// Its name.
    pub fn name(self) -> &'static str {
        let found = ALL.iter().find(|(part, _)| *part == self);
        found.map_or("", |(_, name)| name)
    }

    /// Runs it once in `folder`, which belongs to this process.
    ///
    /// # Errors
    ///
    /// When a file cannot be written or a program fails; the run does not count.
    pub fn run(self, folder: &Path) -> io::Result<()> {
        match self {
            LoadTask::Compile => compile(folder),
            LoadTask::Cpu => {
                arithmetic();
                Ok(())
            }
            LoadTask::Format => fs::write(folder.join("formatted"), format_text(&text())),
            LoadTask::Edit => edit(folder),
            LoadTask::Copy => copy(folder),
            LoadTask::Status => status(),
            LoadTask::Memory => {
                memory();
                Ok(())
            }
            LoadTask::Disk => disk(folder),
            LoadTask::Calls => {
                calls();
                Ok(())
            }
        }
    }
}

impl FromStr for LoadTask {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadTask, String> {
        let found = ALL.iter().find(|(_, name)| *name == text);
        found.map(|(part, _)| *part).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|(_, name)| *name).collect();
            format!(
                "no part of a load is called '{text}'; choose from {}",
                names.join(", ")
            )
        })
    }
}

/// Whether a C compiler is installed.
pub fn has_compiler() -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("cc").is_file()))
}

fn compile(folder: &Path) -> io::Result<()> {
    let source = folder.join("source.c");
    if !source.exists() {
        fs::write(&source, program())?;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-c", "-o", "object.o", "source.c"]);
    run(compiler.current_dir(folder))
}

/// A C file of many small functions.
fn program() -> String {
    let mut text = String::new();
    for at in 0..FUNCTIONS {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "int f{at}(int n, int *v) {{\n  int i, s = {at};\n  for (i = 0; i < n; i++) {{\n    \
             if (v[i] > s) s += v[i] * {at};\n    else s ^= i;\n  }}\n  return s;\n}}\n"
        );
    }
    text
}

fn arithmetic() {
    // Each step depends on the one before, so the compiler cannot shorten it.
    let mut state = black_box(SEED);
    for _ in 0..ROUNDS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

/// Words of various lengths.
fn text() -> String {
    let word = |at: usize| "abcdefghijklmnop".get(..1 + at * 7 % 13).unwrap_or("a");
    let words: Vec<&str> = (0..WORDS).map(word).collect();
    words.join(" ")
}

/// Fills lines and stretches them to the right margin.
fn format_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut line: Vec<&str> = Vec::new();
    let mut len = 0;
    for word in text.split(' ') {
        if len + word.len() + line.len() > COLUMNS && !line.is_empty() {
            justify(&mut out, &line, len);
            line.clear();
            len = 0;
        }
        len += word.len();
        line.push(word);
    }
    out.push_str(&line.join(" "));
    out
}

fn justify(out: &mut String, line: &[&str], len: usize) {
    let gaps = (line.len() - 1).max(1);
    let blanks = COLUMNS.saturating_sub(len);
    for (at, word) in line.iter().enumerate() {
        out.push_str(word);
        if at + 1 < line.len() {
            let width = blanks * (at + 1) / gaps - blanks * at / gaps;
            out.extend(std::iter::repeat_n(' ', width));
        }
    }
    out.push('\n');
}

fn edit(folder: &Path) -> io::Result<()> {
    let path = folder.join("edited");
    if !path.exists() {
        fs::write(&path, format_text(&text()))?;
    }
    let content = fs::read_to_string(&path)?;
    let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
    for line in lines.iter_mut().step_by(3) {
        *line = line.replace("abc", "cba");
    }
    let middle = lines.len() / 2;
    lines.rotate_left(middle);
    lines.sort_by_key(|line| std::cmp::Reverse(line.len()));
    fs::write(path, lines.join("\n"))
}

fn copy(folder: &Path) -> io::Result<()> {
    let original = folder.join("original");
    if !original.exists() {
        fs::write(&original, vec![b'x'; FILE])?;
    }
    fs::copy(original, folder.join("copy")).map(drop)
}

fn status() -> io::Result<()> {
    run(Command::new("ps").arg("-alx")).or_else(|_| {
        for entry in fs::read_dir("/proc")?.flatten() {
            // The process may have ended.
            let _ = black_box(fs::read(entry.path().join("stat")));
        }
        Ok::<(), io::Error>(())
    })?;
    run(&mut Command::new("who")).or_else(|_| {
        let _ = black_box(fs::read("/var/run/utmp"));
        Ok(())
    })
}

fn run(command: &mut Command) -> io::Result<()> {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = quiet.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("the program failed"))
    }
}

fn memory() {
    let from = vec![1u8; MEMORY];
    let mut to = vec![0u8; MEMORY];
    to.copy_from_slice(black_box(&from));
    black_box(&to);
}

fn disk(folder: &Path) -> io::Result<()> {
    let mut file = fs::File::create(folder.join("written"))?;
    file.write_all(&vec![b'x'; FILE])?;
    file.sync_data()
}

fn calls() {
    for _ in 0..CALLS {
        black_box(rustix::process::getppid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_task_justifies_lines() {
        let out = format_text(&text());
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.len() > 1000);
        let full = &lines[..lines.len() - 1];
        assert!(
            full.iter().all(|line| line.len() == COLUMNS),
            "{:?}",
            full[0]
        );
    }

    #[test]
    fn every_load_task_runs_twice_and_has_name() {
        let folder = crate::load::scratch_folder::ScratchFolder::create().expect("a folder");
        for (part, name) in ALL {
            assert_eq!(name.parse(), Ok(part));
            assert_eq!(part.name(), name);
            if part == LoadTask::Compile && !has_compiler() {
                continue;
            }
            for _ in 0..2 {
                part.run(folder.path())
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
        assert!(
            "coffee"
                .parse::<LoadTask>()
                .expect_err("no part")
                .contains("choose from compile")
        );
    }
}
