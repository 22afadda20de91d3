//! Times as services want them, of what a caller may write: RFC 3339, a day, or seconds since 1970.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde_json::Value;

use super::super::models::{Location, TimeForm};

/// The form of times in a place, where a model names none.
pub(super) fn usual(at: Location) -> TimeForm {
    match at {
        Location::Header | Location::Headers => TimeForm::Rfc822,
        Location::Query | Location::Status | Location::Uri => TimeForm::Iso8601,
    }
}

/// A time in a form; what is no time stays as it is, for the service to judge.
pub(super) fn written(value: &Value, form: TimeForm) -> Value {
    let Some(time) = read(value) else { return value.clone() };
    match form {
        TimeForm::Iso8601 if time.subsec_nanosecond() == 0 => {
            time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
        }
        TimeForm::Iso8601 => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string().into(),
        TimeForm::Rfc822 => time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string().into(),
        TimeForm::UnixTimestamp if time.subsec_nanosecond() == 0 => time.as_second().into(),
        TimeForm::UnixTimestamp => time.as_duration().as_secs_f64().into(),
    }
}

fn read(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Number(seconds) => {
            let duration = jiff::SignedDuration::try_from_secs_f64(seconds.as_f64()?).ok()?;
            Timestamp::from_duration(duration).ok()
        }
        Value::String(text) => text.parse().ok().or_else(|| {
            let day: Date = text.parse().ok()?;
            Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_written_in_every_form() {
        let forms = [TimeForm::Iso8601, TimeForm::Rfc822, TimeForm::UnixTimestamp];
        let all = |value: Value| Value::from(forms.map(|form| written(&value, form)).to_vec());
        let whole = json!(["2024-02-29T12:00:01Z", "Thu, 29 Feb 2024 12:00:01 GMT", 1_709_208_001]);
        assert_eq!(all(json!("2024-02-29T13:00:01+01:00")), whole);
        assert_eq!(all(json!(1_709_208_001)), whole);
        assert_eq!(all(json!("2024-02-29"))[0], "2024-02-29T00:00:00Z");
        assert_eq!(all(json!(1.5))[2], 1.5);
        assert_eq!(all(json!("{{nl:a/B}}"))[1], "{{nl:a/B}}");
    }
}
