//! The operator's own patterns: `patterns.d/*.toml`, a kind of token each, beside what the catalog knows.
//!
//! A pattern whose id a provider's variant has takes that one's place, and keeps of it what patterns have no words for:
//! where the token may go, its variable, its placeholder. Only the operator's folder is read, never a project's: a
//! pattern may say where a token is sent to see whether it works, by the rules for the operator's own catalog. One that
//! can't be used is told, and leaves the others alone. Source: reference/secrets.md, 9.1.

use std::path::{Path, PathBuf};

use serde::{Deserialize, de::DeserializeOwned};
use toml::{Table, Value};

use super::{
    Liveness, Provider, ProviderFault, Providers, Retrieval, Rotation, Tier, Variant,
    check::{SCHEMA_VERSION, check_variant},
    files_ending_in, provider_text,
};
use crate::toml_fault;

const KEYS: &[&str] =
    &["display_name", "format_regex", "id", "liveness", "metadata", "rotation", "severity"];
/// How bad it is that such a token is found somewhere; for other tools, and nothing here goes by it.
const SEVERITIES: &[&str] = &["low", "medium", "high"];
const METADATA: &[&str] = &["default_expiry_days", "provider_id", "retrieval_url", "scopes_hint"];

/// The part of a `[[pattern]]` that has to be right for the rest to mean anything.
#[derive(Deserialize)]
struct Written {
    id: String,
    display_name: String,
    format_regex: String,
    #[serde(default)]
    metadata: About,
}

#[derive(Default, Deserialize)]
struct About {
    provider_id: Option<String>,
    retrieval_url: Option<String>,
    default_expiry_days: Option<u32>,
    scopes_hint: Option<Scopes>,
}

/// One text, or a list of words.
enum Scopes {
    List(Vec<String>),
    Text(String),
}

/// A pattern, and what was not taken over of it.
struct Read {
    variant: Variant,
    provider_id: Option<String>,
    refused: Vec<String>,
}

impl Providers {
    /// Puts the patterns of the operator's `folder` over what is there. No folder is an empty one. Blocks.
    #[must_use]
    pub fn with_patterns(mut self, folder: &Path) -> Self {
        for file in files_ending_in(folder, "toml") {
            self = self.with_pattern_file(&file);
        }
        self
    }

    /// Puts the patterns of one file over what is there. Blocks.
    #[must_use]
    pub fn with_pattern_file(mut self, file: &Path) -> Self {
        match provider_text(file).and_then(|text| tables(&text)) {
            Ok((tables, unread)) => {
                self.tell(file, unread);
                tables.iter().enumerate().for_each(|(at, table)| self.add(file, at, table));
            }
            Err(why) => self.pattern_faults.push(ProviderFault { file: file.to_owned(), why }),
        }
        self
    }

    fn add(&mut self, file: &Path, at: usize, table: &Table) {
        let named = table.get("id").and_then(Value::as_str);
        let named = named.map_or_else(|| format!("{}", at + 1), |id| format!("{id:?}"));
        let added = read(table).and_then(|Read { variant, provider_id, refused }| {
            self.tell(file, refused.into_iter().map(|why| format!("pattern {named}: {why}")));
            self.put(file, variant, provider_id.as_deref())
        });
        if let Err(why) = added {
            let why = format!("pattern {named}: {why}");
            self.pattern_faults.push(ProviderFault { file: file.to_owned(), why });
        }
    }

    fn put(
        &mut self,
        file: &Path,
        mut variant: Variant,
        provider_id: Option<&str>,
    ) -> Result<(), String> {
        let id = variant.id.clone();
        if self.patterns.contains(&id) {
            return Err("it stands there twice; the first counts".to_owned());
        }
        if let Some((provider_id, there)) = self.variant(&id).map(|(of, v)| (&of.provider_id, v)) {
            variant.env_var.clone_from(&there.env_var);
            variant.egress.clone_from(&there.egress);
            if variant.retrieval.page().is_none() {
                variant.retrieval.console_url.clone_from(&there.retrieval.console_url);
                variant.retrieval.docs_url.clone_from(&there.retrieval.docs_url);
                variant.retrieval.steps.clone_from(&there.retrieval.steps);
            }
            // Its check has to go where the token may.
            check_variant(&variant)?;
            let provider_id = provider_id.clone();
            let why = format!("pattern {id:?} takes the place of the one that {provider_id} has");
            self.shadowed.push(ProviderFault { file: file.to_owned(), why });
            let (_, provider) = self.all.get_mut(&provider_id).expect("it was found there");
            let place = provider.variants.iter_mut().find(|one| one.id == id);
            *place.expect("it was found there") = variant;
        } else {
            check_variant(&variant)?;
            if self.all.contains_key(&id) {
                return Err("a service of the catalog has this name; choose another id".to_owned());
            }
            let service = provider_id.and_then(|id| self.provider(id));
            let display_name = service.map_or(&variant.display_name, |of| &of.display_name);
            let provider = Provider {
                schema: None,
                schema_version: SCHEMA_VERSION,
                provider_id: id.clone(),
                display_name: display_name.clone(),
                description: None,
                variants: vec![variant],
                env_var_patterns: Vec::new(),
                env_var_skip: Vec::new(),
            };
            self.all.insert(id.clone(), (Tier::User, provider));
        }
        self.patterns.insert(id);
        Ok(())
    }

    fn tell(&mut self, file: &Path, said: impl IntoIterator<Item = String>) {
        let told = said.into_iter().map(|why| ProviderFault { file: PathBuf::from(file), why });
        self.pattern_notes.extend(told);
    }
}

/// The patterns of a file, and the keys beside them that nothing reads.
fn tables(text: &str) -> Result<(Vec<Table>, Vec<String>), String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| toml_fault(text, &error))?;
    let unread = unread("the file", &file, &["pattern", "schema_version"]);
    if file.get("schema_version").is_some_and(|version| version.as_integer() != Some(1)) {
        return Err("schema_version is not 1".to_owned());
    }
    let all = match file.get("pattern") {
        None => return Ok((Vec::new(), unread)),
        Some(all) => all.as_array().ok_or("pattern is no list of tables: write [[pattern]]")?,
    };
    let table = |one: &Value| one.as_table().cloned();
    let tables: Option<Vec<Table>> = all.iter().map(table).collect();
    Ok((tables.ok_or("pattern is no list of tables: write [[pattern]]")?, unread))
}

fn read(table: &Table) -> Result<Read, String> {
    let mut refused = unread("it", table, KEYS);
    if let Some(about) = table.get("metadata").and_then(Value::as_table) {
        refused.extend(unread("metadata", about, METADATA));
    }
    let severity = table.get("severity").map(|word| word.as_str().unwrap_or_default());
    if severity.is_some_and(|word| !SEVERITIES.contains(&word)) {
        return Err("severity is low, medium or high".to_owned());
    }
    let Written { id, display_name, format_regex, metadata } =
        parsed(&Value::Table(table.clone()))?;
    let mut notes = Vec::new();
    match metadata.scopes_hint {
        Some(Scopes::List(all)) => notes.push(format!("Scopes: {}.", all.join(", "))),
        Some(Scopes::Text(text)) => notes.push(format!("Scopes: {text}.")),
        None => {}
    }
    if let Some(days) = metadata.default_expiry_days {
        notes.push(format!("Such a token mostly ends after {days} days."));
    }
    let variant = Variant {
        description: display_name.clone(),
        id,
        display_name,
        format_regex: Some(format_regex),
        format_hint: None,
        retrieval: Retrieval {
            console_url: metadata.retrieval_url.unwrap_or_default(),
            docs_url: None,
            steps: Vec::new(),
            notes: (!notes.is_empty()).then(|| notes.join(" ")),
        },
        liveness: part::<Liveness>(table, "liveness", &mut refused),
        no_liveness: None,
        rotation: part::<Rotation>(table, "rotation", &mut refused),
        default_keychain_account: None,
        env_var: None,
        egress: None,
    };
    Ok(Read { variant, provider_id: metadata.provider_id, refused })
}

/// What stands under `key` as the catalog has it; where it does not fit, it is told, and the rest counts.
fn part<T: DeserializeOwned>(table: &Table, key: &str, refused: &mut Vec<String>) -> Option<T> {
    match parsed(table.get(key)?) {
        Ok(part) => Some(part),
        Err(why) => {
            refused.push(format!("its {key} is left out, since it is not the catalog's: {why}"));
            None
        }
    }
}

fn parsed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    value.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())
}

fn unread(place: &str, table: &Table, known: &[&str]) -> Vec<String> {
    let keys = table.keys().filter(|key| !known.contains(&key.as_str()));
    let told = |key: &String| {
        format!("{place} has {key:?}, which nothing reads; there are {}", known.join(", "))
    };
    keys.map(told).collect()
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let no = || serde::de::Error::custom("scopes_hint is a text or a list of texts");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(all) => {
                let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().map(Self::List).ok_or_else(no)
            }
            _ => Err(no()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use keyless_core::SecretPath;

    use super::*;
    use crate::{metadata::Metadata, providers::FormatVerdict};

    const ACME: &str = r#"
        [[pattern]]
        id = "acme-key"
        display_name = "Acme key"
        format_regex = "^acme_[a-z]{8}$"
        severity = "high"
        metadata = { provider_id = "acme", retrieval_url = "https://acme.test/keys", default_expiry_days = 90, scopes_hint = ["read", "write"] }
        rotation = { method = "manual", every_days = 30 }
        liveness = { kind = "http", url = "https://api.acme.test/me", auth = { kind = "bearer" }, expect_status = 200 }
    "#;

    fn known(files: &[(&str, &str)]) -> Providers {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Providers::bundled().with_patterns(folder.path())
    }

    fn whys(all: &[ProviderFault]) -> Vec<String> {
        let name = |one: &ProviderFault| {
            let name = one.file.file_name().unwrap().to_string_lossy().into_owned();
            format!("{name}: {}", one.why)
        };
        all.iter().map(name).collect()
    }

    #[test]
    fn a_pattern_is_known_by_its_id_as_a_variant_is() {
        let known = known(&[("acme.toml", ACME), ("notes.txt", "no pattern")]);
        assert_eq!(whys(&known.pattern_faults), [""; 0]);
        assert_eq!(whys(&known.pattern_notes), [""; 0]);
        assert_eq!(whys(&known.shadowed), [""; 0]);
        let path = SecretPath::parse("team/other/key").unwrap();
        let (provider, variant) = known.of_secret(&path, Some("acme-key")).unwrap();
        assert_eq!(provider.display_name, "Acme key");
        assert_eq!(variant.judge(b"acme_abcdefgh"), FormatVerdict::Ok);
        assert_eq!(variant.judge(b"x acme_abcdefgh"), FormatVerdict::Invalid);
        let upkeep = variant.complete(Metadata::default()).upkeep;
        assert_eq!(upkeep.pattern_id.as_deref(), Some("acme-key"));
        assert_eq!(upkeep.retrieval_url.as_deref(), Some("https://acme.test/keys"));
        assert_eq!(upkeep.rotate_every_days, Some(30));
        assert!(variant.liveness.is_some());
        let notes = variant.retrieval.notes.as_deref().unwrap();
        assert!(notes.contains("read, write") && notes.contains("90 days"), "{notes}");
    }

    #[test]
    fn a_pattern_takes_the_place_of_the_catalogs_and_keeps_where_its_token_goes() {
        let pattern = |liveness: &str| {
            format!(
                "[[pattern]]\nid = \"npm-token\"\ndisplay_name = \"Ours\"\nformat_regex = \"^corp_[0-9]+$\"\n{liveness}"
            )
        };
        let ours = known(&[("npm.toml", &pattern(""))]);
        let told = whys(&ours.shadowed);
        assert!(told.len() == 1 && told[0].contains("the one that npm has"), "{told:?}");
        let path = SecretPath::parse("team/npm/token").unwrap();
        // By the pattern, and by the service alone.
        for pattern in [Some("npm-token"), None] {
            let (provider, variant) = ours.of_secret(&path, pattern).unwrap();
            assert_eq!(provider.provider_id, "npm");
            assert_eq!(variant.judge(b"corp_1"), FormatVerdict::Ok);
            assert_eq!(variant.liveness, None);
            assert_eq!(variant.env_var.as_ref().unwrap().as_str(), "NPM_TOKEN");
            let to = &variant.egress.as_ref().unwrap().to;
            assert_eq!(to[0].to_string(), "registry.npmjs.org");
            assert!(variant.retrieval.page().is_some());
        }
        // A check that the token's own hosts don't name is no check of it.
        let check = "liveness = { kind = \"http\", url = \"https://evil.test/\", auth = { kind = \"bearer\" }, expect_status = 200 }\n";
        let astray = known(&[("npm.toml", &pattern(check))]);
        let told = whys(&astray.pattern_faults);
        assert!(told.len() == 1 && told[0].contains("evil.test"), "{told:?}");
        assert_eq!(astray.variant("npm-token"), Providers::bundled().variant("npm-token"));
    }

    #[test]
    fn what_is_wrong_is_told_of_its_file_and_the_rest_counts() {
        let good =
            "[[pattern]]\nid = \"good\"\ndisplay_name = \"Good\"\nformat_regex = \"^good$\"\n";
        let bad = |line: &str| {
            let fields =
                [("id", "\"bad\""), ("display_name", "\"Bad\""), ("format_regex", "\"^b$\"")];
            let key = line.split(' ').next().unwrap();
            let others = fields.iter().filter(|(name, _)| *name != key);
            let others: Vec<_> = others.map(|(name, text)| format!("{name} = {text}")).collect();
            format!("[[pattern]]\n{}\n{line}\n", others.join("\n"))
        };
        for (line, why) in [
            ("id = \"Bad\"", "not lower-kebab"),
            ("id = \"github\"", "choose another id"),
            ("id = \"good\"", "twice"),
            ("format_regex = \"^(b$\"", "format_regex"),
            ("format_regex = \"b\"", "begins with ^"),
            ("severity = \"dire\"", "low, medium or high"),
            ("metadata = { retrieval_url = \"http://a.test\" }", "not https"),
            ("rotation = { method = \"manual\", every_days = 0 }", "every_days"),
            (
                "liveness = { kind = \"http\", url = \"http://a.test\", auth = { kind = \"bearer\" }, expect_status = 200 }",
                "not https",
            ),
        ] {
            let known = known(&[("one.toml", &format!("{good}{}", bad(line)))]);
            let told = whys(&known.pattern_faults);
            assert!(told.len() == 1 && told[0].starts_with("one.toml: pattern \""), "{told:?}");
            assert!(told[0].contains(why), "{line}: {told:?}");
            assert!(known.variant("good").is_some() && known.variant("bad").is_none());
        }
        let broken =
            known(&[("a.toml", "[[pattern\n"), ("b.toml", good), ("c.toml", "pattern = 1")]);
        let told = whys(&broken.pattern_faults);
        assert!(told.len() == 2 && told[0].starts_with("a.toml: "), "{told:?}");
        assert!(broken.variant("good").is_some());
        // Told, and no reason to do without the pattern.
        for (line, why) in [
            ("format_hint = \"x\"", "\"format_hint\", which nothing reads"),
            ("metadata = { scope = \"x\" }", "\"scope\", which nothing reads"),
            ("rotation = { every = 3 }", "its rotation is left out"),
            ("liveness = { command = \"id\" }", "its liveness is left out"),
        ] {
            let known = known(&[("one.toml", &bad(line))]);
            let told = whys(&known.pattern_notes);
            assert!(told.len() == 1 && told[0].contains(why), "{line}: {told:?}");
            assert!(known.variant("bad").is_some() && known.pattern_faults.is_empty(), "{line}");
        }
    }
}
