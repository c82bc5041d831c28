//! Names in docs/data-path.md lead to code: a reader who greps for them finds them.

use super::source::is_word;
use super::{Fault, File};

/// The page.
const PAGE: &str = "docs/data-path.md";

/// What a name on the page may be in its file.
const DEFINED_BY: &[&str] = &["fn", "struct", "enum", "trait", "const", "mod", "type"];

/// A line that names a file below `crates/` or `xtask/` names things that this file defines.
pub(super) fn check_all(files: &[File]) -> Vec<Fault> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![File::new(PAGE, "").fault(0, "is missing")];
    };
    let mut faults = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let mut source: Option<&File> = None;
        for span in line.split('`').skip(1).step_by(2) {
            if is_path(span) {
                source = files.iter().find(|file| file.path == span);
                let known =
                    source.is_some() || files.iter().any(|file| file.path.starts_with(span));
                if !known {
                    faults.push(page.fault(index + 1, format!("no file '{span}'")));
                }
            } else if let Some(file) = source.filter(|file| !defines(file, span)) {
                let what = format!("'{span}' is not defined in {}", file.path);
                faults.push(page.fault(index + 1, what));
            }
        }
    }
    faults
}

fn is_path(span: &str) -> bool {
    (span.starts_with("crates/") || span.starts_with("xtask/")) && !span.contains(' ')
}

/// Whether `file` defines the last name of `span`, which may be `Type::function` or have `()`.
fn defines(file: &File, span: &str) -> bool {
    let name = span
        .trim_end_matches("()")
        .rsplit("::")
        .next()
        .unwrap_or(span);
    if name.is_empty() || !name.chars().all(is_word) {
        return true;
    }
    let Some(source) = &file.rust else {
        return true;
    };
    DEFINED_BY.iter().any(|keyword| {
        let definition = format!("{keyword} {name}");
        source.code.match_indices(&definition).any(|(at, _)| {
            let ends = !source.code[at + definition.len()..].starts_with(is_word);
            ends && !source.code[..at].ends_with(is_word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(page: &str) -> usize {
        let source = "pub fn send() {}\npub struct Ring;\n";
        let files = [
            File::new("crates/a/src/b.rs", source),
            File::new(PAGE, page),
        ];
        check_all(&files).len()
    }

    #[test]
    fn names_must_be_defined_in_the_file_before_them() {
        assert_eq!(
            faults("1. `crates/a/src/b.rs`: `send`, `Ring`, `Ring::send()`, `a + b`\n"),
            0
        );
        assert_eq!(faults("1. `crates/a/src/b.rs`: `sen`, `Rings`\n"), 2);
        assert_eq!(faults("`send` stands alone, `crates/a/` is a folder\n"), 0);
    }

    #[test]
    fn files_must_exist() {
        assert_eq!(faults("`crates/a/src/c.rs`: `send`\n"), 1);
        assert_eq!(check_all(&[]).len(), 1);
    }
}
