//! A pcapng reader, and files for tshark.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    pub interface: u32,
    pub at_ns: u64,
    pub octets: Vec<u8>,
    pub original_len: usize,
    /// 1 received, 2 sent, 0 unknown.
    pub direction: u32,
}

/// The packets of a file; panics when its blocks do not fill it.
pub fn packets(file: &[u8]) -> Vec<PacketRecord> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let len = number(file, at + 4) as usize;
        assert_eq!(len, number(file, at + len - 4) as usize);
        if number(file, at) == 6 {
            found.push(record(&file[at + 8..at + len - 4]));
        }
        at += len;
    }
    found
}

fn record(body: &[u8]) -> PacketRecord {
    let len = number(body, 12) as usize;
    let options = &body[20 + len.next_multiple_of(4)..];
    let flags = options
        .chunks_exact(4)
        .position(|words| words == [2, 0, 4, 0]);
    PacketRecord {
        interface: number(body, 0),
        at_ns: u64::from(number(body, 4)) << 32 | u64::from(number(body, 8)),
        octets: body[20..20 + len].to_vec(),
        original_len: number(body, 16) as usize,
        direction: flags.map_or(0, |at| number(options, at * 4 + 4)),
    }
}

fn number(octets: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(octets[at..at + 4].try_into().expect("4 octets"))
}

/// A file that is removed when it goes out of scope.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("towpath-capture-{}-{count}.pcapng", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    pub fn holding(octets: &[u8]) -> Scratch {
        let scratch = Scratch::new();
        fs::write(&scratch.0, octets).expect("room for a file");
        scratch
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
