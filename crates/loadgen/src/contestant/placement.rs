//! Where the workers of one contestant run: `pin=S/R` and `priority=S/R`, of sender and receiver, which
//! override `--pin` and `--priority`. Every transport has them.

/// Highest CPU number that is worth asking the system for.
const CPU_MAX: u32 = 8191;

/// Range of nice values.
const NICE: std::ops::RangeInclusive<i32> = -20..=19;

/// The options' names.
pub(super) const PIN: &str = "pin";
pub(super) const PRIORITY: &str = "priority";

/// Values of sender and receiver; None where nothing is set.
pub type Sides<T> = (Option<T>, Option<T>);

/// `0/1`, one CPU for both (`0`), or `none`, also of one side (`none/1`).
pub(super) fn pin(text: &str) -> Result<Sides<u32>, String> {
    let fault = || {
        format!("'{text}' is no pin; write pin=SENDER/RECEIVER with CPUs, for example 0/1, or none")
    };
    sides(text, |side| side.parse().ok().filter(|cpu| *cpu <= CPU_MAX)).ok_or_else(fault)
}

/// `-20/19`, or one nice value for both.
pub(super) fn priority(text: &str) -> Result<Sides<i32>, String> {
    let fault = || {
        format!(
            "'{text}' is no priority; write priority=SENDER/RECEIVER with nice values from -20 to \
             19, for example -20/19"
        )
    };
    sides(text, |side| {
        side.parse().ok().filter(|nice| NICE.contains(nice))
    })
    .ok_or_else(fault)
}

fn sides<T: Copy>(text: &str, number: impl Fn(&str) -> Option<T>) -> Option<Sides<T>> {
    let side = |side: &str| match side {
        "none" => Some(None),
        other => number(other).map(Some),
    };
    match text.split_once('/') {
        Some((sender, receiver)) => Some((side(sender)?, side(receiver)?)),
        None => side(text).map(|both| (both, both)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_has_a_value_a_side_or_one_for_both() {
        assert_eq!(pin("0/1"), Ok((Some(0), Some(1))));
        assert_eq!(pin("3"), Ok((Some(3), Some(3))));
        assert_eq!(pin("none/1"), Ok((None, Some(1))));
        assert_eq!(pin("none"), Ok((None, None)));
        assert_eq!(priority("-20/19"), Ok((Some(-20), Some(19))));
        for text in ["", "/", "0/", "a", "-1", "0/1/2", "9999"] {
            assert!(pin(text).is_err(), "{text}");
        }
        for text in ["20", "-21/0", "x/0"] {
            let why = priority(text).expect_err(text);
            assert!(why.contains("for example -20/19"), "{why}");
        }
    }
}
