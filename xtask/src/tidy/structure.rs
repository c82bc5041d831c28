//! What every crate and the repository have.

use super::{Fault, File};

/// Documents that must be there.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/status.md",
];

/// One file.
pub(super) fn check(file: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    let is_source = file.rust.is_some() && file.path.contains("/src/");
    if is_source && !file.text.starts_with("//!") {
        faults.push(file.fault(1, "a source file opens with a sentence on what it is (//!)"));
    }
    if file.path == "docs/status.md" && !has_table(&file.text) {
        faults.push(file.fault(0, "it should be a table of features: works, not yet"));
    }
    faults
}

/// All files together.
pub(super) fn check_all(files: &[File]) -> Vec<Fault> {
    let missing = DOCUMENTS
        .iter()
        .filter(|path| find(files, path).is_none())
        .map(|path| File::new(*path, "").fault(0, "is missing"));
    let manifests = files.iter().filter(|file| is_member(&file.path));
    missing
        .chain(manifests.flat_map(|manifest| check_crate(files, manifest)))
        .collect()
}

fn is_member(path: &str) -> bool {
    path == "xtask/Cargo.toml" || path.starts_with("crates/") && path.ends_with("/Cargo.toml")
}

fn check_crate(files: &[File], manifest: &File) -> Vec<Fault> {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let mut faults = Vec::new();
    if !manifest.text.contains("[lints]\nworkspace = true") {
        faults.push(manifest.fault(0, "lacks [lints] workspace = true"));
    }
    let root = find(files, &format!("{folder}src/lib.rs"));
    let Some(root) = root.or_else(|| find(files, &format!("{folder}src/main.rs"))) else {
        faults.push(manifest.fault(0, "the crate has neither src/lib.rs nor src/main.rs"));
        return faults;
    };
    let sys = format!("{folder}src/sys/");
    let has_sys = files.iter().any(|file| file.path.starts_with(&sys));
    if !has_sys && !root.text.contains("#![forbid(unsafe_code)]") {
        faults.push(root.fault(0, "a crate without src/sys/ says #![forbid(unsafe_code)]"));
    }
    faults
}

fn find<'a>(files: &'a [File], path: &str) -> Option<&'a File> {
    files.iter().find(|file| file.path == path)
}

/// A heading row, a rule, and a row at least.
fn has_table(text: &str) -> bool {
    let rows = text.lines().filter(|line| line.starts_with('|')).count();
    let rule = text
        .lines()
        .any(|line| line.starts_with("| ---") || line.starts_with("|---"));
    rule && rows >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(files: &[File]) -> Vec<String> {
        let faults = check_all(files).into_iter();
        let faults = faults.filter(|fault| !DOCUMENTS.contains(&fault.path.as_str()));
        faults.map(|fault| fault.what).collect()
    }

    #[test]
    fn documents_are_missed() {
        assert_eq!(check_all(&[]).len(), DOCUMENTS.len());
    }

    #[test]
    fn a_crate_forbids_unsafe_code_unless_it_has_a_place_for_it() {
        let manifest = || File::new("crates/a/Cargo.toml", "[lints]\nworkspace = true\n");
        let library = || File::new("crates/a/src/lib.rs", "//! A.\n");
        assert_eq!(whats(&[manifest(), library()]).len(), 1);
        let sys = File::new("crates/a/src/sys/mod.rs", "//! B.\n");
        assert_eq!(whats(&[manifest(), library(), sys]).len(), 0);
        assert_eq!(whats(&[manifest()]).len(), 1);
    }

    #[test]
    fn a_file_without_an_opening_and_a_status_without_a_table_are_faults() {
        assert_eq!(
            check(&File::new("crates/a/src/b.rs", "fn a() {}\n")).len(),
            1
        );
        assert_eq!(
            check(&File::new("docs/status.md", "all is well\n")).len(),
            1
        );
        let table = "| feature | |\n| --- | --- |\n| race | works |\n";
        assert_eq!(check(&File::new("docs/status.md", table)), []);
    }
}
