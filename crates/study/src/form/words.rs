//! The words of a command, as a shell would split them: spaces, single and double quotes, no
//! variables.

/// Most words of a command.
pub const WORDS_MAX: usize = 1000;

/// The words of `text`.
///
/// # Errors
///
/// A quote that is not closed, or too many words.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() {
        return Err("a quote is not closed; close it".to_owned());
    }
    if words.len() > WORDS_MAX {
        return Err(format!("more than {WORDS_MAX} words; split the run"));
    }
    Ok(words)
}

/// The words as a line for a shell.
pub fn join(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = words.iter().map(|word| match word.chars().all(plain) {
        true if !word.is_empty() => word.clone(),
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_keep_their_spaces() {
        let words = split(" race tcp  --points 'a=1 TU,2 TU' \"\" x'y'z ").expect("words");
        assert_eq!(words, ["race", "tcp", "--points", "a=1 TU,2 TU", "", "xyz"]);
        assert_eq!(split(&join(&words)), Ok(words));
    }

    #[test]
    fn open_quote_is_refused() {
        assert!(split("race 'tcp").is_err());
    }
}
