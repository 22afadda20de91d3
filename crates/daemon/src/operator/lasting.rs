//! How long, how long ago and how many, in words.

use jiff::Timestamp;

/// `4 min`, `2 h`.
pub fn lasting(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

/// `45 s`, `30 min`, `7 h 59 min`: how long something stays as it is.
pub fn to_the_minute(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `1 value`, `2 values`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `4 min ago`.
pub fn ago(at: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(at).as_secs();
    format!("{} ago", lasting(u64::try_from(seconds).unwrap_or(0)))
}
