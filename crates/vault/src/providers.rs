//! The token catalog: what is known of the tokens of well-known services.
//!
//! Bundled files, the operator's own over them, by provider as a whole; a project's only beside them, and only
//! where the operator trusts it, since a catalog says where a freshly typed token may go. A file that can't
//! be used is told and leaves the others alone. Source: reference/secrets.md, 9 and 19 (row 26).

mod bundled;
mod check;
mod liveness;
mod patterns;
mod provider;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    slice,
};

use keyless_core::{Destination, EgressRule, Location, Locations, SecretPath};
use serde::Serialize;

pub(crate) use self::provider::{NO_FORMAT, compile, judge_format};
pub use self::{
    liveness::{Liveness, LivenessAuth, LivenessKind, LivenessMethod, Says},
    provider::{Egress, EnvPattern, FormatVerdict, Provider, Retrieval, Rotation, Scope, Variant},
};
use crate::{
    metadata::{Metadata, PlaceholderShape},
    plain_file::PlainFile,
};

/// Every provider that is known, by its id.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    all: BTreeMap<String, (Tier, Provider)>,
    /// Files that can't be used.
    pub faults: Vec<ProviderFault>,
    /// Files of projects that could be used, and don't count.
    pub left_out: Vec<ProviderFault>,
    /// Files of patterns that can't be used, or a pattern in one.
    pub pattern_faults: Vec<ProviderFault>,
    /// What is not taken over of patterns that count.
    pub pattern_notes: Vec<ProviderFault>,
    /// Patterns that took the place of the catalog's.
    pub shadowed: Vec<ProviderFault>,
    /// What is in the place of a provider that is part of Keyless.
    pub in_place: Vec<ProviderFault>,
    /// What nobody has agreed to, so that it leads no token anywhere.
    pub unagreed: Vec<ProviderFault>,
    /// The ids of the operator's patterns.
    patterns: BTreeSet<String>,
}

/// Where a provider's file comes from; a later one takes the place of an earlier one, but for a project's and what nobody
/// has agreed to, which take nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// A project's, which the operator trusts.
    Project,
    /// In the operator's folder, or from an address, where nobody who has the factor has agreed to it: it names no host.
    Unagreed,
    /// Part of Keyless.
    Bundled,
    /// Fetched from an address that the operator named.
    Url,
    /// The operator's.
    User,
}

/// Whose word is the operator's or ours, most trusted first; the others' stands beside it.
const OURS: &[Tier] = &[Tier::User, Tier::Bundled];
const OTHERS: &[Tier] = &[Tier::Url, Tier::Unagreed, Tier::Project];

/// A file that can't be used, or does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFault {
    /// The file at fault.
    pub file: PathBuf,
    /// Why, as a fragment of a sentence.
    pub why: String,
}

/// What a variable's name says of what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EnvMeaning<'a> {
    /// No secret.
    Skip(&'a Provider),
    /// A token.
    Token(&'a Provider, &'a Variant, Scope),
}

/// Where in requests a service's token goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLocations<'a> {
    /// The services whose token it is, for people; more than one where services share their hosts.
    pub services: Vec<&'a str>,
    /// Where any token that is meant goes.
    pub locations: Locations,
}

/// What the tokens of a service look like, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownForms<'a> {
    /// The service.
    pub service: &'a str,
    /// Each form; none where the catalog has no words for it.
    pub forms: Vec<&'a str>,
}

impl Providers {
    /// Those that are part of Keyless.
    pub fn bundled() -> Self {
        let mut providers = Self::default();
        for (name, text) in bundled::FILES {
            let read = check::read(name, text);
            providers.take(Tier::Bundled, Path::new(name), read);
        }
        providers
    }

    /// Puts what was read of one file over what is there.
    #[must_use]
    pub fn with_file(mut self, tier: Tier, file: &Path, read: Result<Provider, String>) -> Self {
        self.take(tier, file, read);
        self
    }

    /// Puts one provider over what is there.
    #[must_use]
    pub fn with(self, tier: Tier, provider: Provider) -> Self {
        self.with_file(tier, Path::new(""), Ok(provider))
    }

    /// Whether one of this id is part of Keyless.
    pub fn is_bundled(id: &str) -> bool {
        bundled::FILES.iter().any(|(name, _)| *name == id)
    }

    /// Every provider, by id, and where its file comes from.
    pub fn iter(&self) -> impl Iterator<Item = (Tier, &Provider)> {
        self.all.values().map(|(tier, provider)| (*tier, provider))
    }

    /// One provider.
    pub fn provider(&self, id: &str) -> Option<&Provider> {
        self.all.get(id).map(|(_, provider)| provider)
    }

    /// The variant that a pattern's id names.
    pub fn variant(&self, id: &str) -> Option<(&Provider, &Variant)> {
        let of = |(_, provider): &'_ (Tier, Provider)| -> Option<usize> {
            provider.variants.iter().position(|variant| variant.id == id)
        };
        self.by_trust().find_map(|entry| {
            let position = of(entry)?;
            Some((&entry.1, &entry.1.variants[position]))
        })
    }

    /// The pattern whose id is most like `id`, where one is like it: a slip of the pen, or the name of a service.
    pub fn nearest(&self, id: &str) -> Option<&str> {
        if let Some(provider) = self.provider(id) {
            return provider.variants.first().map(|variant| variant.id.as_str());
        }
        let all = self.iter().flat_map(|(_, provider)| &provider.variants);
        let near = all.map(|variant| (distance(id, &variant.id), variant.id.as_str()));
        let (steps, nearest) = near.min()?;
        (steps <= id.len().max(3) / 3).then_some(nearest)
    }

    /// What is known of a secret: by the pattern that it names, else by the provider segment of
    /// its path, whose first variant is meant. What a path calls a password is no whole address, which is what is known of
    /// databases.
    pub fn of_secret(
        &self,
        path: &SecretPath,
        pattern_id: Option<&str>,
    ) -> Option<(&Provider, &Variant)> {
        if let Some(id) = pattern_id {
            return self.variant(id);
        }
        let provider = self.provider(path.category())?;
        let is_meant = |variant: &&Variant| !(is_password(path) && variant.is_address());
        Some((provider, provider.variants.iter().find(is_meant)?))
    }

    /// As [`of_secret`](Self::of_secret), where a value is taken by the answer and no person looks at it. A service that
    /// issues several tokens has the one that is taken from `variable`, else the one that the path's last segment names;
    /// nothing where that leaves more than one, as `team/datadog/key` does.
    pub fn of_secret_alone(
        &self,
        path: &SecretPath,
        pattern_id: Option<&str>,
        variable: Option<&str>,
    ) -> Option<(&Provider, &Variant)> {
        if pattern_id.is_some() {
            return self.of_secret(path, pattern_id);
        }
        let provider = self.provider(path.category())?;
        let meaning = variable.and_then(|name| self.of_variable(name));
        if let Some(EnvMeaning::Token(its, variant, _)) = meaning
            && its.provider_id == provider.provider_id
        {
            return Some((provider, variant));
        }
        let variant = provider.variant_named(path.name())?;
        (!(is_password(path) && variant.is_address())).then_some((provider, variant))
    }

    /// What Keyless itself says of getting a token of the kind that a project `declared`, for a secret of which
    /// [`of_secret`](Self::of_secret) knows nothing. A project's word comes from the agent's side: it chooses among
    /// texts that are part of Keyless, to be read by a person, and is good for no host, no variable and no format.
    pub fn guide_declared(
        &self,
        path: &SecretPath,
        pattern_id: Option<&str>,
        declared: Option<&str>,
    ) -> Option<(&Provider, &Variant)> {
        if self.of_secret(path, pattern_id).is_some() {
            return None;
        }
        let (provider, variant) = self.variant(declared?)?;
        let (tier, _) = self.all.get(&provider.provider_id)?;
        (*tier == Tier::Bundled).then_some((provider, variant))
    }

    /// The service that alone has tokens of this form, and the kind that this is; of what the operator and Keyless know,
    /// where they know the form.
    pub fn of_value(&self, value: &[u8]) -> Option<(&Provider, &Variant)> {
        let ours = self.of_value_in(value, OURS);
        if ours.is_empty() { only(&self.of_value_in(value, OTHERS)) } else { only(&ours) }
    }

    /// Whether the whole text has the form of some service's token.
    pub fn has_form_of_token(&self, text: &str) -> bool {
        let kinds = self.iter().flat_map(|(_, provider)| &provider.variants);
        let mut telling = kinds.filter(|variant| variant.is_telling());
        telling.any(|variant| variant.judge(text.as_bytes()) == FormatVerdict::Ok)
    }

    /// What a value of this secret looks like, where `value` does not: by the pattern that it names, else as any kind of
    /// token of the service that its path names. Nothing where a form is not known.
    pub fn unlike(
        &self,
        path: &SecretPath,
        pattern_id: Option<&str>,
        value: &[u8],
    ) -> Option<KnownForms<'_>> {
        let (provider, known) = self.of_secret(path, pattern_id)?;
        let kinds =
            if pattern_id.is_some() { slice::from_ref(known) } else { &provider.variants[..] };
        if kinds.iter().any(|kind| kind.judge(value) != FormatVerdict::Invalid) {
            return None;
        }
        let mut forms: Vec<&str> =
            kinds.iter().filter_map(|kind| kind.format_hint.as_deref()).collect();
        forms.dedup();
        Some(KnownForms { service: &provider.display_name, forms })
    }

    fn of_value_in(&self, value: &[u8], tiers: &[Tier]) -> Vec<(&Provider, &Variant)> {
        let fits =
            |variant: &&Variant| variant.is_telling() && variant.judge(value) == FormatVerdict::Ok;
        let fitting = self.iter().filter(|(tier, _)| tiers.contains(tier));
        let fitting = fitting.flat_map(|(_, provider)| {
            provider.variants.iter().filter(fits).map(move |variant| (provider, variant))
        });
        fitting.collect()
    }

    /// Where in requests the token of a service goes that `path`, the hosts `to` or the value's form name without doubt;
    /// nothing where the catalog does not say, or what is said may mean several kinds of which one goes anywhere.
    pub fn locations_of(
        &self,
        path: &SecretPath,
        to: &[Destination],
        value: Option<&[u8]>,
    ) -> Option<KnownLocations<'_>> {
        // Nobody adds a place to what the operator and Keyless know.
        [OURS, OTHERS]
            .iter()
            .filter(|_| !to.is_empty())
            .find_map(|tiers| self.locations_in(tiers, path, to, value))
    }

    fn locations_in(
        &self,
        tiers: &[Tier],
        path: &SecretPath,
        to: &[Destination],
        value: Option<&[u8]>,
    ) -> Option<KnownLocations<'_>> {
        // A pattern of the operator's has no places, and takes none away.
        let mut of_value = value.map(|value| self.of_value_in(value, tiers)).unwrap_or_default();
        of_value.retain(|(_, variant)| variant.egress.is_some());
        if let Some((provider, variant)) = only(&of_value) {
            return known_locations(&[provider], &[variant]);
        }
        let is_of = |host: &Destination, variant: &Variant| {
            let own = variant.egress.as_ref().map(|egress| egress.to.as_slice());
            !Destination::common(slice::from_ref(host), own.unwrap_or_default()).is_empty()
        };
        let category = self.all.get(path.category()).filter(|(tier, _)| tiers.contains(tier));
        if let Some((_, provider)) = category {
            let meant = |variant: &&Variant| {
                let has_any = |egress: &Egress| egress.to.is_empty() || egress.to_hint.is_some();
                variant.egress.as_ref().is_some_and(has_any)
                    || to.iter().any(|host| is_of(host, variant))
            };
            let meant: Vec<&Variant> = provider.variants.iter().filter(meant).collect();
            if !meant.is_empty() {
                return known_locations(&[provider], &meant);
            }
        }
        // Who is trusted most says what goes to these hosts.
        let has_all = |provider: &Provider| {
            to.iter().all(|host| provider.variants.iter().any(|variant| is_of(host, variant)))
        };
        let mut by_trust = self.by_trust().filter(|(tier, _)| tiers.contains(tier));
        let tier = by_trust.find(|(_, provider)| has_all(provider))?.0;
        let all = self.iter().filter(|(of, provider)| *of == tier && has_all(provider));
        let services: Vec<&Provider> = all.map(|(_, provider)| provider).collect();
        let meant = services.iter().flat_map(|provider| &provider.variants);
        let meant = meant.filter(|variant| to.iter().any(|host| is_of(host, variant)));
        known_locations(&services, &meant.collect::<Vec<_>>())
    }

    /// What a variable of this name holds, as far as the catalog knows.
    pub fn of_variable(&self, name: &str) -> Option<EnvMeaning<'_>> {
        self.by_trust().find_map(|(_, provider)| {
            if provider.env_var_skip.iter().any(|glob| matches(glob, name)) {
                return Some(EnvMeaning::Skip(provider));
            }
            let fits =
                |pattern: &&EnvPattern| pattern.matches.iter().any(|glob| matches(glob, name));
            let pattern = provider.env_var_patterns.iter().find(fits)?;
            let variant = provider.variants.iter().find(|v| v.id == pattern.variant)?;
            Some(EnvMeaning::Token(provider, variant, pattern.scope))
        })
    }

    /// Every provider in the order in which its word counts about what another one names as well: a pattern, a
    /// variable. An address that was named for one service says nothing of the others' tokens, and a project nothing of
    /// what others know.
    fn by_trust(&self) -> impl Iterator<Item = &(Tier, Provider)> {
        let tiers = OURS.iter().chain(OTHERS).copied();
        tiers.flat_map(|tier| self.all.values().filter(move |(of, _)| *of == tier))
    }

    fn take(&mut self, tier: Tier, file: &Path, read: Result<Provider, String>) {
        match read {
            Ok(mut provider) => {
                if matches!(tier, Tier::Project | Tier::Url) {
                    provider.drop_checks_that_dare();
                }
                let id = provider.provider_id.clone();
                let told = |why| ProviderFault { file: file.to_owned(), why };
                let there = self.all.get(&id).map(|(tier, _)| *tier);
                if tier == Tier::Project && there.is_some() {
                    let why =
                        format!("{id:?} is known already, and a project takes nobody's place");
                    self.left_out.push(told(why));
                    return;
                }
                if tier == Tier::Unagreed {
                    provider.drop_leads();
                    self.unagreed.push(told(match there {
                        Some(_) => format!(
                            "nobody who has the factor has agreed to it; what is known of {id} without it stays in force"
                        ),
                        None => format!(
                            "nobody who has the factor has agreed to it; tokens of {id} go nowhere by its word"
                        ),
                    }));
                }
                if tier > Tier::Bundled && Self::is_bundled(&id) {
                    let why = format!("it takes the place of what Keyless knows of {id}");
                    self.in_place.push(told(why));
                }
                // The stronger tier stays, in whatever order they come.
                if there.is_none_or(|there| there <= tier) {
                    self.all.insert(id, (tier, provider));
                }
            }
            Err(why) => self.faults.push(ProviderFault { file: file.to_owned(), why }),
        }
    }
}

/// The kind of token, where all that were found are one service's.
fn only<'a>(found: &[(&'a Provider, &'a Variant)]) -> Option<(&'a Provider, &'a Variant)> {
    let first = found.first()?;
    let same = |other: &(&Provider, &Variant)| other.0.provider_id == first.0.provider_id;
    found.iter().all(same).then_some(*first)
}

/// The places of all `variants` together, where each of them has some of its own.
fn known_locations<'a>(
    services: &[&'a Provider],
    variants: &[&Variant],
) -> Option<KnownLocations<'a>> {
    let places = |variant: &&Variant| {
        let egress = variant.egress.as_ref()?;
        (!egress.locations.is_empty()).then_some(egress.locations.clone())
    };
    let places: Vec<Vec<Location>> = variants.iter().map(places).collect::<Option<_>>()?;
    let services = services.iter().map(|provider| provider.display_name.as_str()).collect();
    Some(KnownLocations { services, locations: places.into_iter().flatten().collect() })
}

impl Provider {
    /// The token of that name among this service's: the only one, or one of several that are taken from one variable.
    fn variant_named(&self, name: &str) -> Option<&Variant> {
        let variable = name.to_ascii_uppercase().replace('-', "_");
        let service = self.provider_id.to_ascii_uppercase().replace('-', "_");
        let of_id = |variant: &Variant| variant.id.strip_suffix(name).map(ToOwned::to_owned);
        let of_variable = |variant: &Variant| {
            let env = variant.env_var.as_ref()?.as_str();
            env.strip_suffix(&variable).map(ToOwned::to_owned)
        };
        let whole = |variant: &&Variant| {
            of_id(variant).is_some_and(|rest| rest == format!("{}-", self.provider_id))
                || of_variable(variant).is_some_and(|rest| rest == format!("{service}_"))
        };
        let end = |variant: &&Variant| {
            of_id(variant).is_some_and(|rest| rest.ends_with('-'))
                || of_variable(variant).is_some_and(|rest| rest.ends_with('_'))
        };
        let all = || self.variants.iter();
        let named = [all().filter(whole).collect(), all().filter(end).collect(), all().collect()];
        let named: Vec<&Variant> = named.into_iter().find(|some: &Vec<_>| !some.is_empty())?;
        let first = *named.first()?;
        named.iter().all(|one| one.env_var == first.env_var).then_some(first)
    }

    /// A check carries the token: whoever writes it in a project or at an address may read with it, at a host that they
    /// name, and change nothing.
    fn drop_checks_that_dare(&mut self) {
        for variant in &mut self.variants {
            let why = match &variant.liveness {
                Some(liveness) if !liveness.only_reads() => "with POST",
                Some(liveness) if !liveness.hosts.is_empty() => "at each customer's own host",
                _ => continue,
            };
            variant.liveness = None;
            variant.no_liveness = Some(format!("only the operator's own catalog may check {why}"));
        }
    }

    /// Where its tokens go is somebody's word, and nobody's yet.
    fn drop_leads(&mut self) {
        for variant in &mut self.variants {
            (variant.egress, variant.liveness) = (None, None);
        }
    }

    /// Where each kind of its tokens may go and stand, in words: what is agreed to of it.
    pub fn leads(&self) -> String {
        let lead = |variant: &Variant| {
            let egress = variant.egress.as_ref()?;
            let to: Vec<String> = egress.to.iter().map(ToString::to_string).collect();
            let to = if to.is_empty() { "hosts to be named".to_owned() } else { to.join(", ") };
            let places: Vec<String> = egress.locations.iter().map(ToString::to_string).collect();
            let places = if places.is_empty() { "any place".to_owned() } else { places.join(", ") };
            Some(format!("{} to {to} in {places}", variant.id))
        };
        let leads: Vec<String> = self.variants.iter().filter_map(lead).collect();
        if leads.is_empty() { "to no host".to_owned() } else { leads.join("; ") }
    }

    /// Reads a provider's file, whatever it was called. The error is a fragment of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        check::read_any(text)
    }
}

/// Whether a path says that its secret is a password.
fn is_password(path: &SecretPath) -> bool {
    let last = path.name().rsplit(['-', '_', '.']).next().unwrap_or_default();
    ["pass", "passwd", "pwd", "pw"].contains(&last) || last.ends_with("password")
}

impl Variant {
    /// Whether such a value is an address, with a password in it perhaps.
    fn is_address(&self) -> bool {
        self.format_hint.as_deref().is_some_and(|hint| hint.contains("://"))
    }

    /// Whether `value` looks like a token of this kind.
    pub fn judge(&self, value: &[u8]) -> FormatVerdict {
        judge_format(self.format_regex.as_deref(), value)
    }

    /// Whether its format begins with letters of its own: forty of any letters are a token of many services.
    fn is_telling(&self) -> bool {
        let format = self.format_regex.as_deref().unwrap_or_default().trim_start_matches('^');
        // A dot that is meant is as much of its own as a dash.
        let format = format.replace(r"\.", "-");
        let own = format.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_-".contains(b));
        own.count() >= 3
    }

    /// `metadata`, and what it leaves open as the catalog has it.
    #[must_use]
    pub fn complete(&self, mut metadata: Metadata) -> Metadata {
        if let Some(egress) = &self.egress {
            if metadata.egress.is_none() && !egress.to.is_empty() {
                metadata.egress = Some(EgressRule::to(egress.to.clone()));
            }
            if let Some(rule) = &mut metadata.egress
                && rule.locations == Locations::ALL
                && !egress.locations.is_empty()
            {
                rule.locations = egress.locations.iter().copied().collect();
            }
            if let Some(shape) = &egress.placeholder
                && metadata.placeholder == PlaceholderShape::Default
            {
                metadata.placeholder = PlaceholderShape::LookAlike(shape.clone());
            }
        }
        metadata.env = metadata.env.or_else(|| self.env_var.clone());
        let upkeep = &mut metadata.upkeep;
        upkeep.pattern_id = Some(self.id.clone());
        let url = || self.retrieval.page().map(str::to_owned);
        upkeep.retrieval_url = upkeep.retrieval_url.take().or_else(url);
        upkeep.format_regex = upkeep.format_regex.take().or_else(|| self.format_regex.clone());
        if let Some(rotation) = &self.rotation {
            upkeep.rotation_method = upkeep.rotation_method.or(Some(rotation.method));
            upkeep.rotate_every_days = upkeep.rotate_every_days.or(Some(rotation.every_days));
        }
        metadata
    }
}

/// The providers' files of a folder, by name; none where there is no folder. Blocks.
pub fn provider_files(folder: &Path) -> Vec<PathBuf> {
    files_ending_in(folder, "json")
}

fn files_ending_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == ending))
        .collect();
    files.sort();
    files
}

/// Reads one provider's file; its name says which provider it is. Blocks.
pub fn read_provider(file: &Path) -> Result<Provider, String> {
    provider_in(file, &provider_text(file)?)
}

/// What `text` says, which was read from `file`, whose name says which provider it is.
pub fn provider_in(file: &Path, text: &str) -> Result<Provider, String> {
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    check::read(name, text)
}

/// The text of one provider's file. Blocks.
pub fn provider_text(file: &Path) -> Result<String, String> {
    match PlainFile::open(file).and_then(|opened| opened.text(check::MAX_BYTES)) {
        Ok(mut text) => Ok(std::mem::take(&mut *text)),
        Err(error) => Err(match error.kind() {
            PlainFile::NO_FILE | io::ErrorKind::FileTooLarge => {
                "is no regular file of at most 256 KiB".to_owned()
            }
            _ => error.to_string(),
        }),
    }
}

/// How many bytes have to be put in, left out or changed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, wanted) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(byte != wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// Whether a variable's name fits a glob: `*` stands for one part without underscores.
fn matches(glob: &str, name: &str) -> bool {
    let (globs, names) = (glob.split('_'), name.split('_'));
    globs.clone().count() == names.clone().count()
        && globs.zip(names).all(|(glob, part)| match glob.split_once('*') {
            None => glob.eq_ignore_ascii_case(part),
            Some((before, after)) => {
                let part = part.to_ascii_lowercase();
                part.len() > before.len() + after.len()
                    && part.starts_with(&before.to_ascii_lowercase())
                    && part.ends_with(&after.to_ascii_lowercase())
            }
        })
}
