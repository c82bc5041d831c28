//! The keys of `study.toml`.

use results::Factor;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// What it studied, in a line.
    pub title: String,
    /// The paper.
    pub paper: Spanned<PaperSpec>,
    /// Measures of this study by name, each a formula of others.
    #[serde(default)]
    pub measure: BTreeMap<String, Spanned<String>>,
    /// What is run.
    #[serde(default)]
    pub run: Vec<RunSpec>,
    /// What the paper shows.
    #[serde(default)]
    pub exhibit: Vec<ExhibitSpec>,
    /// What the paper says.
    #[serde(default)]
    pub finding: Vec<FindingSpec>,
}

/// The paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSpec {
    /// Author, title, year.
    pub cites: String,
    /// Year of the measurements.
    pub year: u32,
    /// Tables it has, numbered from 1.
    pub tables: u32,
    /// Figures it has, numbered from 1.
    pub figures: u32,
}

/// One command. Exactly one of `race`, `sim`, `profile`, `cells` and `channel` is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Its name, unique in the study, and its folder's.
    pub id: Spanned<String>,
    /// Words of `towpath race`.
    pub race: Option<Spanned<String>>,
    /// Words of `towpath sim sweep`; files are those of the study.
    pub sim: Option<Spanned<String>>,
    /// Words of `towpath profile`.
    pub profile: Option<Spanned<String>>,
    /// Words of `towpath cells`.
    pub cells: Option<Spanned<String>>,
    /// Words of `towpath channel`: `forward` or `remap`.
    pub channel: Option<Spanned<String>>,
    /// The words with `--quick`; the same if not given.
    pub quick: Option<Spanned<String>>,
    /// How long it takes on two processors, s; for the time left.
    #[serde(default = "minute")]
    pub takes_s: f64,
    /// Factors that all its points have: `{ size_bytes = 6, mode = "unicast" }`.
    #[serde(default)]
    pub is: BTreeMap<String, FactorSpec>,
    /// Where `--json` lists its points; none if empty.
    #[serde(default)]
    pub list: String,
}

impl RunSpec {
    /// Whether it leaves a file of rows, not a folder of its own.
    pub fn leaves_rows(&self) -> bool {
        self.sim.is_some() || self.cells.is_some() || self.channel.is_some()
    }
}

fn minute() -> f64 {
    60.0
}

/// The value of a factor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum FactorSpec {
    /// Yes or no.
    Flag(bool),
    /// A count or a size.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
}

impl FactorSpec {
    /// As a number of a formula; a flag is 0 or 1.
    pub fn number(&self) -> Option<f64> {
        match self {
            FactorSpec::Flag(flag) => Some(f64::from(u8::from(*flag))),
            FactorSpec::Integer(value) => Some(*value as f64),
            FactorSpec::Number(value) => Some(*value),
            FactorSpec::Text(_) => None,
        }
    }

    /// Whether a cell's factor has this value.
    pub fn is(&self, factor: &Factor) -> bool {
        match (self, factor) {
            (FactorSpec::Text(text), factor) => *text == factor.to_string(),
            (wanted, Factor::Integer(value)) => wanted.number() == Some(*value as f64),
            (wanted, Factor::Number(value)) => wanted.number() == Some(*value),
            (wanted, Factor::Text(text)) => wanted.number() == leading_number(text),
        }
    }
}

/// The number a text begins with: 96 of `96 TU`.
pub fn leading_number(text: &str) -> Option<f64> {
    let digits = |c: char| !(c.is_ascii_digit() || c == '.' || c == '_');
    let end = text.find(digits).unwrap_or(text.len());
    text[..end].replace('_', "").parse().ok()
}

/// Tables and figures that show the same data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExhibitSpec {
    /// Their numbers: `table 2, figures 8, 9`.
    pub shows: Spanned<String>,
    /// What they show, in a line.
    pub title: String,
    /// The file of the printed figures.
    pub csv: Option<Spanned<String>>,
    /// Printed figures given in the text only.
    #[serde(default)]
    pub marks: Vec<MarkSpec>,
    /// Why there are no printed figures, where there are none.
    pub unprinted: Option<String>,
    /// What distinguishes the rows.
    pub row: Option<RowSpec>,
    /// How columns are judged: `2 %`, `digits` (all that are printed) or `shape` (not one by one).
    pub judged: Option<Spanned<String>>,
    /// Judged, but counted apart from the others.
    #[serde(default)]
    pub apart: bool,
    /// Columns of the file that are not shown, each with why: figures that another column gives too.
    #[serde(default)]
    pub unshown: BTreeMap<Spanned<String>, String>,
    /// The measure on the x axis; that of the rows if not given.
    pub x: Option<Spanned<String>>,
    /// The axes of the chart; a table alone if not given.
    pub chart: Option<ChartSpec>,
    /// The columns.
    #[serde(default)]
    pub column: Vec<ColumnSpec>,
    /// Printed figures that cannot be right.
    #[serde(default)]
    pub misprint: Vec<MisprintSpec>,
    /// Why it is not run: a transport that is not built, a right, a feature of the kernel.
    pub absent: Option<String>,
}

/// The chart of an exhibit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChartSpec {
    /// Title of the x axis, unit last.
    pub x: String,
    /// Title of the y axis, unit last.
    pub y: String,
    /// Both axes are linear from zero.
    #[serde(default)]
    pub linear: bool,
}

/// What distinguishes the rows of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowSpec {
    /// The measure or factor.
    pub measure: Spanned<String>,
    /// The column of the file with its values; the first if not given.
    pub csv: Option<Spanned<String>>,
    /// Our points belong to the rows by their order and not by their value.
    #[serde(default)]
    pub by_order: bool,
    /// Misprinted values, and what they should be.
    #[serde(default)]
    pub corrected: Vec<CorrectionSpec>,
}

/// A row with a misprinted value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrectionSpec {
    /// The value printed.
    pub row: f64,
    /// What it should be.
    pub to: f64,
}

/// A column of a table, a curve of its chart. It has `run` and `measure`, or `columns`, or `absent`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// The column of the file; nothing printed if not given.
    pub csv: Option<Spanned<String>>,
    /// The run.
    pub run: Option<Spanned<String>>,
    /// The contestant of a race.
    pub contestant: Option<String>,
    /// Further factors of its points.
    #[serde(default)]
    pub at: BTreeMap<String, FactorSpec>,
    /// The measure, or a formula of measures.
    pub measure: Option<Spanned<String>>,
    /// A formula of other columns of the file, instead of run and measure.
    pub columns: Option<Spanned<String>>,
    /// Why it is not run, instead of run and measure; its printed figures keep their place.
    pub absent: Option<Spanned<String>>,
    /// The unit; a race's measure is converted to it.
    #[serde(default)]
    pub unit: String,
    /// The name of the curve; that of the column if not given.
    pub curve: Option<String>,
    /// What the printed values and ours are multiplied with in the chart; 1 if not given.
    pub chart_scale: Option<f64>,
    /// How it is judged; as the exhibit if not given.
    pub judged: Option<Spanned<String>>,
    /// Rows that are judged more closely.
    pub closer: Option<CloserSpec>,
}

/// Rows that are judged more closely than the rest of their column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloserSpec {
    /// From this row on, as printed.
    pub from: f64,
    /// How.
    pub judged: Spanned<String>,
}

/// A printed figure that cannot be right.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MisprintSpec {
    /// Its row, as printed.
    pub row: f64,
    /// Its column's `csv`.
    pub column: Spanned<String>,
    /// What it contradicts.
    pub because: String,
}

/// A printed figure that the text gives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkSpec {
    /// The value of its row.
    pub row: f64,
    /// Its column's `csv`.
    pub column: Spanned<String>,
    /// The figure.
    pub value: f64,
}

/// A sentence of the paper, and the check of it. Exactly one check is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingSpec {
    /// The sentence, in our words.
    pub says: Spanned<String>,
    /// One figure over another.
    pub ratio: Option<RatioCheck>,
    /// Figures in falling order.
    pub order: Option<OrderCheck>,
    /// One curve crosses another.
    pub crossover: Option<CrossoverCheck>,
    /// A curve is highest at a point.
    pub highest: Option<HighestCheck>,
    /// A curve is a line.
    pub linear: Option<LinearCheck>,
    /// A curve has teeth of one length.
    pub period: Option<PeriodCheck>,
    /// Why it is not checked here.
    pub absent: Option<String>,
}

/// A figure: a measure at a point of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// The run.
    pub run: Spanned<String>,
    /// The contestant of a race.
    pub contestant: Option<String>,
    /// The measure, or a formula of measures.
    pub measure: Spanned<String>,
    /// Factors of the point, or of all points of a curve.
    #[serde(default)]
    pub at: BTreeMap<String, FactorSpec>,
}

/// `of` is at least `at_least` times `to`, or at most `at_most` times; one of the two is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioCheck {
    /// The figure.
    pub of: FigureSpec,
    /// What it is divided by.
    pub to: FigureSpec,
    /// The smallest ratio.
    pub at_least: Option<Spanned<f64>>,
    /// The largest ratio.
    pub at_most: Option<Spanned<f64>>,
}

/// Each figure is larger than the next.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderCheck {
    /// The figures, largest first.
    pub falling: Spanned<Vec<FigureSpec>>,
}

/// `of` is below `to` at `from` and above it at `until`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossoverCheck {
    /// The curve that ends above.
    pub of: FigureSpec,
    /// The one that ends below.
    pub to: FigureSpec,
    /// What varies along them.
    pub x: Spanned<String>,
    /// Where it is still below.
    pub from: f64,
    /// Where it is above.
    pub until: f64,
}

/// The curve is higher at `at_x` than anywhere else.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HighestCheck {
    /// The curve.
    pub of: FigureSpec,
    /// What varies along it.
    pub x: Spanned<String>,
    /// Where it is highest.
    pub at_x: f64,
}

/// No point of the curve is further from its line than `within`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearCheck {
    /// The curve.
    pub of: FigureSpec,
    /// What varies along it.
    pub x: Spanned<String>,
    /// The largest distance, of the line's own value: `5 %`.
    pub within: Spanned<String>,
    /// A line between logarithms: a power law.
    #[serde(default)]
    pub logarithms: bool,
}

/// Falls of a curve come at equal distances.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodCheck {
    /// The curve.
    pub of: FigureSpec,
    /// What varies along it.
    pub x: Spanned<String>,
    /// The distance, as x counts.
    pub is: Spanned<f64>,
    /// The largest difference from it: `3 %`.
    pub within: Spanned<String>,
}
