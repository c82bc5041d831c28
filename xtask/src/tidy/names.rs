//! A public type's name says which type it is: at most two crates define the same one.

use super::source::is_word;
use super::{Fault, File};
use std::collections::BTreeMap;

/// Crates that may define a public type of one name.
const CRATES_MAX: usize = 2;

/// What opens the definition of a public type.
const KEYWORDS: &[&str] = &[
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
    "pub union ",
];

/// All files together.
pub(super) fn check_all(files: &[File]) -> Vec<Fault> {
    let mut types: BTreeMap<&str, BTreeMap<&str, Fault>> = BTreeMap::new();
    for file in files {
        let (Some(name), Some(source)) = (file.crate_of_source(), &file.rust) else {
            continue;
        };
        for (line, found) in public_types(&source.code) {
            let fault = || file.fault(line, format!("public type '{found}'"));
            types
                .entry(found)
                .or_default()
                .entry(name)
                .or_insert_with(fault);
        }
    }
    let many = types
        .into_values()
        .filter(|crates| crates.len() > CRATES_MAX);
    many.flat_map(|crates| {
        let names: Vec<&str> = crates.keys().copied().collect();
        let also = format!(" is defined in {}; say which it is", names.join(", "));
        crates.into_values().map(move |mut fault| {
            fault.what.push_str(&also);
            fault
        })
    })
    .collect()
}

/// Line and name of each public type.
fn public_types(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().filter_map(|(index, line)| {
        let line = line.trim_start();
        let rest = KEYWORDS
            .iter()
            .find_map(|keyword| line.strip_prefix(keyword))?;
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        // An associated type has its name from its trait.
        Some((index + 1, &rest[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(crate_name: &str, text: &str) -> File {
        File::new(format!("crates/{crate_name}/src/lib.rs"), text)
    }

    #[test]
    fn third_crate_with_same_type_name_is_fault() {
        let two = [
            file("a", "pub struct Link;\n"),
            file("b", "pub enum Link<T> { A(T) }\n"),
        ];
        assert_eq!(check_all(&two), []);
        let [a, b] = two;
        let three = [a, b, file("c", "mod d {\n    pub trait Link {}\n}\n")];
        let faults = check_all(&three);
        assert_eq!(faults.len(), 3);
        assert!(faults[0].what.contains("a, b, c"), "{}", faults[0]);
    }

    #[test]
    fn private_types_and_same_crate_are_no_fault() {
        let text = "struct Link;\npub(crate) struct Link;\n";
        let files = [
            file("a", text),
            file("b", text),
            file("c", text),
            file("c", "pub struct Link;"),
        ];
        assert_eq!(check_all(&files), []);
    }
}
