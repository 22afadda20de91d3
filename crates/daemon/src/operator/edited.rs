//! What is known of a secret as its owner edits it: text, field by field, which the page and the screen lay out.

use jiff::civil::Date;
use keyless_core::{
    ApproveOnUse, Code, EgressRule, Error,
    approval::{Asked, Fields},
};
use keyless_vault::{Metadata, Upkeep};

use super::given::{read_destinations, read_variable, unfit};

/// The fields of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    /// What it is for.
    pub description: String,
    /// Hosts that may receive it, with commas.
    pub to: String,
    /// The variable for its placeholder.
    pub env: String,
    /// When a person is asked.
    pub asks: ApproveOnUse,
    /// The last day on which it works, as 2027-03-31.
    pub expires_at: String,
    /// How often it is renewed, in days.
    pub rotate_every_days: String,
    /// Where the next one is got.
    pub retrieval_url: String,
    /// The catalog's pattern.
    pub pattern_id: String,
}

impl Edited {
    /// The fields as they are filled in before anybody edits them.
    pub fn of(metadata: &Metadata) -> Self {
        let Metadata { description, env, egress, upkeep, approve_on_use, .. } = metadata;
        let to = egress.iter().flat_map(|rule| &rule.to).map(ToString::to_string);
        Self {
            description: description.clone().unwrap_or_default(),
            to: to.collect::<Vec<_>>().join(", "),
            env: env.as_ref().map(ToString::to_string).unwrap_or_default(),
            asks: *approve_on_use,
            expires_at: upkeep.expires_at.map(|day| day.to_string()).unwrap_or_default(),
            rotate_every_days: upkeep
                .rotate_every_days
                .map(|days| days.to_string())
                .unwrap_or_default(),
            retrieval_url: upkeep.retrieval_url.clone().unwrap_or_default(),
            pattern_id: upkeep.pattern_id.clone().unwrap_or_default(),
        }
    }

    /// `before` with what the fields say; what they don't name stays. [`keyless_core::Code::AnswerUnfit`] when it can't be.
    pub fn read(&self, before: &Metadata) -> Result<Metadata, Error> {
        let text = |field: &str| Some(field.trim().to_owned()).filter(|it| !it.is_empty());
        let known = Fields {
            description: text(&self.description),
            retrieval_url: text(&self.retrieval_url),
            rotate_every_days: text(&self.rotate_every_days)
                .map(|days| read_days(&days))
                .transpose()?,
            expires_at: text(&self.expires_at).map(|day| read_day(&day)).transpose()?,
            pattern_id: text(&self.pattern_id),
        };
        // An owner is held to what an agent's proposals are: what stands there is read by others, and links are followed.
        let judged = Asked::new_path(known.clone()).check();
        judged.map_err(|error| Error::with(Code::AnswerUnfit, error.detail().clone()))?;
        Ok(Metadata {
            egress: self.rule(before)?,
            env: text(&self.env).map(|name| read_variable(&name)).transpose()?,
            approve_on_use: self.asks,
            description: known.description,
            upkeep: Upkeep {
                retrieval_url: known.retrieval_url,
                rotate_every_days: known.rotate_every_days,
                expires_at: known.expires_at,
                pattern_id: known.pattern_id,
                ..before.upkeep.clone()
            },
            ..before.clone()
        })
    }

    fn rule(&self, before: &Metadata) -> Result<Option<EgressRule>, Error> {
        let to = read_destinations(&self.to)?;
        Ok(match (before.egress.clone(), to.is_empty()) {
            (None, true) => None,
            (None, false) => Some(EgressRule::to(to)),
            (Some(_), true) => {
                return Err(unfit(
                    "it keeps at least one host: one without any could enter an action’s jail",
                ));
            }
            (Some(rule), false) => Some(EgressRule { to, ..rule }),
        })
    }
}

fn read_day(text: &str) -> Result<Date, Error> {
    text.parse().map_err(|_| unfit("the last day is written as 2027-01-31"))
}

fn read_days(text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| unfit("the renewal is a number of days"))
}

#[cfg(test)]
mod tests {
    use keyless_core::{Code, Destination};

    use super::*;

    fn metadata() -> Metadata {
        let to = vec![Destination::parse("api.test").unwrap()];
        Metadata {
            egress: Some(EgressRule { max_occurrences: Some(1), ..EgressRule::to(to) }),
            approve_on_use: ApproveOnUse::Session,
            ..Metadata::default()
        }
    }

    #[test]
    fn what_is_not_touched_stays_as_it_is() {
        assert_eq!(Edited::of(&metadata()).read(&metadata()).unwrap(), metadata());
    }

    #[test]
    fn the_fields_say_the_metadata_and_leave_the_rest() {
        let word = |text: &str| text.to_owned();
        let edited = Edited {
            description: word(" For CI "),
            to: word("api.test, b.test"),
            env: word("KEY"),
            asks: ApproveOnUse::PerCall,
            expires_at: word("2027-01-31"),
            rotate_every_days: word("30"),
            retrieval_url: word("https://a.test/tokens"),
            pattern_id: word("a-b"),
        };
        let told = edited.read(&metadata()).unwrap();
        assert_eq!(Edited { description: word("For CI"), ..edited }, Edited::of(&told));
        assert_eq!(told.egress.unwrap().max_occurrences, Some(1));
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let edits: [fn(&mut Edited); 7] = [
            |it| it.to.clear(),
            |it| it.to = "*".to_owned(),
            |it| it.env = "9".to_owned(),
            |it| it.expires_at = "soon".to_owned(),
            |it| it.expires_at = "2027-02-30".to_owned(),
            |it| it.rotate_every_days = "0".to_owned(),
            |it| it.retrieval_url = "javascript:alert(1)".to_owned(),
        ];
        for (index, edit) in edits.into_iter().enumerate() {
            let mut edited = Edited::of(&metadata());
            edit(&mut edited);
            assert_eq!(edited.read(&metadata()).unwrap_err().code(), Code::AnswerUnfit, "{index}");
        }
    }
}
