//! Parser of host and link loads.

use testbed::load::host_load::COPIES_MAX;

/// Copies of the artificial workload at the sender and at the receiver, one pair a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLoads(pub Vec<(u32, u32)>);

/// `N[@sender|receiver|both]` or `A..B[@...]`, separated by commas.
///
/// # Errors
///
/// A sentence that names the word and the remedy.
pub fn host_loads(text: &str) -> Result<HostLoads, String> {
    let mut settings = Vec::new();
    for word in text.split(',') {
        let (numbers, side) = word.split_once('@').unwrap_or((word, "both"));
        for copies in range(numbers, COPIES_MAX)? {
            let setting = match side {
                "sender" => (copies, 0),
                "receiver" => (0, copies),
                "both" => (copies, copies),
                other => {
                    return Err(format!(
                        "there is no host '{other}' to load; choose sender, receiver or both"
                    ));
                }
            };
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
    }
    Ok(HostLoads(settings))
}

/// Most host pairs of a link load: each takes two hosts of the testbed, and two are measured.
const PAIRS_MAX: u32 = (testbed::plan::HOSTS_MAX as u32 - 2) / 2;

/// `N` or `A..B`, separated by commas.
///
/// # Errors
///
/// A sentence that names the word and the remedy.
pub fn link_loads(text: &str) -> Result<Vec<u32>, String> {
    let mut loads = Vec::new();
    for word in text.split(',') {
        for pairs in range(word, PAIRS_MAX)? {
            if !loads.contains(&pairs) {
                loads.push(pairs);
            }
        }
    }
    Ok(loads)
}

fn range(text: &str, most: u32) -> Result<std::ops::RangeInclusive<u32>, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| {
        let value: Option<u32> = text.trim().parse().ok();
        let fault =
            || format!("'{text}' is no load; give a number such as 2, or a range such as 0..4");
        value.ok_or_else(fault)
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!(
            "the range {text} runs backwards; give {last}..{first}"
        ));
    }
    if last > most {
        return Err(format!(
            "a load of {last} is more than there can be; give {most} at most"
        ));
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_specs_parse() {
        let loads = |text| host_loads(text).expect("loads").0;
        assert_eq!(loads("2"), [(2, 2)]);
        assert_eq!(loads("1@sender,1@receiver"), [(1, 0), (0, 1)]);
        // No load is one setting, even if it is given twice.
        assert_eq!(
            loads("0..2@sender,0..1@receiver"),
            [(0, 0), (1, 0), (2, 0), (0, 1)]
        );
        assert_eq!(link_loads("0..3,2"), Ok(vec![0, 1, 2, 3]));
    }

    #[test]
    fn load_parse_error_names_remedy() {
        let fault = |text| host_loads(text).expect_err("a fault");
        assert!(fault("much").contains("'much' is no load"));
        assert!(fault("1@moon").contains("choose sender, receiver or both"));
        assert!(fault("4..1").contains("backwards"));
        assert!(fault("1000").contains("64 at most"));
        assert!(
            link_loads("99")
                .expect_err("a fault")
                .contains("31 at most")
        );
    }
}
