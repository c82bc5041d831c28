//! A Rust file with code and comments told apart.

/// A source file. Both views have the same lines, in the same columns, as the file.
#[derive(Debug)]
pub struct Source {
    /// The code; comments and what is in quotes are blank.
    pub code: String,
    /// The comments; everything else is blank.
    pub comments: String,
}

impl Source {
    /// Tells code from comments.
    pub fn parse(text: &str) -> Source {
        let mut scanner = Scanner {
            rest: text,
            code: String::with_capacity(text.len()),
            comments: String::with_capacity(text.len()),
        };
        while !scanner.rest.is_empty() {
            scanner.next();
        }
        Source {
            code: scanner.code,
            comments: scanner.comments,
        }
    }
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
    comments: String,
}

/// What a stretch of text is.
enum Kind {
    Code,
    Comment,
    Quoted,
}

impl Scanner<'_> {
    fn next(&mut self) {
        let rest = self.rest;
        let (kind, len) = if rest.starts_with("//") {
            (Kind::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (Kind::Comment, block_comment(rest))
        } else if let Some(len) = raw_string(rest).filter(|_| !self.in_word()) {
            (Kind::Quoted, len)
        } else if rest.starts_with('"') {
            (Kind::Quoted, closed_by(rest, '"'))
        } else if let Some(len) = character(rest) {
            (Kind::Quoted, len)
        } else {
            (Kind::Code, rest.chars().next().map_or(0, char::len_utf8))
        };
        let (taken, left) = rest.split_at(len);
        let blank: String = taken.chars().map(blank).collect();
        let (code, comment) = match kind {
            Kind::Code => (taken, blank.as_str()),
            Kind::Comment => (blank.as_str(), taken),
            Kind::Quoted => (blank.as_str(), blank.as_str()),
        };
        self.code.push_str(code);
        self.comments.push_str(comment);
        self.rest = left;
    }

    /// Whether the next character continues a name, so that an `r` is not the start of a string.
    fn in_word(&self) -> bool {
        self.code.ends_with(is_word)
    }
}

/// Whether a character may be part of a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

/// Length of a block comment, those inside it included.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of a string such as `r#"..."#` or `br"..."`.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"];
    let prefix = prefix.iter().find(|prefix| text.starts_with(**prefix))?;
    let after = &text[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = prefix.len() + hashes + 1;
    let len = body
        .find(&end)
        .map_or(text.len(), |at| start + at + end.len());
    Some(len)
}

/// Length of a text that starts with `quote`, up to the next one that is not escaped.
fn closed_by(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Length of a character in quotes. A lifetime also starts with one.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return Some(closed_by(text, '\''));
    }
    let mut chars = inside.chars();
    let first = chars.next()?;
    (chars.next() == Some('\'')).then(|| first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let source = Source::parse(text);
        assert_eq!(source.code.lines().count(), text.lines().count());
        source.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn comments(text: &str) -> String {
        Source::parse(text).comments.trim().to_owned()
    }

    #[test]
    fn strings_and_comments_are_no_code() {
        assert_eq!(code("a // b\nc"), "a c");
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code(r#"a("b \" c") + d"#), "a( ) + d");
        assert_eq!(code("a(r#\"b \" { c\"#) d"), "a( ) d");
        assert_eq!(code("for r in x {}"), "for r in x {}");
    }

    #[test]
    fn characters_and_lifetimes_are_distinguished() {
        assert_eq!(code("a('{', '\\'', b)"), "a( , , b)");
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn strings_hold_no_comments() {
        assert_eq!(comments("let a = \"// no\"; // yes"), "// yes");
    }

    #[test]
    fn unclosed_literals_end_with_the_file() {
        assert_eq!(code("a \"b"), "a");
        assert_eq!(code("a /* b"), "a");
        assert_eq!(code("a r#\"b"), "a");
        assert_eq!(code("a '\\"), "a");
    }
}
