//! What the operator does next, at the page or the screen. A row of the codes' table may speak to an agent, or name an
//! option of a command; here a person sits in front of fields and ticks. Commands have the table's own words.

use keyless_core::Code;

/// How the table speaks to an agent of what its person is to do.
const TO_AGENTS: &str = "have the person ";

/// The next step after an error, a fragment without a full stop.
pub fn next_at_hand(code: Code) -> &'static str {
    match code {
        Code::LockedForCode => "keyless unlock --code, with the code that your app shows",
        Code::TotpClosed => "wait as long as it says, then try again",
        Code::TotpReplayed => "give the next code; each is good once",
        Code::TotpWrong => "give the code that the app shows now",
        Code::ValueUnchanged => "give the new value that its service issued",
        Code::ValueWeak => {
            "give the value as the service issued it, or tick the box that saves it all the same"
        }
        code => to_the_person(code),
    }
}

/// The table's own step, said to the person themselves: who sits at a terminal has nobody else to ask.
pub fn to_the_person(code: Code) -> &'static str {
    let action = code.remediation().action;
    action.strip_prefix(TO_AGENTS).unwrap_or(action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_of_no_option_and_sent_to_nobody() {
        // A quota is an agent's.
        for code in Code::ALL.iter().filter(|code| **code != Code::QuotaExceeded) {
            let next = next_at_hand(*code);
            for words in ["--allow-weak", "ask the operator", TO_AGENTS.trim_end()] {
                assert!(!next.contains(words), "{}: {next}", code.as_str());
            }
        }
    }
}
