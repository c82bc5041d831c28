//! Contestants that are programs of other projects: `exec:NAME`.
//!
//! A file of contestants says how a program's server and client start, how the server's readiness is
//! seen, and where the number is. Those of this crate's folder `contestants/` are always known.
//!
//! * [`definition`] - such a file: its form, and what is wrong in one.
//! * [`inline`] - the same in one line, on the command line.
//! * `number` - the number in a program's output, or on the interface of its host.
//!
//! `trial::program` runs them, and `assemble::program` makes the record of a trial.

pub mod definition;
pub mod inline;
mod number;

pub use definition::{Definition, Definitions, Measurement};
pub(crate) use number::{Reading, Seen, octets_per_s_at_least};
use std::path::{Path, PathBuf};

/// How the label of such a contestant starts.
pub const PREFIX: &str = "exec:";

/// The name in a label `exec:NAME`, with or without a number behind it; None for other labels.
pub fn name_of(label: &str) -> Option<&str> {
    loadgen::contestant::without_number(label).strip_prefix(PREFIX)
}

/// The definitions that come with this crate.
///
/// # Panics
///
/// Never: a test reads them.
pub fn shipped() -> Definitions {
    let files = [
        ("iperf3.toml", include_str!("../../contestants/iperf3.toml")),
        (
            "sockperf.toml",
            include_str!("../../contestants/sockperf.toml"),
        ),
        (
            "netperf.toml",
            include_str!("../../contestants/netperf.toml"),
        ),
        ("quinn.toml", include_str!("../../contestants/quinn.toml")),
        ("shell.toml", include_str!("../../contestants/shell.toml")),
    ];
    let mut all = Definitions::new();
    for (file, text) in files {
        match definition::parse(Path::new(file), text) {
            Ok(more) => all.extend(more),
            Err(why) => unreachable!("{why}"),
        }
    }
    all
}

/// Where a program is: a path as it is, a name in the folders of PATH; None when there is none.
pub fn located(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return path.is_file().then_some(path);
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_definitions_are_valid_and_each_measures_something() {
        let all = shipped();
        for name in ["iperf3", "sockperf", "netperf", "quinn-perf", "nc"] {
            assert!(all.contains_key(name), "{name}");
        }
        assert!(all.values().all(|one| !one.workloads().is_empty()));
    }

    #[test]
    fn name_is_that_of_the_label_without_its_number() {
        assert_eq!(name_of("exec:iperf3"), Some("iperf3"));
        assert_eq!(name_of("exec:iperf3#2"), Some("iperf3"));
        assert_eq!(name_of("tcp"), None);
    }

    #[test]
    fn program_is_found_in_path_or_where_it_is_named() {
        assert!(located("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(located("no-such-program-of-towpath"), None);
        assert_eq!(located("/no/such/program"), None);
    }
}
