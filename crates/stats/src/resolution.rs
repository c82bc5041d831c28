//! How small a difference a race could see, from its own control.

use results::{Summary, Verdict, VerdictKind};

/// What the A/A control of a race says about the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// The smallest difference that a contest could have shown, 0.012 for 1.2 %: half the width of
    /// the control's interval, in the contest where it is narrowest.
    pub finest: f64,
    /// The same where it is widest.
    pub coarsest: f64,
    /// Contests in which the baseline differs from itself, which equal programs do not.
    pub differs: u32,
}

/// The resolution of a race; None without a control that has an interval.
pub fn resolution(summary: &Summary) -> Option<Resolution> {
    let widths = summary.control.iter().filter_map(half_width);
    let (finest, coarsest) = widths.fold((f64::INFINITY, 0.0_f64), |(least, most), width| {
        (least.min(width), most.max(width))
    });
    let differs = summary
        .control
        .iter()
        .filter(|one| matches!(one.kind, VerdictKind::Faster | VerdictKind::Slower));
    finest.is_finite().then(|| Resolution {
        finest,
        coarsest,
        differs: differs.count() as u32,
    })
}

/// Half the width of an interval of a ratio, as a share: the interval of a contest with that noise
/// excludes 1 from this ratio on.
fn half_width(verdict: &Verdict) -> Option<f64> {
    let width = (verdict.high / verdict.low).sqrt() - 1.0;
    (verdict.low > 0.0 && width.is_finite()).then_some(width)
}

impl Resolution {
    /// `this machine can see 1.2 % in 60 s`.
    pub fn sentence(&self, elapsed_s: f64) -> String {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let (least, most) = (percent(self.finest), percent(self.coarsest));
        let range = match least == most {
            true => least,
            false => format!("{least} to {most}"),
        };
        format!("this machine can see {range} % in {elapsed_s:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Cell, RunStatus, SCHEMA_VERSION};

    fn verdict(low: f64, high: f64, kind: VerdictKind) -> Verdict {
        Verdict {
            contest: Cell::default(),
            metric: "messages_per_s".into(),
            contestant: "tcp".into(),
            baseline: "tcp".into(),
            kind,
            ratio: (low * high).sqrt(),
            low,
            high,
            alpha: 0.05,
            pairs: 5,
            blocks_needed: None,
            because: String::new(),
        }
    }

    fn summary(control: Vec<Verdict>) -> Summary {
        Summary {
            version: SCHEMA_VERSION,
            status: RunStatus::Complete,
            reason: String::new(),
            blocks: 5,
            elapsed_s: 60.0,
            cells: Vec::new(),
            verdicts: Vec::new(),
            overall: Vec::new(),
            control,
            fits: Vec::new(),
            crossovers: Vec::new(),
            beside: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn resolution_is_half_the_width_of_the_controls_intervals() {
        let both = summary(vec![
            verdict(1.0 / 1.012, 1.012, VerdictKind::Equal),
            // It lies off the middle, and is as wide as +- 3 %.
            verdict(1.01, 1.01 * 1.03 * 1.03, VerdictKind::Faster),
        ]);
        let seen = resolution(&both).expect("two controls");
        assert!((seen.finest - 0.012).abs() < 1e-9, "{seen:?}");
        assert!((seen.coarsest - 0.03).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.differs, 1);
        assert_eq!(
            seen.sentence(59.7),
            "this machine can see 1.2 to 3.0 % in 60 s"
        );
    }

    #[test]
    fn control_without_interval_gives_no_resolution() {
        assert_eq!(resolution(&summary(Vec::new())), None);
        let endless = verdict(0.0, f64::INFINITY, VerdictKind::NotEnoughData);
        assert_eq!(resolution(&summary(vec![endless])), None);
    }
}
