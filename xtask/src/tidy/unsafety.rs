//! Unsafe code lives in `src/sys/`, and says why it is sound.

use super::words::has_word;
use super::{Fault, File};

/// Lines above an unsafe block in which its reason may stand.
const REASON_LINES: usize = 8;

pub(super) fn check(file: &File) -> Vec<Fault> {
    let Some(source) = &file.rust else {
        return Vec::new();
    };
    let allowed = file.path.contains("/src/sys/");
    let comments: Vec<&str> = source.comments.lines().collect();
    let mut faults = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        if has_word(line, "allow(unsafe_code)") && !allowed {
            faults.push(file.fault(index + 1, "unsafe code is allowed outside src/sys/"));
        }
        if !has_word(line, "unsafe") {
            continue;
        }
        if !allowed {
            faults.push(file.fault(index + 1, "unsafe outside src/sys/"));
        } else if !has_reason(&comments, index) {
            faults.push(file.fault(index + 1, "unsafe without a SAFETY: sentence above it"));
        }
    }
    faults
}

/// A block gives its reason, a function its conditions.
fn has_reason(comments: &[&str], index: usize) -> bool {
    let first = index.saturating_sub(REASON_LINES);
    let above = comments.get(first..=index).unwrap_or_default();
    above
        .iter()
        .any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_sys_is_a_fault_and_the_word_in_a_comment_is_not() {
        let text = "// unsafe\nfn a() { unsafe { b() } }\n";
        assert_eq!(check(&File::new("crates/a/src/b.rs", text)).len(), 1);
        let text = "#![forbid(unsafe_code)]\n";
        assert_eq!(check(&File::new("crates/a/src/lib.rs", text)), []);
        let text = "#![allow(unsafe_code)]\n";
        assert_eq!(check(&File::new("crates/a/src/lib.rs", text)).len(), 1);
    }

    #[test]
    fn inside_sys_a_reason_is_wanted() {
        let bare = "fn a() { unsafe { b() } }\n";
        assert_eq!(check(&File::new("crates/a/src/sys/b.rs", bare)).len(), 1);
        let said = "// SAFETY: b has no conditions.\nfn a() { unsafe { b() } }\n";
        assert_eq!(check(&File::new("crates/a/src/sys/b.rs", said)), []);
    }
}
