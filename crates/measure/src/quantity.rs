//! Parser of sizes such as `64`, `1KiB` or `2MB`.

/// `64`, `1KiB`, `16k` (1024 each), `2MB` (10^6) as bytes.
///
/// # Errors
///
/// A sentence naming the text.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("'{text}' is no size; write for example 64, 1KiB or 16KiB"))?;
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "kB" => 1_000,
        "MB" => 1_000_000,
        other => {
            return Err(format!(
                "unknown unit '{other}' in '{text}'; use B, KiB, MiB, kB or MB"
            ));
        }
    };
    let bytes = number.checked_mul(factor);
    bytes.ok_or_else(|| format!("'{text}' is more than can be counted"))
}
