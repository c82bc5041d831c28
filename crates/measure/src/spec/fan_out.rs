//! One sender and several receivers.

use super::Contest;
use results::{Cell, Factor};
use std::fmt;
use std::str::FromStr;

/// Receivers of one sender, at most: each is a process, and on a link a host of its own.
pub const RECEIVERS_MAX: u32 = 16;

/// Several receivers of one sender, each in a worker of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanOut {
    /// How many, from 1 to [`RECEIVERS_MAX`].
    pub receivers: u32,
    /// Who gets a message.
    pub choice: FanOutChoice,
}

/// Who gets a message of a sender to several receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanOutChoice {
    /// All receivers.
    All,
    /// One receiver, whose circuit has room.
    One,
}

impl FanOut {
    /// The factor of a cell: a number, so that receivers are an axis, or a text where they share messages out.
    fn factor(self) -> Factor {
        match self.choice {
            FanOutChoice::All => Factor::from(u64::from(self.receivers)),
            FanOutChoice::One => Factor::from(self.to_string().as_str()),
        }
    }
}

/// A contest with each of these receivers; the same where there are none.
pub(super) fn with_each(all: &[FanOut], contest: Contest) -> Vec<Contest> {
    if all.is_empty() {
        return vec![contest];
    }
    let with = |&fan_out: &FanOut| Contest {
        cell: contest.cell.clone().with(Cell::FAN_OUT, fan_out.factor()),
        fan_out: Some(fan_out),
        ..contest.clone()
    };
    all.iter().map(with).collect()
}

impl fmt::Display for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.choice {
            FanOutChoice::All => write!(f, "{}", self.receivers),
            FanOutChoice::One => write!(f, "{}@one", self.receivers),
        }
    }
}

impl FromStr for FanOut {
    type Err = String;

    /// From `N` or `N@one`.
    fn from_str(text: &str) -> Result<FanOut, String> {
        let (number, choice) = match text.split_once('@') {
            None => (text, FanOutChoice::All),
            Some((number, "one")) => (number, FanOutChoice::One),
            Some((_, other)) => {
                return Err(format!(
                    "'@{other}' is no way to share messages out; give N for each message to all, or N@one"
                ));
            }
        };
        let receivers = number.parse().ok();
        let receivers = receivers.filter(|count| (1..=RECEIVERS_MAX).contains(count));
        let receivers = receivers.ok_or_else(|| {
            format!("'{number}' receivers are out of range; give 1 to {RECEIVERS_MAX}")
        })?;
        Ok(FanOut { receivers, choice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_has_number_and_choice() {
        for text in ["1", "16", "4@one"] {
            assert_eq!(
                text.parse::<FanOut>().map(|one| one.to_string()),
                Ok(text.to_owned())
            );
        }
        for (text, remedy) in [
            ("0", "give 1 to 16"),
            ("17", "give 1 to 16"),
            ("4@any", "N@one"),
            ("", "give 1 to 16"),
        ] {
            let why = text.parse::<FanOut>().expect_err(text);
            assert!(why.contains(remedy), "{why}");
        }
    }
}
