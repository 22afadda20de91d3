//! Adds a source to the operator's `sources.toml`, or takes one out. What stands there already stays as it was written,
//! and a file that would not be usable is never written.

use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_vault::{
    Answer, HttpAnswer, HttpFault, HttpRequest, Router, RouterConfig, Secret, SourceConfig,
    SourceHttp, SourceType, read_settings_text,
};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, value};

use crate::{
    places::{Places, unusable},
    whole_file::{Turn, folder_of, rewrite_whole, write_whole},
};

/// Settings that would be a credential in a file; it is a secret of the store instead.
const CREDENTIALS: &[&str] =
    &["password", "secret", "secret_access_key", "secret_id", "session", "token"];

/// A source that is to be declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSource {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SourceType,
    /// Whether Keyless may put values there.
    pub may_write: bool,
    /// Everything else of it, by name.
    pub settings: Vec<(String, String)>,
    /// The prefixes of paths that lead there.
    pub routes: Vec<String>,
    /// Whether what nothing else leads elsewhere is kept there.
    pub is_default: bool,
    /// The secret that opens it.
    pub credential: Option<SecretPath>,
}

impl NewSource {
    /// A source without settings that is called what its type is, and to which nothing is led.
    pub fn plain(kind: SourceType) -> Self {
        Self {
            name: kind.to_string(),
            kind,
            may_write: false,
            settings: Vec::new(),
            routes: Vec::new(),
            is_default: false,
            credential: None,
        }
    }
}

/// Adds a source. Blocks.
///
/// Fails with [`Code::StateUnfit`] when its name is taken or another default stands, with [`Code::Usage`] when what is said
/// of it can't be used, and with [`Code::SourcesInvalid`] when the file could not be used before; nothing is written.
pub fn declare_source(places: &Places, new: &NewSource) -> Result<(), Error> {
    let _turn = take_turn(places)?;
    let mut document = read(places)?;
    new.check_settings()?;
    if sources(&document).any(|table| is(table, "name", &new.name)) {
        let words = SafeText::words("there is a source ").as_they_wrote(&new.name);
        return Err(Error::with(
            Code::StateUnfit,
            words.and(" already; keyless source remove takes it out"),
        ));
    }
    if document.is_empty() {
        document["schema_version"] = value(1);
    }
    push(&mut document, "source", new.table())?;
    for prefix in &new.routes {
        let mut route = Table::new();
        route["prefix"] = value(prefix);
        route["source"] = value(&new.name);
        push(&mut document, "route", route)?;
    }
    if new.is_default {
        if document.contains_key("default") {
            let words = "sources.toml has a default already; change it there";
            return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
        }
        let mut default = Table::new();
        default["source"] = value(&new.name);
        document["default"] = Item::Table(default);
    }
    if let Some(credential) = &new.credential {
        let credentials = document.entry("source_credentials").or_insert(Item::Table(Table::new()));
        let credentials = credentials.as_table_like_mut().ok_or_else(misshapen)?;
        credentials.insert(&new.name, value(credential.as_str()));
    }
    write(places, &document)
}

impl NewSource {
    /// [`Code::Usage`] for settings that a source of this type does not have, or that do not belong into the file.
    fn check_settings(&self) -> Result<(), Error> {
        if let Some((name, _)) =
            self.settings.iter().find(|(name, _)| CREDENTIALS.contains(&name.as_str()))
        {
            let words = SafeText::words(
                "a credential does not stand in sources.toml: keep it as a secret, and name that with --credential in place of ",
            );
            return Err(Error::with(Code::Usage, words.as_they_wrote(name)));
        }
        let known = RouterConfig::settings_of(self.kind);
        let is_unknown = |name: &str| {
            let whole = name.split_once('.').map_or(name, |(table, _)| table);
            !known.contains(&whole)
        };
        if let Some((name, _)) = self.settings.iter().find(|(name, _)| is_unknown(name)) {
            let words = SafeText::words("a source of type ").and(self.kind.as_str());
            let words = words.and(" has no setting ").as_they_wrote(name);
            let words = words.and("; there are ").as_they_wrote(&known.join(", "));
            return Err(Error::with(Code::Usage, words));
        }
        let asks_to_write =
            |(name, text): &(String, String)| name == "access" && text == "readwrite";
        if !self.kind.takes_values() && (self.may_write || self.settings.iter().any(asks_to_write))
        {
            let words = SafeText::words("a source of type ").and(self.kind.as_str());
            let words = words.and(" takes no values, so readwrite says nothing: leave access out");
            return Err(Error::with(Code::Usage, words));
        }
        let is_checksum =
            |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if self.settings.iter().any(|(name, text)| name == "checksum_sha256" && !is_checksum(text))
        {
            let words =
                "checksum_sha256 is not the 64 hexadecimal digits that sha256sum PROGRAM prints";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
        Ok(())
    }

    /// As `[[source]]` has it.
    fn table(&self) -> Table {
        let mut source = Table::new();
        source["name"] = value(&self.name);
        source["type"] = value(self.kind.as_str());
        let names_program = self.settings.iter().any(|(name, _)| name == "program");
        if let Some(program) = program_elsewhere(self.kind).filter(|_| !names_program) {
            source["program"] = value(program);
        }
        for (name, text) in &self.settings {
            match name.split_once('.') {
                Some(("environment", variable)) => {
                    source["environment"].or_insert(value(toml_edit::InlineTable::new()))
                        [variable] = value(text);
                }
                Some(("config", key)) => {
                    source["config"].or_insert(value(toml_edit::InlineTable::new()))[key] =
                        number(text).map_or_else(|| value(text), value);
                }
                _ => source[name] = number(text).map_or_else(|| value(text), value),
            }
        }
        if self.may_write {
            source["access"] = value("readwrite");
        }
        source
    }
}

/// What a source of this name lacks on this machine, as a fragment of a sentence; nothing where it lacks nothing. Nobody
/// is asked. Blocks.
pub fn lacking_of_source(places: &Places, name: &str) -> Result<Option<SafeText>, Error> {
    let router = to_look_at(RouterConfig::load(&places.sources_file())?)?;
    Ok(router.lacking().into_iter().find(|lacking| lacking.name == name).map(|lacking| lacking.why))
}

/// Where the program of such sources is, by `PATH`, if it is not where they look for it by themselves.
fn program_elsewhere(kind: SourceType) -> Option<String> {
    let (name, usual) = kind.program()?;
    if is_program(Path::new(usual)) {
        return None;
    }
    let folders = env::var_os("PATH")?;
    let places = env::split_paths(&folders).filter(|folder| folder.is_absolute());
    let found: PathBuf = places.map(|folder| folder.join(name)).find(|place| is_program(place))?;
    found.into_os_string().into_string().ok()
}

fn is_program(place: &Path) -> bool {
    let is_one = |found: fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    fs::metadata(place).is_ok_and(is_one)
}

/// Takes a source out, with the routes and the default that lead to it and the name of its credential. Blocks.
///
/// Fails with [`Code::StateUnfit`] while something is kept there, with [`Code::SourceUnknown`] when there is none of that
/// name, and with [`Code::Usage`] when the file names it elsewhere.
pub fn undeclare_source(places: &Places, name: &str, secrets: &[Secret]) -> Result<(), Error> {
    let _turn = take_turn(places)?;
    let mut document = read(places)?;
    if !sources(&document).any(|table| is(table, "name", name)) {
        let words = SafeText::words("sources.toml has no source ").as_they_wrote(name);
        return Err(Error::with(Code::SourceUnknown, words));
    }
    // The source may be what makes the file unusable; what is written in the end is usable.
    let config = RouterConfig::load(&places.sources_file()).ok();
    let is_led_here = |path: &SecretPath| match &config {
        Some(config) => config.source_of(path) == Some(name),
        None => tables(&document, "route").any(|route| {
            let prefix = route.get("prefix").and_then(Item::as_str);
            is(route, "source", name) && prefix.is_some_and(|it| path.as_str().starts_with(it))
        }),
    };
    let kept = secrets.iter().find(|secret| match &secret.metadata.source {
        SourceConfig::Routed { source: Some(source), .. } => source == name,
        SourceConfig::Routed { source: None, .. } => is_led_here(&secret.path),
        _ => false,
    });
    if let Some(secret) = kept {
        let words = SafeText::default().and(&secret.path).and(" is kept at ").as_they_wrote(name);
        let words = words
            .and("; keyless secret remove and purge take it out, and keyless secret add --source names another place");
        return Err(Error::with(Code::StateUnfit, words));
    }
    for (section, key) in [("source", "name"), ("route", "source")] {
        if let Some(tables) = document.get_mut(section).and_then(Item::as_array_of_tables_mut) {
            tables.retain(|table| !is(table, key, name));
        }
    }
    if let Some(credentials) =
        document.get_mut("source_credentials").and_then(Item::as_table_like_mut)
    {
        credentials.remove(name);
    }
    if document
        .get("default")
        .and_then(Item::as_table_like)
        .is_some_and(|table| names(table, "source", name))
    {
        document.remove("default");
    }
    if let Some(default) = document.get_mut("default").and_then(Item::as_table_like_mut)
        && names(default, "fallback", name)
    {
        default.remove("fallback");
    }
    // Where a secret's own line still names it, the file would not be usable.
    write(places, &document)
}

fn read(places: &Places) -> Result<DocumentMut, Error> {
    let file = places.sources_file();
    let fault = |words: &str| {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy()).and(": ");
        Error::with(Code::SourcesInvalid, place.as_they_wrote(words))
    };
    match read_settings_text(&file) {
        Ok(text) => text.parse().map_err(|error: toml_edit::TomlError| fault(error.message())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DocumentMut::new()),
        Err(error) => Err(fault(&error.to_string())),
    }
}

/// Writes the file, once it is known to be usable; what makes it unusable now is what was asked for.
fn write(places: &Places, document: &DocumentMut) -> Result<(), Error> {
    let (file, text) = (places.sources_file(), document.to_string());
    let config =
        RouterConfig::parse(&text).map_err(|fault| SafeText::default().as_they_wrote(&fault));
    let usable = config
        .and_then(|config| to_look_at(config).map(drop).map_err(|error| error.detail().clone()));
    if let Err(fault) = usable {
        to_look_at(RouterConfig::load(&file)?)?;
        return Err(Error::with(Code::Usage, fault));
    }
    let written = match rewrite_whole(&file, text.as_bytes()) {
        // A link that leads nowhere is no place for one of ours.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !file.is_symlink() => {
            write_whole(&file, text.as_bytes(), 0o600)
        }
        written => written,
    };
    written.map_err(|error| unusable(&file, &error))
}

/// Of two at once, the second would write over what the first one wrote.
fn take_turn(places: &Places) -> Result<Turn, Error> {
    let file = places.sources_file();
    Turn::take(&file).map_err(|error| unusable(&folder_of(&file), &error))
}

/// The sources that a file declares, to look at them alone: none that is asked over HTTP answers.
///
/// [`Code::SourcesInvalid`] says which one's settings don't fit.
pub(crate) fn to_look_at(config: RouterConfig) -> Result<Router, Error> {
    let nobody: Arc<dyn SourceHttp> = Arc::new(Nobody);
    Router::new(config, &nobody)
}

/// Sources are only looked at here, not asked.
struct Nobody;

impl SourceHttp for Nobody {
    fn send(&self, _: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
        Box::pin(async { Err(HttpFault::Unreachable) })
    }
}

fn sources(document: &DocumentMut) -> impl Iterator<Item = &Table> {
    tables(document, "source")
}

fn tables<'a>(document: &'a DocumentMut, key: &str) -> impl Iterator<Item = &'a Table> {
    document.get(key).and_then(Item::as_array_of_tables).into_iter().flatten()
}

fn is(table: &Table, key: &str, word: &str) -> bool {
    names(table, key, word)
}

fn names(table: &dyn TableLike, key: &str, word: &str) -> bool {
    table.get(key).and_then(Item::as_str) == Some(word)
}

fn push(document: &mut DocumentMut, section: &str, table: Table) -> Result<(), Error> {
    let tables = document.entry(section).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    tables.as_array_of_tables_mut().ok_or_else(misshapen)?.push(table);
    Ok(())
}

/// Seconds are written as numbers.
fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn misshapen() -> Error {
    let words = "sources.toml has a section that is no table; add the source there by hand";
    Error::with(Code::SourcesInvalid, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt as _, symlink},
        thread,
    };

    use super::*;

    fn files_at(number: usize) -> NewSource {
        let settings = vec![("folder".to_owned(), format!("/mnt/{number}"))];
        let name = format!("mounted-{number}");
        NewSource { name, settings, ..NewSource::plain(SourceType::Files) }
    }

    #[test]
    fn the_operators_link_and_mode_stay() {
        let home = tempfile::tempdir().unwrap();
        let places = Places::below(home.path());
        declare_source(&places, &files_at(0)).unwrap();
        let (file, kept) = (places.sources_file(), home.path().join("kept.toml"));
        let mode = |file: &std::path::Path| fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&file) & 0o777, 0o600);
        fs::rename(&file, &kept).unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&kept, &file).unwrap();
        declare_source(&places, &files_at(1)).unwrap();
        undeclare_source(&places, "mounted-0", &[]).unwrap();
        assert!(file.is_symlink() && mode(&kept) & 0o777 == 0o640);
        assert!(fs::read_to_string(&kept).unwrap().contains("mounted-1"));
    }

    #[test]
    fn of_many_at_once_none_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let places = Places::below(home.path());
        thread::scope(|scope| {
            for number in 0..16 {
                let places = &places;
                scope.spawn(move || declare_source(places, &files_at(number)).unwrap());
            }
        });
        assert_eq!(sources(&read(&places).unwrap()).count(), 16);
    }
}
