//! The choice of a congestion controller, and the words for it in options and files.

/// Congestion control of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// None: only the peer's window and configured rates limit the sender.
    Off,
    /// Slow start, then one segment more a round trip; halves after a loss. See
    /// [`crate::new_reno`].
    NewReno,
    /// As `NewReno`; also leaves slow start or shrinks by an eighth when the RTT exceeds twice the
    /// minimum RTT. See [`crate::ledbat`] for how far this is LEDBAT.
    Ledbat,
    /// Paces at the measured delivery rate and probes for more. It ignores single losses, so use it
    /// on paths with random loss. See [`crate::bbr`].
    Bbr,
}

/// Words of earlier versions, accepted wherever the names are.
const ALIASES: [(&str, Congestion); 3] = [
    ("loss", Congestion::NewReno),
    ("delay", Congestion::Ledbat),
    ("rate", Congestion::Bbr),
];

impl Congestion {
    /// All of them, in the order of help texts.
    pub const ALL: [Congestion; 4] = [
        Congestion::Off,
        Congestion::NewReno,
        Congestion::Ledbat,
        Congestion::Bbr,
    ];

    /// The word for it in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::Off => "off",
            Congestion::NewReno => "newreno",
            Congestion::Ledbat => "ledbat",
            Congestion::Bbr => "bbr",
        }
    }

    /// The controller that `word` names. `loss`, `delay` and `rate` are aliases of `newreno`,
    /// `ledbat` and `bbr`. None for any other word.
    pub fn from_name(word: &str) -> Option<Congestion> {
        let named = Congestion::ALL.into_iter().find(|one| one.name() == word);
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == word);
        named.or_else(|| alias().map(|(_, one)| *one))
    }

    /// All names, for messages that refuse a word.
    pub fn names() -> String {
        Congestion::ALL.map(Congestion::name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_name_finds_each_name_and_alias_and_nothing_else() {
        for one in Congestion::ALL {
            assert_eq!(Congestion::from_name(one.name()), Some(one));
        }
        assert_eq!(Congestion::from_name("loss"), Some(Congestion::NewReno));
        assert_eq!(Congestion::from_name("delay"), Some(Congestion::Ledbat));
        assert_eq!(Congestion::from_name("rate"), Some(Congestion::Bbr));
        assert_eq!(Congestion::from_name("cubic"), None);
        assert_eq!(Congestion::from_name(""), None);
        assert_eq!(Congestion::names(), "off, newreno, ledbat, bbr");
    }
}
