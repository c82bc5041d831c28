//! Debian's ns-3, with a small program of ours.

use super::scenarios::OfferedLoad;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program `xtask/peers/ns3/csma.cc`, built.
pub struct Ns3(PathBuf);

/// A run of it.
pub struct Ns3Run {
    /// Packets received per second of wall time.
    pub packets_per_s: f64,
    /// Build profile of ns-3.
    pub profile: String,
}

/// Modules of ns-3 as named in pkg-config.
const MODULES: [&str; 4] = ["core", "network", "csma", "internet"];

impl Ns3 {
    /// Builds it against the ns-3 of the system.
    pub fn build(root: &Path) -> Result<Ns3, String> {
        let flags = flags()?;
        let target = crate::target(root);
        let program = target.join("ns3-csma");
        let source = root.join("xtask/peers/ns3/csma.cc");
        let status = Command::new("g++")
            .args(["-O2", "-std=c++17", "-o"])
            .arg(&program)
            .arg(source)
            .args(flags)
            .status()
            .map_err(|error| format!("g++ does not run: {error}"))?;
        match status.success() {
            true => Ok(Ns3(program)),
            false => Err("csma.cc does not build against ns-3".to_owned()),
        }
    }

    /// Runs it.
    pub fn run(&self, load: &OfferedLoad) -> Result<Ns3Run, String> {
        let words = [
            load.pairs as u64,
            load.messages,
            load.bytes,
            load.mean_us,
            1,
        ];
        let output = Command::new(&self.0)
            .args(words.map(|word| word.to_string()))
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let words: Vec<&str> = text.split_whitespace().collect();
        let [arrived, wall_s, _, profile] = words.as_slice() else {
            return Err(format!("ns-3 says {text:?}"));
        };
        let number = |word: &str| word.parse::<f64>().map_err(|error| error.to_string());
        Ok(Ns3Run {
            packets_per_s: number(arrived)? / number(wall_s)?,
            profile: (*profile).to_owned(),
        })
    }
}

/// Flags for the compiler.
fn flags() -> Result<Vec<String>, String> {
    let names = MODULES.map(|module| format!("ns3-{module}"));
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs"])
        .args(names)
        .output()
        .map_err(|error| format!("pkg-config does not run: {error}"))?;
    if !output.status.success() {
        return Err(
            "ns-3 is absent; on Debian: apt-get install g++ pkg-config ns3 libns3-dev libgsl-dev"
                .to_owned(),
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}
