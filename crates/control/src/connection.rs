//! What a connection said of itself during a job with [`Job::series`](crate::Job::series).

/// A value of a connection that is recorded over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionValue {
    /// Its name in reports and results.
    pub name: &'static str,
    /// Unit in results.
    pub unit: &'static str,
    /// What a value as recorded is multiplied by to have that unit.
    pub scale: f64,
}

const fn value(name: &'static str, unit: &'static str, scale: f64) -> ConnectionValue {
    ConnectionValue { name, unit, scale }
}

/// All of them, in the order of reports. Recorded are octets, nanoseconds, packets, and octets a second.
pub const CONNECTION_VALUES: [ConnectionValue; 7] = [
    value("congestion_window", "kB", 1e-3),
    value("send_window", "kB", 1e-3),
    value("in_flight", "kB", 1e-3),
    value("smoothed_rtt", "ms", 1e-6),
    value("retransmissions", "packets", 1.0),
    value("delivery_rate", "Mbit/s", 8e-6),
    value("sending_rate", "Mbit/s", 8e-6),
];

/// Name of an option in effect: why a circuit of such a job has no series.
pub const NO_SERIES: &str = "no_series";
