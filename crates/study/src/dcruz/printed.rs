//! The figures printed in the study, as files of this repository, misprints included.

/// A point of tables 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedPoint {
    /// Offered load, user bytes a second.
    pub offered_bps: f64,
    /// Effective throughput, octets a second.
    pub throughput_bps: f64,
    /// The same in thousands.
    pub throughput_kbps: f64,
    /// Minimum delay, time units.
    pub min_delay_tu: f64,
    /// Message delay, time units.
    pub message_delay_tu: f64,
    /// The same in milliseconds.
    pub message_delay_ms: f64,
}

/// Throughput and delay of a size, in the order of `SIZES`.
const POINTS: [(&str, &str); 4] = [
    (
        include_str!("../../../../studies/dcruz-1992/table-01-throughput-unicast-6B.csv"),
        include_str!("../../../../studies/dcruz-1992/table-02-delay-unicast-6B.csv"),
    ),
    (
        include_str!("../../../../studies/dcruz-1992/table-03-throughput-unicast-128B.csv"),
        include_str!("../../../../studies/dcruz-1992/table-04-delay-unicast-128B.csv"),
    ),
    (
        include_str!("../../../../studies/dcruz-1992/table-05-throughput-unicast-1024B.csv"),
        include_str!("../../../../studies/dcruz-1992/table-06-delay-unicast-1024B.csv"),
    ),
    (
        include_str!("../../../../studies/dcruz-1992/table-07-throughput-unicast-8192B.csv"),
        include_str!("../../../../studies/dcruz-1992/table-08-delay-unicast-8192B.csv"),
    ),
];

/// Tables 17 to 21.
const EXPECTED: [&str; 5] = [
    include_str!("../../../../studies/dcruz-1992/table-17-expected-throughput-unicast-v33-v34.csv"),
    include_str!("../../../../studies/dcruz-1992/table-18-expected-throughput-unicast-v35.csv"),
    include_str!("../../../../studies/dcruz-1992/table-19-expected-throughput-multicast-v35.csv"),
    include_str!(
        "../../../../studies/dcruz-1992/table-20-expected-unicast-vs-multicast-resend-pairs.csv"
    ),
    include_str!(
        "../../../../studies/dcruz-1992/table-21-expected-unicast-vs-multicast-no-resend-pairs.csv"
    ),
];

fn rows(table: &str) -> Vec<Vec<f64>> {
    let lines = table.lines().skip(1).filter(|line| !line.is_empty());
    lines.map(cells_of).collect()
}

fn cells_of(line: &str) -> Vec<f64> {
    let cells = line.split(',');
    cells
        .map(|cell| cell.trim().parse().unwrap_or(f64::NAN))
        .collect()
}

fn cell(rows: &[Vec<f64>], row: usize, column: usize) -> Option<f64> {
    rows.get(row)?.get(column).copied()
}

/// The figures of 3.5 unicast without resend pairs in tables 1 to 8.
pub fn point(size: usize, load: usize, with_delays: bool) -> Option<PrintedPoint> {
    let (throughput, delay) = POINTS.get(size)?;
    let (throughput, delay) = (rows(throughput), rows(delay));
    let right = usize::from(with_delays);
    Some(PrintedPoint {
        offered_bps: cell(&throughput, load, 1)?,
        throughput_bps: cell(&throughput, load, 2 + 2 * right)?,
        throughput_kbps: cell(&throughput, load, 3 + 2 * right)?,
        min_delay_tu: cell(&delay, load, 2 + 3 * right)?,
        message_delay_tu: cell(&delay, load, 3 + 3 * right)?,
        message_delay_ms: cell(&delay, load, 4 + 3 * right)?,
    })
}

/// A row of table 17 ... 21: size and three figures.
pub fn expected(table: usize, row: usize) -> Option<[f64; 4]> {
    let rows = rows(EXPECTED.get(table.checked_sub(17)?)?);
    rows.get(row)?.as_slice().try_into().ok()
}

/// Why a throughput of tables 17 to 19 cannot be right, if it cannot. `column` 1 is with resend
/// pairs, 2 without. The figure is size over octets of the exchange times 1,250,000, rounded.
pub fn expected_fault(table: usize, row: usize, column: usize) -> Option<&'static str> {
    let figures = expected(table, row)?;
    let octets = |column: usize| figures[0] * 1_250_000.0 / figures[column];
    let rounding = |column: usize| octets(column) * 0.5 / figures[column] + 1e-6;
    let off = octets(column) - octets(column).round();
    if off.abs() > rounding(column) {
        return Some("no whole number of octets gives it");
    }
    let pairs = (octets(1) - octets(2)).round() as i64;
    let whole = (octets(2) - octets(2).round()).abs() <= rounding(2);
    (column == 1 && whole && pairs % 128 != 0)
        .then_some("resend pairs are 128 octets a control packet; by its row they are not")
}

impl PrintedPoint {
    /// Why the throughput disagrees with its own row, if it does. `packet_bps` is the load of the
    /// row in octets of packets.
    pub fn throughput_fault(&self, packet_bps: f64) -> Option<&'static str> {
        if (self.throughput_bps / 1000.0 - self.throughput_kbps).abs() > 0.06 {
            return Some("its B/s and KB/s disagree");
        }
        // Three seeds of 10,000 exponential times differ from their mean by 0.6 % (one sigma).
        (self.throughput_bps > packet_bps * 1.03).then_some("it exceeds the load of its row")
    }

    /// Why the delays disagree with their own row, if they do: message delay is offered load over
    /// throughput times minimum delay.
    pub fn delay_fault(&self, packet_bps: f64) -> Option<&'static str> {
        let formula = self.offered_bps / self.throughput_bps * self.min_delay_tu;
        if self.throughput_fault(packet_bps).is_some() {
            return Some("the throughput it is made from disagrees with its row");
        }
        if (formula / self.message_delay_tu - 1.0).abs() > 0.02 {
            return Some("it is not load / throughput x minimum delay");
        }
        let ms = self.message_delay_tu / 1e4;
        ((ms - self.message_delay_ms).abs() > 0.006).then_some("its time units and ms disagree")
    }
}
