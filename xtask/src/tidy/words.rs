//! Words that must not stay behind.

use super::source::is_word;
use super::{Fault, File};

/// In code: unfinished, or left from a search for a fault.
const CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// In comments: promises nobody keeps.
const COMMENTS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

pub(super) fn check(file: &File) -> Vec<Fault> {
    let Some(source) = &file.rust else {
        return Vec::new();
    };
    let mut faults = find(file, &source.code, CODE);
    faults.extend(find(file, &source.comments, COMMENTS));
    faults
}

fn find(file: &File, text: &str, words: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let found = words.iter().filter(|word| has_word(line, word));
        faults.extend(found.map(|word| file.fault(index + 1, format!("'{word}' is not allowed"))));
    }
    faults
}

/// Whether `line` has `word` not as a part of a longer name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let starts = word.starts_with(is_word) && line[..at].ends_with(is_word);
        let ends = word.ends_with(is_word) && line[at + word.len()..].starts_with(is_word);
        !starts && !ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_code_is_a_fault() {
        let text = "fn a() { todo!() }\n#[ignore = \"slow\"]\nfn b() { dbg!(1); }\n";
        assert_eq!(check(&File::new("a.rs", text)).len(), 3);
        assert_eq!(check(&File::new("a.rs", "// TODO: more\n")).len(), 1);
    }

    #[test]
    fn the_same_words_in_strings_and_longer_names_are_not() {
        let text = "fn a() { print(\"todo!\"); my_dbg!(1); }\n";
        assert_eq!(check(&File::new("a.rs", text)), []);
        assert!(!has_word("unsafe_code", "unsafe") && has_word("(unsafe)", "unsafe"));
    }
}
