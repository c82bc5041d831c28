//! The measures: names, units, and which direction is better.

/// A measure as reports show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Key in a trial's `metrics`, unit last.
    pub name: &'static str,
    /// Its label in reports.
    pub label: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub more_is_better: bool,
}

/// Messages the receiver got a second: the primary measure of `throughput`.
pub const MESSAGES_PER_S: &str = "messages_per_s";
/// User bits the receiver got, 10^6 a second.
pub const MBIT_PER_S: &str = "mbit_per_s";
/// Median round trip: the primary measure of `delay`.
pub const DELAY_P50_US: &str = "delay_p50_us";
/// Messages delivered a second at an offered load: the primary measure of `offered`.
pub const DELIVERED_PER_S: &str = "delivered_per_s";
/// Messages offered a second.
pub const OFFERED_PER_S: &str = "offered_per_s";
/// The largest rate delivered at any of several offered loads; of a sweep, not of a trial.
pub const PEAK_PER_S: &str = "peak_per_s";
/// Share of the messages sent that were not delivered.
pub const LOSS_FRACTION: &str = "loss_fraction";
/// Set-up, request, tear-down: the primary measure of `connect`.
pub const CONNECTIONS_PER_S: &str = "connections_per_s";
/// Requests answered a second, of all clients: the primary measure of `transactions`.
pub const TRANSACTIONS_PER_S: &str = "transactions_per_s";
/// Replies to short messages beside bulk, a minute: the primary measure of `responsive`.
pub const ROUND_TRIPS_PER_MIN: &str = "round_trips_per_min";
/// Messages that the sender handed over a second: the primary measure of `send`.
pub const SENT_PER_S: &str = "sent_per_s";
/// Time of a message that is sent into a wire which discards, its copies included.
pub const SEND_NS_PER_MESSAGE: &str = "send_ns_per_message";
/// What of it copies of packets take.
pub const COPY_NS_PER_MESSAGE: &str = "copy_ns_per_message";
/// What is left of it: the protocol, and the user's call.
pub const REST_NS_PER_MESSAGE: &str = "rest_ns_per_message";
/// Share of copies in the time of a send.
pub const COPY_FRACTION: &str = "copy_fraction";
/// Requests of one client answered a second, the median of the clients.
pub const CLIENT_PER_S: &str = "client_per_s";
/// User bits a second of both directions, in parts of what the link could carry in one.
pub const LINK_SHARE_FRACTION: &str = "link_share_fraction";

/// Time of a fixed number of messages, from the start of the trial to the last arrival.
pub const TOTAL_S: &str = "total_s";
/// The same for one of them.
pub const S_PER_MESSAGE: &str = "s_per_message";

/// Before the number of a circuit among several of one transport, in names of measures of single circuits.
pub const LEG_NUMBER: char = '#';

/// All measures, in the order they are shown.
pub const METRICS: &[Metric] = &[
    metric(MESSAGES_PER_S, "messages received", "/s", true),
    metric(MBIT_PER_S, "throughput received", "Mbit/s", true),
    metric(DELAY_P50_US, "round trip, median", "us", false),
    metric("delay_p90_us", "round trip, 90 %", "us", false),
    metric("delay_p99_us", "round trip, 99 %", "us", false),
    metric("delay_p999_us", "round trip, 99.9 %", "us", false),
    metric("delay_mean_us", "round trip, mean", "us", false),
    metric(ROUND_TRIPS_PER_MIN, "round trips beside bulk", "/min", true),
    metric(
        "idle_p50_us",
        "round trip without bulk, median",
        "us",
        false,
    ),
    metric("idle_p99_us", "round trip without bulk, 99 %", "us", false),
    metric(
        "idle_p999_us",
        "round trip without bulk, 99.9 %",
        "us",
        false,
    ),
    metric(DELIVERED_PER_S, "messages delivered", "/s", true),
    metric(PEAK_PER_S, "messages delivered at most", "/s", true),
    metric(OFFERED_PER_S, "messages offered", "/s", true),
    metric(LOSS_FRACTION, "messages lost", "", false),
    metric("lag_p99_us", "generator lag, 99 %", "us", false),
    metric(CONNECTIONS_PER_S, "connections", "/s", true),
    metric("connection_p50_us", "connection, median", "us", false),
    metric(TRANSACTIONS_PER_S, "transactions", "/s", true),
    metric(CLIENT_PER_S, "transactions, each client", "/s", true),
    metric(
        "client_min_per_s",
        "transactions, slowest client",
        "/s",
        true,
    ),
    metric(
        "client_max_per_s",
        "transactions, fastest client",
        "/s",
        true,
    ),
    metric("request_mbit_per_s", "requests", "Mbit/s", true),
    metric("reply_mbit_per_s", "replies", "Mbit/s", true),
    metric("service_mean_us", "service, mean", "us", false),
    metric(LINK_SHARE_FRACTION, "share of the link", "", true),
    metric(SENT_PER_S, "messages sent", "/s", true),
    metric(
        SEND_NS_PER_MESSAGE,
        "send, with copies",
        "ns/message",
        false,
    ),
    metric(COPY_NS_PER_MESSAGE, "copies", "ns/message", false),
    metric(
        REST_NS_PER_MESSAGE,
        "send, without copies",
        "ns/message",
        false,
    ),
    metric(COPY_FRACTION, "share of copies", "", false),
    metric("packets_per_s", "packets sent", "/s", true),
    metric(TOTAL_S, "time of all messages", "s", false),
    metric(S_PER_MESSAGE, "time of a message", "s", false),
    metric("cpu_ns_per_message", "CPU, both ends", "ns/message", false),
    metric("cpu_ns_per_byte", "CPU, both ends", "ns/B", false),
    metric(
        "sender_cpu_ns_per_message",
        "CPU, sender",
        "ns/message",
        false,
    ),
    metric(
        "receiver_cpu_ns_per_message",
        "CPU, receiver",
        "ns/message",
        false,
    ),
    metric("fairness", "fairness (Jain)", "", true),
];

const fn metric(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    more_is_better: bool,
) -> Metric {
    Metric {
        name,
        label,
        unit,
        more_is_better,
    }
}

/// The measure of that name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Measure and circuit of a measure of one of several circuits that ran together: `messages_per_s.tcp#1`.
pub fn of_leg(name: &str) -> Option<(&str, &str)> {
    name.split_once('.')
}

/// The measure verdicts of a workload are about.
pub fn primary(workload: &str) -> &'static str {
    match workload {
        "delay" => DELAY_P50_US,
        "offered" => DELIVERED_PER_S,
        "connect" => CONNECTIONS_PER_S,
        "transactions" => TRANSACTIONS_PER_S,
        "responsive" => ROUND_TRIPS_PER_MIN,
        "send" => SENT_PER_S,
        _ => MESSAGES_PER_S,
    }
}
