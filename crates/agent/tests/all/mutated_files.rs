//! Files of keys with mutated contents are read or refused, never a panic.

#[path = "../../../../fuzz/src/text.rs"]
mod text;

use crate::common::{Scratch, trusting_keys};
use agent::keys::KeyFolder;
use std::fs;
use text::{Draws, mutated};

#[test]
fn mutated_key_files_are_read_or_refused() {
    let scratch = Scratch::new();
    let (keys, _) = trusting_keys(&scratch);
    let read = |name: &str| fs::read_to_string(keys.path().join(name)).expect("a text");
    let names = file_names(&keys);
    assert!(names.contains(&"trusted".to_owned()), "{names:?}");
    for name in names {
        let text = read(&name);
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..600 {
            let octets = mutated(&text, &mut Draws(seed));
            // Written over, so that owner and mode stay.
            fs::write(keys.path().join(&name), octets).expect("it is written");
            let outcome = keys.trusted().map(drop).and(keys.identity().map(drop));
            match outcome {
                Ok(()) => accepted += 1,
                Err(error) => {
                    refused += 1;
                    let shown = error.to_string();
                    assert!(!shown.contains(char::is_control), "{shown:?}");
                }
            }
        }
        fs::write(keys.path().join(&name), text).expect("it is written");
        assert!(
            refused > 50,
            "{name}: {accepted} accepted, {refused} refused"
        );
    }
    keys.identity().expect("the files are whole again");
}

/// The files of a folder of keys that hold text.
fn file_names(keys: &KeyFolder) -> Vec<String> {
    let entries = fs::read_dir(keys.path()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("plain names"));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}
