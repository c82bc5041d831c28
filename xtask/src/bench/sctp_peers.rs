//! Other stacks of SCTP as peers of the benchmark: their programs, built on first use.

use super::helper_programs::{build, number};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program in `xtask/peers/sctp`: engine-sctp, sctp-proto and dcsctp, both ends in one thread.
pub struct MemoryPeers(PathBuf);

impl MemoryPeers {
    /// Builds it in release mode; it is a separate workspace.
    pub fn build(root: &Path) -> Result<MemoryPeers, String> {
        let target = build(&root.join("xtask/peers/sctp"), &[])?;
        Ok(MemoryPeers(target.join("release/sctp-peers")))
    }

    /// Messages of `size` bytes per second of processor time of one thread.
    pub fn run(&self, stack: &str, size: u64, span_s: f64) -> Result<f64, String> {
        let (size, span) = (size.to_string(), span_s.to_string());
        number(Command::new(&self.0).args(["bench", stack, &size, &span]))
    }
}

/// `usrsctp_bench.c` in `xtask/peers/usrsctp`, linked with Debian's library.
pub struct Usrsctp(PathBuf);

impl Usrsctp {
    /// Compiles it.
    pub fn build(root: &Path) -> Result<Usrsctp, String> {
        let program = root.join("target/usrsctp_bench");
        let built = Command::new("cc")
            .args(["-O2", "-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(root.join("xtask/peers/usrsctp/usrsctp_bench.c"))
            .args(["-lusrsctp", "-lpthread"])
            .output()
            .map_err(|error| format!("cc: {error}; apt-get install gcc"))?;
        match built.status.success() {
            true => Ok(Usrsctp(program)),
            false => Err("usrsctp is absent: apt-get install libusrsctp-dev".into()),
        }
    }

    /// Messages of `size` bytes per second that arrived, over UDP, one processor each side.
    pub fn run(&self, size: u64, span_s: f64) -> Result<f64, String> {
        let (size, span) = (size.to_string(), span_s.to_string());
        number(Command::new(&self.0).args([&size, &span, "0", "1"]))
    }
}
