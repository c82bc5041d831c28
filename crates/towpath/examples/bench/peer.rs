//! The other process of a benchmark: this program, called with other words.
#![allow(dead_code, reason = "each benchmark has its own part")]

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a benchmark's functions return.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Pins this thread to a CPU.
pub fn pin(cpu: &str) -> Outcome<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu.parse()?);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// A process that prints where it is to be found, and exits when its input ends.
pub struct Peer {
    child: Child,
    lines: io::Lines<BufReader<ChildStdout>>,
    /// The line it printed first.
    pub place: String,
}

impl Peer {
    /// Starts this program with `words`.
    pub fn start(words: &[&str]) -> Outcome<Peer> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        let place = lines.next().ok_or("the peer prints no address")??;
        Ok(Peer {
            child,
            lines,
            place,
        })
    }

    /// Ends it and this process, which prints the line that it prints. Circuits of neither are closed.
    pub fn end_both(self) -> Outcome<()> {
        println!("{}", self.end()?);
        std::process::exit(0)
    }

    /// Ends it; returns the line it prints.
    pub fn end(mut self) -> Outcome<String> {
        drop(self.child.stdin.take());
        let line = self.lines.next().unwrap_or_else(|| Ok(String::new()))?;
        self.child.wait()?;
        Ok(line)
    }
}

/// In a peer: prints where it is to be found.
pub fn print_place(place: impl Display) -> io::Result<()> {
    println!("{place}");
    io::stdout().flush()
}

/// In a peer: waits for the end of its input.
pub fn wait_for_end() -> io::Result<usize> {
    io::stdin().read_to_end(&mut Vec::new())
}

/// Ends this process, the peer of another, when its input ends.
pub fn end_with_input() {
    std::thread::spawn(|| {
        let _ = wait_for_end();
        std::process::exit(0);
    });
}
