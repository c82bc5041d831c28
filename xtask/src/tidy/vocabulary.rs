//! Household words that the field has a term for; docs/glossary.md says which.

use super::source::is_word;
use super::{Fault, File};

/// Parts of names that do not come back, each with the field's term.
const NAMES: &[(&str, &str)] = &[
    ("told", "submitted, advertised or notified"),
    ("untold", "unnotified"),
    ("hurry", "request_ack"),
    ("sight", "observer or sample"),
    ("parcel", "coalesce buffer"),
    ("letter", "datagram header"),
    ("bell", "eventfd"),
    ("ears", "multicast sockets"),
    ("bury", "record_departure"),
    ("torn", "discarding_partial_message"),
    ("starved", "amplification_blocked"),
    ("doorkeeper", "source filter"),
    ("flavour", "kind"),
    ("sleepers", "wait list"),
    ("dozing", "parked"),
    ("patience", "timeout"),
    ("lookless", "spin_backoff"),
    ("greeting", "peer check or version exchange"),
    ("preface", "version exchange"),
    ("liars", "dishonest peers"),
    ("surroundings", "environment"),
    ("neighbours", "router messages"),
];

/// Idiom that makes a reader look twice, in comments and documents; what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("the like", "name the things"),
    ("in vain", "say what failed"),
    ("for good", "permanently"),
    ("is told so", "gets an error, an event or a packet"),
    ("as ever", "as usual, or nothing"),
    ("reckoned with", "expected"),
    ("is not heeded", "is ignored"),
    ("in the company of", "together with"),
    ("last words", "final control packets"),
    ("whoever", "name the subject"),
    ("somebody", "name the subject"),
    ("come down to us", "say what is printed where"),
];

/// Pages that name old words on purpose.
const EXEMPT: &[&str] = &["docs/glossary.md", "xtask/src/tidy/vocabulary.rs"];

pub(super) fn check(file: &File) -> Vec<Fault> {
    if EXEMPT.contains(&file.path.as_str()) {
        return Vec::new();
    }
    match &file.rust {
        Some(source) => {
            let mut faults = check_names(file, &source.code);
            faults.extend(check_phrases(file, &source.comments));
            faults
        }
        None if file.path.ends_with(".md") => check_phrases(file, &file.text),
        None => Vec::new(),
    }
}

fn check_names(file: &File, code: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let names = line.split(|c| !is_word(c)).flat_map(parts);
        faults.extend(names.filter_map(|part| {
            let (word, term) = NAMES.iter().find(|(word, _)| *word == part)?;
            let what = format!("'{word}' in a name: the term is {term} (docs/glossary.md)");
            Some(file.fault(index + 1, what))
        }));
    }
    faults
}

fn check_phrases(file: &File, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        let found = PHRASES
            .iter()
            .filter(|(phrase, _)| has_phrase(&line, phrase));
        faults.extend(found.map(|(phrase, instead)| {
            file.fault(index + 1, format!("'{phrase}' is a riddle: {instead}"))
        }));
    }
    faults
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        !line[..at].ends_with(is_word) && !line[at + phrase.len()..].starts_with(is_word)
    })
}

/// The words a name is made of, in lower case: `own_bell` and `OwnBell` are own and bell.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        if let Some(part) = parts.last_mut().filter(|_| c != '_') {
            part.extend(c.to_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        check(&File::new("crates/a/src/b.rs", text)).len()
    }

    #[test]
    fn names_are_split_at_underscores_and_capitals() {
        assert_eq!(parts("own_bell"), ["own", "bell"]);
        assert_eq!(parts("OwnBell2"), ["own", "bell2"]);
        assert_eq!(parts("SPIN_TRIES"), ["spin", "tries"]);
    }

    #[test]
    fn household_words_in_names_are_faults() {
        assert_eq!(faults("fn set_told() {}\nstruct Bell;\n"), 2);
        assert_eq!(faults("fn label() { print(\"told\") }\n// told\n"), 0);
    }

    #[test]
    fn riddles_in_comments_and_documents_are_faults() {
        assert_eq!(faults("// Packets and the like.\n// Whoever waits.\n"), 2);
        assert_eq!(
            faults("// The likelihood.\nfn a() { print(\"in vain\") }\n"),
            0
        );
        assert_eq!(
            check(&File::new("README.md", "It is gone for good.\n")).len(),
            1
        );
        assert_eq!(check(&File::new("docs/glossary.md", "for good\n")), []);
    }
}
