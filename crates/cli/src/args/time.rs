//! Times as people say them.

use jiff::{Span, Timestamp, ToSpan as _, Zoned, civil::Date};

/// `2026-02-08T10:00:00Z`, `2026-02-08`, `today`, `yesterday`, or how long ago: `3h`, `2d`.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_at(text, &Zoned::now())
}

fn moment_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let forms = || {
        "a time is 2026-02-08T10:00:00Z, 2026-02-08, today, yesterday, or how long ago: 3h, 2d"
            .to_owned()
    };
    let start = |day: Date| {
        day.to_zoned(now.time_zone().clone()).map(|zoned| zoned.timestamp()).map_err(|_| forms())
    };
    match text {
        "now" => return Ok(now.timestamp()),
        "today" => return start(now.date()),
        "yesterday" => return start(now.date().yesterday().map_err(|_| forms())?),
        _ => {}
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(day) = text.parse::<Date>() {
        return start(day);
    }
    let ago = ago(text).ok_or_else(forms)?;
    now.checked_sub(ago).map(|then| then.timestamp()).map_err(|_| forms())
}

fn ago(text: &str) -> Option<Span> {
    let text = text.strip_suffix(" ago").unwrap_or(text);
    let unit = text.chars().last()?;
    let count: i32 =
        text[..text.len() - unit.len_utf8()].parse().ok().filter(|count| *count >= 0)?;
    match unit {
        'd' => 0.days().try_days(count).ok(),
        'h' => 0.hours().try_hours(count).ok(),
        'm' => 0.minutes().try_minutes(count).ok(),
        's' => 0.seconds().try_seconds(count).ok(),
        'w' => 0.weeks().try_weeks(count).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_many_ways() {
        let now: Zoned = "2026-03-29T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
        for (text, expected) in [
            ("2026-02-08T10:00:00Z", "2026-02-08T10:00:00Z"),
            ("2026-02-08", "2026-02-07T23:00:00Z"),
            ("now", "2026-03-29T10:00:00Z"),
            ("today", "2026-03-28T23:00:00Z"),
            ("yesterday", "2026-03-27T23:00:00Z"),
            ("90m", "2026-03-29T08:30:00Z"),
            ("3h ago", "2026-03-29T07:00:00Z"),
            // The clock went forward in between: the same time of the day.
            ("1d", "2026-03-28T11:00:00Z"),
            ("2w", "2026-03-15T11:00:00Z"),
        ] {
            assert_eq!(moment_at(text, &now).unwrap().to_string(), expected, "{text}");
        }
        for bad in ["", "soon", "-3h", "3", "3y", "99999999999d", "99999999w", "é", "2026-13-01"] {
            let why = moment_at(bad, &now).unwrap_err();
            assert!(why.contains("yesterday"), "{bad}: {why}");
        }
    }
}
