//! Requests of options (T_OPTMGMT_REQ), as all providers that have options answer them.

use crate::error::TliError;
use crate::tpi::{
    ALL_OPTIONS, OptionStatus, OptionsAction, Primitive, TransportOption, number, parse_options,
    write_options,
};
use std::io;

/// Octets of the options of one request.
pub(crate) const OPTIONS_MAX: usize = 512;

/// Which option: its level and its name.
pub(crate) type Key = (u32, u32);

/// The option that a request or an answer is about.
pub(crate) fn key(option: &TransportOption) -> Key {
    (option.level, option.name)
}

/// EIO: the system refused without a number.
const NO_NUMBER: i32 = 5;

/// The answer to T_OPTMGMT_REQ of a provider with the options `known`: `manage` says what became of each.
pub(crate) fn answer(
    octets: &[u8],
    flags: u32,
    known: &[Key],
    manage: impl FnOnce(&[TransportOption], OptionsAction) -> io::Result<Vec<TransportOption>>,
) -> Primitive {
    let refused = |tli: TliError, errno: i32| Primitive::ErrorAck {
        of: number::OPTMGMT_REQ,
        tli: tli as u32,
        errno: errno as u32,
    };
    let Some(action) = OptionsAction::from_number(flags) else {
        return refused(TliError::BadFlag, 0);
    };
    let Some(requests) = requests(octets, action, known) else {
        return refused(TliError::BadOption, 0);
    };
    let options = match manage(&requests, action) {
        Ok(options) => options,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(NO_NUMBER);
            return refused(TliError::System, errno);
        }
    };
    let all = options.iter().filter_map(|option| option.status);
    Primitive::OptionsAck {
        flags: all.fold(OptionStatus::Success, OptionStatus::worse) as u32,
        options: write_options(&options),
    }
}

/// The options that are asked for, T_ALLOPT as all of its level; None where the request is wrong.
fn requests(octets: &[u8], action: OptionsAction, known: &[Key]) -> Option<Vec<TransportOption>> {
    if octets.len() > OPTIONS_MAX {
        return None;
    }
    let requests = parse_options(octets)?;
    let first = requests.first()?;
    let one_level = |option: &TransportOption| option.level == first.level;
    let all = |option: &TransportOption| option.name == ALL_OPTIONS;
    if !requests.iter().all(one_level) {
        return None;
    }
    if !requests.iter().any(all) {
        return Some(requests);
    }
    if requests.len() > 1 || action == OptionsAction::Check {
        return None;
    }
    let of_level = known.iter().filter(|key| key.0 == first.level);
    let expanded: Vec<_> = of_level
        .map(|&(level, name)| TransportOption {
            level,
            name,
            status: None,
            value: Vec::new(),
        })
        .collect();
    // A level without options is answered as an option that there is not.
    Some(if expanded.is_empty() {
        requests
    } else {
        expanded
    })
}

/// A number in 1, 4 or 8 octets (programs say `long`); None in others, or for a larger one than 32 bits hold.
pub(crate) fn number_in(octets: &[u8]) -> Option<u32> {
    let number = match octets.len() {
        1 => u64::from(octets[0]),
        4 => u64::from(u32::from_ne_bytes(octets.try_into().ok()?)),
        8 => u64::from_ne_bytes(octets.try_into().ok()?),
        _ => return None,
    };
    u32::try_from(number).ok()
}

/// The octets of a number, as many as the user gave it.
pub(crate) fn octets_of(len: usize, number: u32) -> Vec<u8> {
    match (len, u8::try_from(number)) {
        (1, Ok(octet)) => vec![octet],
        (8, _) => u64::from(number).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    }
}
