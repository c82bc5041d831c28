//! Parser of host and link loads.

use testbed::load::host_load::COPIES_MAX;

/// Copies of the artificial workload at the sender and at the receiver, one pair a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLoads(pub Vec<(u32, u32)>);

/// `N[@sender|receiver|both]` or `A..B[@...]`, separated by commas. Two of them with an `x` between are
/// crossed: each load of the first with each of the second.
///
/// # Errors
///
/// A sentence that names the word and the remedy.
pub fn host_loads(text: &str) -> Result<HostLoads, String> {
    let mut settings = Vec::new();
    for word in text.split(',') {
        for setting in crossed(word)? {
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
    }
    Ok(HostLoads(settings))
}

/// The settings of `LOADS` or of `LOADSxLOADS`, the first varied slowest.
fn crossed(text: &str) -> Result<Vec<(u32, u32)>, String> {
    let Some((first, second)) = text.split_once('x') else {
        return one_side(text);
    };
    let (first, second) = (one_side(first)?, one_side(second)?);
    let loads_both = |settings: &[(u32, u32)]| {
        let of = |side: fn(&(u32, u32)) -> u32| settings.iter().any(|loads| side(loads) > 0);
        (of(|loads| loads.0), of(|loads| loads.1))
    };
    let (one, other) = (loads_both(&first), loads_both(&second));
    if (one.0 && other.0) || (one.1 && other.1) {
        return Err(format!(
            "'{text}' loads a host twice; cross the two hosts, as in 0..2@senderx0..2@receiver"
        ));
    }
    let pairs = first.iter().flat_map(|a| {
        let sum = move |b: &(u32, u32)| (a.0 + b.0, a.1 + b.1);
        second.iter().map(sum)
    });
    Ok(pairs.collect())
}

fn one_side(word: &str) -> Result<Vec<(u32, u32)>, String> {
    let (numbers, side) = word.trim().split_once('@').unwrap_or((word, "both"));
    let copies = range(numbers, COPIES_MAX)?;
    let setting: fn(u32) -> (u32, u32) = match side {
        "sender" => |copies| (copies, 0),
        "receiver" => |copies| (0, copies),
        "both" => |copies| (copies, copies),
        other => {
            return Err(format!(
                "there is no host '{other}' to load; choose sender, receiver or both"
            ));
        }
    };
    Ok(copies.map(setting).collect())
}

/// Most host pairs of a link load: each takes two hosts of the testbed, and two are measured.
const PAIRS_MAX: u32 = (testbed::plan::HOSTS_MAX as u32 - 2) / 2;

/// Numbers of host pairs that send over the same link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkLoads {
    /// Pairs, one number a setting.
    pub pairs: Vec<u32>,
    /// What each pair sends, bits of messages a second; None for as much as it can.
    pub rate_bps: Option<u64>,
}

/// `N` or `A..B`, separated by commas, and `@RATE` for what each pair sends: `0..3@750kbit`.
///
/// # Errors
///
/// A sentence that names the word and the remedy.
pub fn link_loads(text: &str) -> Result<LinkLoads, String> {
    let (numbers, rate) = match text.split_once('@') {
        Some((numbers, rate)) => (numbers, Some(rate)),
        None => (text, None),
    };
    let mut loads = LinkLoads {
        rate_bps: rate.map(quantity::rate_bps).transpose()?,
        ..LinkLoads::default()
    };
    for word in numbers.split(',') {
        for pairs in range(word, PAIRS_MAX)? {
            if !loads.pairs.contains(&pairs) {
                loads.pairs.push(pairs);
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
        assert_eq!(loads("0..1@senderx0,2@receiver"), [(0, 0), (1, 0), (0, 2)]);
        assert_eq!(
            loads("0..1@sender x 2..3@receiver"),
            [(0, 2), (0, 3), (1, 2), (1, 3)]
        );
        let link = |text| link_loads(text).expect("loads");
        let unpaced = LinkLoads {
            pairs: vec![0, 1, 2, 3],
            rate_bps: None,
        };
        assert_eq!(link("0..3,2"), unpaced);
        let paced = LinkLoads {
            rate_bps: Some(750_000),
            ..unpaced
        };
        assert_eq!(link("0..3@750kbit"), paced);
    }

    #[test]
    fn load_parse_error_names_remedy() {
        let fault = |text| host_loads(text).expect_err("a fault");
        assert!(fault("much").contains("'much' is no load"));
        assert!(fault("1@moon").contains("choose sender, receiver or both"));
        assert!(fault("1@senderx2@sender").contains("cross the two hosts"));
        assert!(fault("1@senderx2").contains("cross the two hosts"));
        assert!(fault("4..1").contains("backwards"));
        assert!(fault("1000").contains("64 at most"));
        for text in ["1@fast", "1@", "1@750kbit@2"] {
            let fault = link_loads(text).expect_err("a fault");
            assert!(fault.contains("is no rate"), "{fault}");
        }
        assert!(
            link_loads("99")
                .expect_err("a fault")
                .contains("31 at most")
        );
    }
}
