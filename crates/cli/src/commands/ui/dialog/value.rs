//! A value, first or next: what the catalog knows of getting it, a field that is hidden, and where it may go.

use std::sync::Arc;

use keyless_core::{Error, SecretPath};
use keyless_daemon::{
    Given, Occasion, Shown, Typed, places_at, places_in_words, read_destinations, read_path,
    suggested_variable,
    vault::{FormatVerdict, Metadata, Provider, Providers, Secret, Variant},
};
use zeroize::Zeroizing;

use super::{Form, proposal::PATH_HELP};
use crate::commands::{
    approve::visible,
    secret::source_word,
    ui::{
        form::{Field, Kind, Word},
        pieces::{Piece, lay_out},
        rooms::listed,
        theme::Theme,
    },
};

const ENV: &str = "env";
const OVERWRITE: &str = "overwrite";
const PATH: &str = "path";
const TO: &str = "to";
const VALUE: &str = "value";
const VARIANT: &str = "variant";
const WEAK: &str = "weak";
/// Of a text that is read line by line.
const COLUMNS: u16 = 90;

/// What is known where a value is typed.
pub(in crate::commands) struct ValueScene {
    /// Whose; nothing while its name is typed as well.
    path: Option<SecretPath>,
    pub(super) occasion: Occasion,
    secret: Option<Secret>,
    providers: Arc<Providers>,
    /// The kind of token that the project says it is.
    declared: Option<String>,
}

impl ValueScene {
    pub(in crate::commands) fn new(
        path: Option<SecretPath>,
        secret: Option<Secret>,
        occasion: Occasion,
        providers: &Arc<Providers>,
    ) -> Self {
        Self { path, occasion, secret, providers: Arc::clone(providers), declared: None }
    }

    /// The value that an agent asks for; nothing when it asks for something else.
    pub(in crate::commands) fn of_request(
        shown: &Shown,
        secret: Option<Secret>,
        providers: &Arc<Providers>,
    ) -> Option<Self> {
        let occasion = Occasion::asked(&shown.asked)?;
        let declared = shown.declared_pattern().map(str::to_owned);
        Some(Self { declared, ..Self::new(shown.path.clone(), secret, occasion, providers) })
    }

    /// What stands over the dialog.
    pub(super) fn title(&self) -> &'static str {
        match self.occasion {
            Occasion::Another => "Rotate secret",
            Occasion::First => "Provision secret",
            Occasion::New => "Add a secret",
        }
    }

    /// What it is about.
    pub(super) fn heading(&self) -> Piece {
        let path = self.path.as_ref().map(ToString::to_string);
        Piece::heading(path.unwrap_or_else(|| "A path of your own".to_owned()))
    }

    /// The path, known or typed.
    pub(super) fn path(&self, form: &Form) -> Result<SecretPath, Error> {
        self.path.clone().map_or_else(|| read_path(form.text(PATH)), Ok)
    }

    /// What is known of getting it, for a terminal that is asked line by line.
    pub(in crate::commands) fn words(&self) -> String {
        let rows = lay_out(&self.body(&self.form(None)), COLUMNS, Theme::from_environment());
        let rows: Vec<String> = rows.iter().map(|row| format!("  {row}")).collect();
        rows.join("\n")
    }

    /// The form; `decline` is the word for a request that is refused.
    pub(super) fn form(&self, decline: Option<&str>) -> Form {
        let known = self.of_catalog();
        let mut fields = Vec::new();
        if self.path.is_none() {
            fields.push(Field::line(PATH, "Path", "").with_help(PATH_HELP));
        }
        if let Some((provider, variant)) = known
            && provider.variants.len() > 1
        {
            let at = provider.variants.iter().position(|one| one.id == variant.id).unwrap_or(0);
            let names = provider.variants.iter().map(|one| one.display_name.clone()).collect();
            fields.push(Field::choice(VARIANT, "Kind of token", names, at));
        }
        // A name comes before its value; a kind of token is chosen as a rule.
        let first = if self.path.is_none() { 0 } else { fields.len() };
        fields.push(Field::hidden(VALUE, if self.rotation() { "New value" } else { "Value" }));
        if !self.is_bound() {
            let egress = known.and_then(|(_, variant)| variant.egress.as_ref());
            let to = egress.map(|egress| listed(&egress.to, "")).unwrap_or_default();
            let help = "Hosts that may receive it, with commas. None yet: nothing can use it.";
            fields.push(Field::line(TO, "Goes to", &to).with_help(help));
        }
        if self.metadata().is_none_or(|metadata| metadata.env.is_none()) {
            let known = known.and_then(|(_, variant)| variant.env_var.as_ref());
            let suggested = || self.path.as_ref().map(suggested_variable).unwrap_or_default();
            let name = known.map_or_else(suggested, ToString::to_string);
            let help = "The variable in which a session finds the placeholder.";
            fields.push(Field::line(ENV, "Variable", &name).with_help(help));
        }
        if self.rotation() {
            let words = "I understand that this overwrites the present value";
            fields.push(Field::tick(OVERWRITE, words));
        }
        let save = if self.rotation() { "Overwrite the value" } else { "Save" };
        let words = decline.map(|decline| (Word::Deny, decline));
        let words: Vec<_> = words.into_iter().chain([(Word::Accept, save)]).collect();
        let mut form = Form::new(fields, &words);
        form.at = first;
        form
    }

    /// What stands above the fields: where it is kept, what it looks like, how to get it.
    pub(super) fn body(&self, form: &Form) -> Vec<Piece> {
        let kept = self.metadata().map(|metadata| visible(&source_word(&metadata.source)));
        let mut pieces = vec![Piece::fact("Kept in", kept.unwrap_or_else(|| "local".to_owned()))];
        let rule = self.metadata().and_then(|metadata| metadata.egress.as_ref());
        pieces.extend(rule.map(|rule| Piece::fact("Goes into", places_in_words(rule))));
        let upkeep = self.metadata().map(|metadata| &metadata.upkeep);
        if self.rotation() {
            let days = upkeep.and_then(|upkeep| upkeep.rotate_every_days);
            pieces.extend(days.map(|days| Piece::fact("Cadence", format!("every {days} days"))));
            let since = self.secret.as_ref().and_then(|secret| secret.rotated_at);
            pieces.extend(since.map(|since| {
                Piece::fact("Present", format!("since {}", since.strftime("%Y-%m-%d")))
            }));
        }
        if let Some((provider, variant)) = self.variant(form) {
            self.guide(&mut pieces, provider, variant);
        } else {
            let page = upkeep.and_then(|upkeep| upkeep.retrieval_url.as_deref());
            pieces.extend(page.map(|page| Piece::fact("Get it at", visible(page))));
        }
        if let Some((provider, variant)) = self.declared() {
            pieces.push(Piece::Blank);
            let kind = format!("{}, {}", provider.display_name, variant.display_name);
            pieces.push(Piece::ours(format!("Declared by the project: {kind}.")));
            pieces.push(Piece::ours(
                "See that it is what you mean to give; where it may go is yours to say.".to_owned(),
            ));
            way(&mut pieces, provider, variant);
        }
        pieces
    }

    /// What is said of the value while it is typed: how long it is, and whether it has the format.
    pub(super) fn caption(&self, form: &Form, field: &Field) -> Option<String> {
        if field.name == TO {
            return self.places(form, field);
        }
        let Kind::Hidden { text, is_shown } = &field.kind else { return None };
        let keys = if *is_shown { "Ctrl-R hide" } else { "Ctrl-R show" };
        if text.is_empty() {
            return Some(format!("The agent never sees it.  {keys}"));
        }
        let judged = match self.judge(form, text.as_bytes()) {
            FormatVerdict::Invalid => ", not the format of its kind",
            FormatVerdict::Ok => ", the format of its kind",
            FormatVerdict::Unknown => "",
        };
        Some(format!("{} characters{judged}.  {keys}  Ctrl-U empty", text.chars().count()))
    }

    /// Where in requests the value goes at the hosts that are typed.
    fn places(&self, form: &Form, field: &Field) -> Option<String> {
        let to = read_destinations(form.text(TO)).ok().filter(|to| !to.is_empty())?;
        let places = places_at(&self.providers, &self.path(form).ok()?, &to);
        Some(format!("{} It goes into {}.", field.help, visible(&places)))
    }

    /// What the form says: the value, and what goes with it.
    pub(super) fn read(&self, form: &Form) -> Result<(Given, Zeroizing<Vec<u8>>), Error> {
        let typed = Typed {
            value: form.text(VALUE),
            to: form.text(TO),
            env: form.text(ENV),
            overwrite: form.is_ticked(OVERWRITE),
            allow_weak: form.is_ticked(WEAK),
        };
        let chosen = self.variant(form).map(|(_, variant)| variant);
        typed.read(self.occasion, chosen)
    }

    fn rotation(&self) -> bool {
        self.occasion == Occasion::Another
    }

    fn guide(&self, pieces: &mut Vec<Piece>, provider: &Provider, variant: &Variant) {
        way(pieces, provider, variant);
        if let (true, Some(known)) = (self.rotation(), &variant.rotation) {
            pieces.push(Piece::Blank);
            pieces.push(Piece::fact("Renewal", format!("every {} days", known.every_days)));
            pieces.extend(known.notes.as_deref().map(|notes| Piece::ours(visible(notes))));
            pieces.extend(known.guide_url.as_deref().map(|url| Piece::fact("How", visible(url))));
        }
    }

    /// By the kind of token that was chosen, else by what is known of the secret.
    fn judge(&self, form: &Form, value: &[u8]) -> FormatVerdict {
        let chosen = self.variant(form).map(|(_, variant)| variant.judge(value));
        let own = || self.metadata().map(|metadata| metadata.judge_format(value));
        chosen.or_else(own).unwrap_or(FormatVerdict::Unknown)
    }

    /// The kind of token that the form's choice names.
    fn variant(&self, form: &Form) -> Option<(&Provider, &Variant)> {
        let (provider, known) = self.of_catalog()?;
        let chosen = match form.field(VARIANT).map(|field| &field.kind) {
            Some(Kind::Choice { at, .. }) => &provider.variants[*at],
            _ => known,
        };
        Some((provider, chosen))
    }

    fn of_catalog(&self) -> Option<(&Provider, &Variant)> {
        self.providers.of_secret(self.path.as_ref()?, self.pattern())
    }

    /// What Keyless says of the kind of token that the project names: to read, and for nothing else.
    fn declared(&self) -> Option<(&Provider, &Variant)> {
        let declared = self.declared.as_deref();
        self.providers.guide_declared(self.path.as_ref()?, self.pattern(), declared)
    }

    /// The kind of token by the vault's word.
    fn pattern(&self) -> Option<&str> {
        self.metadata()?.upkeep.pattern_id.as_deref()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.secret.as_ref().map(|secret| &secret.metadata)
    }

    fn is_bound(&self) -> bool {
        self.metadata().is_some_and(|metadata| metadata.egress.is_some())
    }
}

/// How a token is got.
fn way(pieces: &mut Vec<Piece>, provider: &Provider, variant: &Variant) {
    let retrieval = &variant.retrieval;
    if let Some(hint) = &variant.format_hint {
        pieces.push(Piece::fact("Format", visible(hint)));
    }
    pieces.push(Piece::Blank);
    pieces.push(Piece::ours(visible(&variant.description)));
    let console = retrieval.page().map(|page| format!("{}: {page}", provider.display_name));
    pieces.extend(console.map(|console| Piece::fact("Get it at", visible(&console))));
    let docs = retrieval.docs_url.as_deref();
    pieces.extend(docs.map(|docs| Piece::fact("Read", visible(docs))));
    let steps = retrieval.steps.iter().enumerate();
    pieces.extend(steps.map(|(index, step)| Piece::Step(index + 1, visible(step))));
    pieces.extend(retrieval.notes.as_deref().map(|notes| Piece::ours(visible(notes))));
}

/// Adds the box that takes a value which looks like none.
pub(super) fn offer_weak(form: &mut Form) {
    if form.field(WEAK).is_none() {
        // The keys stay with the button that they went to.
        form.at += usize::from(form.at >= form.fields.len());
        form.fields.push(Field::tick(WEAK, "Save it although it does not look like one"));
    }
}
