//! What happens when the library is loaded: the file of rules is read.

use super::divert::{RULES, discard, make};
use super::library;
use crate::rules::{self, Carrier, Refusal, Rule};
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

/// Names the file of rules.
const RULES_FILE: &str = "TOWPATH_SOCKETS";

/// Octets of the longest file.
const FILE_LEN_MAX: u64 = 65_536;

/// Exit code of a program whose rules were refused.
const REFUSED: libc::c_int = 2;

// SAFETY: the loader calls the functions of this section once, before the program's main.
#[unsafe(link_section = ".init_array")]
#[used]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let Some(file) = std::env::var_os(RULES_FILE).filter(|file| !file.is_empty()) else {
        return;
    };
    match read(&file) {
        Ok(rules) => drop(RULES.set(rules)),
        Err(text) => {
            print_error(&text);
            // SAFETY: ends the process, which has not started yet.
            unsafe { libc::_exit(REFUSED) };
        }
    }
}

/// Writes to standard error.
pub(super) fn print_error(text: &str) {
    // SAFETY: the text is as long as is said. There is nowhere to report a failure to.
    unsafe { super::next::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

fn read(file: &OsStr) -> Result<Vec<Rule>, String> {
    let name = Path::new(file).display();
    let mut text = String::new();
    let opened = std::fs::File::open(file).map(|file| file.take(FILE_LEN_MAX + 1));
    if let Err(error) = opened.and_then(|mut file| file.read_to_string(&mut text)) {
        return Err(format!(
            "towpath: {name}, which {RULES_FILE} names: {error}\n"
        ));
    }
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(format!(
            "towpath: {name} is longer than {FILE_LEN_MAX} octets\n"
        ));
    }
    let in_lines = |refusals: Vec<Refusal>| {
        let line = |refusal: &Refusal| format!("{name}:{}: {}\n", refusal.line, refusal.reason);
        refusals.iter().map(line).collect::<String>()
    };
    let rules = rules::parse(&text).map_err(in_lines)?;
    check_options(&rules).map_err(|refusal| in_lines(vec![refusal]))?;
    Ok(rules)
}

/// Loads libtowpath if a rule needs it, and has it check the options.
fn check_options(rules: &[Rule]) -> Result<(), Refusal> {
    for rule in rules {
        let options = match &rule.carrier {
            Carrier::Diverted(options) => options.as_slice(),
            // There is nothing to check but that the library is there.
            Carrier::Pipe | Carrier::Datagrams { .. } => &[],
            Carrier::Kernel => continue,
        };
        let refused = |reason| Refusal {
            line: rule.line,
            reason,
        };
        let library = library::load().map_err(|error| {
            refused(format!(
                "what carries it is in libtowpath.so, which belongs beside this library: {error}"
            ))
        })?;
        match make(library, options, false) {
            Ok(made) => discard(library, made),
            Err(Some(index)) => {
                let option = &options[index];
                return Err(refused(format!(
                    "option `{option}` is not one of xtp, or not with this value; `towpath transports` lists them"
                )));
            }
            Err(None) => {
                let error = std::io::Error::last_os_error();
                return Err(refused(format!("no socket: {error}")));
            }
        }
    }
    Ok(())
}
