//! The studies that the program brings along.

use crate::form::{FormError, Study};
use std::collections::BTreeMap;

/// A study's files, by name.
type Files = &'static [(&'static str, &'static str)];

/// Key and files of each, as `build.rs` found them.
const STUDIES: &[(&str, Files)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The keys, in order.
pub fn keys() -> Vec<&'static str> {
    STUDIES.iter().map(|(key, _)| *key).collect()
}

/// The study with that key, if there is one.
///
/// # Errors
///
/// A fault in its files, which a test excludes.
pub fn study(key: &str) -> Result<Option<Study>, FormError> {
    let Some((key, files)) = STUDIES.iter().find(|(name, _)| *name == key) else {
        return Ok(None);
    };
    let files = files.iter();
    let files: BTreeMap<String, String> = files
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    Study::parse(key, &format!("studies/{key}"), files).map(Some)
}
