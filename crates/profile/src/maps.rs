//! Code mappings of a process.

use std::fs;
use std::ops::Range;

/// A code mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Its offset in the file.
    pub offset: u64,
    /// The file, or a name in brackets such as `[vdso]`.
    pub path: String,
}

/// Most mappings of a process; a program has a handful of libraries.
const MAPPINGS_MAX: usize = 1000;

/// The code mappings of `process`; empty when it has exited.
pub fn of(process: u32) -> Vec<Mapping> {
    parse(&fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default())
}

/// Parses lines `first-last permissions offset device inode path`; mappings that are not executable
/// or have no name are omitted.
pub fn parse(text: &str) -> Vec<Mapping> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let (first, last) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let executable = words.next()?.contains('x');
        let offset = number(words.next()?)?;
        let path: Vec<&str> = words.skip(2).collect();
        (executable && !path.is_empty()).then_some(Mapping {
            addresses: number(first)?..number(last)?,
            offset,
            path: path.join(" "),
        })
    };
    text.lines().filter_map(one).take(MAPPINGS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_executable_mappings_are_kept() {
        let text = "55aa000-55ab000 r--p 00000000 fe:00 12 /usr/bin/a b\n\
                    55ab000-55ad000 r-xp 00001000 fe:00 12 /usr/bin/a b\n\
                    7fff000-8000000 r-xp 00000000 00:00 0 [vdso]\n\
                    9000000-9001000 rwxp 00000000 00:00 0\nnonsense\n";
        let found = parse(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].addresses, 0x55a_b000..0x55a_d000);
        assert_eq!(
            (found[0].offset, found[0].path.as_str()),
            (0x1000, "/usr/bin/a b")
        );
        assert_eq!(found[1].path, "[vdso]");
        assert!(
            of(std::process::id())
                .iter()
                .any(|mapping| mapping.path.starts_with('/'))
        );
    }
}
