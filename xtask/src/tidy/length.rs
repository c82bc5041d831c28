//! Files and functions a reader can take in.

use super::source::is_word;
use super::{Fault, File};

/// Lines of a source file at most.
const FILE_MAX: usize = 500;

/// Lines of a function at most, from `fn` to its closing brace.
const FUNCTION_MAX: usize = 70;

pub(super) fn check(file: &File) -> Vec<Fault> {
    let Some(source) = &file.rust else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_MAX {
        let what = format!("{lines} lines, at most {FILE_MAX}; split it by topic");
        faults.push(file.fault(0, what));
    }
    for (line, length) in functions(&source.code) {
        if length > FUNCTION_MAX {
            let what = format!("a function of {length} lines, at most {FUNCTION_MAX}");
            faults.push(file.fault(line, what));
        }
    }
    faults
}

/// First line and number of lines of each function with a body.
pub(super) fn functions(code: &str) -> Vec<(usize, usize)> {
    let starts = code.match_indices("fn ").map(|(at, _)| at);
    let starts = starts.filter(|at| !code[..*at].ends_with(is_word));
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let spans = starts.filter_map(|start| {
        let end = start + body_end(&code[start..])?;
        Some((line_of(start), line_of(end) - line_of(start) + 1))
    });
    spans.collect()
}

/// Where the body ends that follows; None for a declaration, or for a type such as `fn(u8)`.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0_u32, 0_u32);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.checked_sub(1)?,
            ';' | ',' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_with_both_ends() {
        let code = "fn a() {\n    b();\n}\nfn c();\nimpl D {\n    fn e(x: [u8; 2]) {}\n}\n";
        assert_eq!(functions(code), [(1, 3), (6, 1)]);
    }

    #[test]
    fn a_type_is_no_function() {
        assert_eq!(
            functions("type A = fn (u8) -> u8;\nstruct B { c: fn (), d: u8 }"),
            []
        );
    }

    #[test]
    fn a_long_function_and_a_long_file_are_faults() {
        let long = format!("fn a() {{\n{}}}\n", "b();\n".repeat(FUNCTION_MAX));
        assert_eq!(check(&File::new("a.rs", long)).len(), 1);
        let long = "// a\n".repeat(FILE_MAX + 1);
        assert_eq!(check(&File::new("a.rs", long)).len(), 1);
        assert_eq!(check(&File::new("a.rs", "fn a() {}\n")), []);
    }
}
