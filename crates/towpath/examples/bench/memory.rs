//! Memory of this process.

use crate::peer::Outcome;

/// Resident memory, MB.
pub fn resident_mb() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.ok_or("/proc/self/status has no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kb / 1000.0)
}
