//! The desktop's keyring, over D-Bus.
//! Source: <https://specifications.freedesktop.org/secret-service-spec/latest/>

use std::collections::{BTreeMap, HashMap};

use keyless_core::SecretValue;
use secret_service::{EncryptionType, Error, Item, SecretService};
use zeroize::Zeroizing;

use super::{Attributes, Held, SourceFault, State};

pub(super) async fn state() -> Result<State, SourceFault> {
    let service = connect().await?;
    let is_locked = service.get_any_collection().await?.is_locked().await?;
    Ok(if is_locked { State::Locked } else { State::Available })
}

pub(super) async fn list() -> Result<Vec<Held>, SourceFault> {
    let service = connect().await?;
    let (mut items, mut locked) = (Vec::new(), false);
    for collection in service.get_all_collections().await? {
        if collection.is_locked().await? {
            locked = true;
            continue;
        }
        for item in collection.get_all_items().await? {
            // One that was removed meanwhile is none.
            if let (Ok(attributes), Ok(label)) =
                (item.get_attributes().await, item.get_label().await)
            {
                items.push((attributes, label));
            }
        }
    }
    if locked && items.is_empty() {
        return Err(Error::Locked.into());
    }
    Ok(held(&items))
}

pub(super) async fn get(
    attributes: &Attributes<'_>,
) -> Result<Option<Zeroizing<Vec<u8>>>, SourceFault> {
    let service = connect().await?;
    let Some(item) = find(&service, attributes).await? else {
        return Ok(None);
    };
    Ok(Some(Zeroizing::new(item.get_secret().await?)))
}

pub(super) async fn put(
    attributes: Attributes<'_>,
    value: &SecretValue,
) -> Result<(), SourceFault> {
    let service = connect().await?;
    let (secret, kind) = (value.expose_to_its_source(), "text/plain");
    if let Some(item) = find(&service, &attributes).await? {
        return Ok(item.set_secret(secret, kind).await?);
    }
    let collection = service.get_any_collection().await?;
    let label = format!("Keyless: {}", value.path());
    collection.create_item(&label, attributes, secret, false, kind).await?;
    Ok(())
}

async fn connect() -> Result<SecretService<'static>, Error> {
    // Values cross the bus encrypted, since others may listen on it.
    SecretService::connect(EncryptionType::Dh).await
}

/// The one item with these attributes.
async fn find<'a>(
    service: &'a SecretService<'_>,
    attributes: &Attributes<'_>,
) -> Result<Option<Item<'a>>, SourceFault> {
    let mut found = service.search_items(attributes.clone()).await?;
    if found.unlocked.len() + found.locked.len() > 1 {
        let words = "several items have these attributes; name more of them";
        return Err(SourceFault::new(State::Available, words));
    }
    match (found.unlocked.pop(), found.locked.is_empty()) {
        (Some(item), _) => Ok(Some(item)),
        (None, true) => Ok(None),
        (None, false) => Err(Error::Locked.into()),
    }
}

/// Items by the shortest reference that tells them apart. One whose attributes can't be written as a reference is left
/// out, since nothing could name it.
fn held(items: &[(HashMap<String, String>, String)]) -> Vec<Held> {
    let short: Vec<Option<String>> = items.iter().map(|(known, _)| written(known, false)).collect();
    let is_alone = |one: &String| short.iter().flatten().filter(|other| *other == one).count() == 1;
    let held = |((known, label), short): (&(HashMap<String, String>, String), &Option<String>)| {
        let reference = short.clone().filter(is_alone).or_else(|| written(known, true))?;
        Some(Held { reference, name: Some(label.clone()).filter(|label| !label.is_empty()) })
    };
    items.iter().zip(&short).filter_map(held).collect()
}

/// Attributes as a reference. KeePassXC's have notes and one-time codes among them, and an identity that is enough.
fn written(known: &HashMap<String, String>, with_schema: bool) -> Option<String> {
    const IDENTITY: &str = "Uuid";
    const SCHEMA: &str = "xdg:schema";
    if let Some(identity) = known.get(IDENTITY) {
        return Some(format!("{IDENTITY}={identity}"));
    }
    let named: BTreeMap<_, _> =
        known.iter().filter(|(name, _)| with_schema || *name != SCHEMA).collect();
    let fits = |(name, value): (&&String, &&String)| {
        !name.is_empty() && !name.contains([',', '=']) && !value.contains(',')
    };
    (!named.is_empty() && named.iter().all(fits)).then(|| {
        let pairs: Vec<String> =
            named.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join(",")
    })
}

impl From<Error> for SourceFault {
    fn from(error: Error) -> Self {
        match error {
            Error::Locked | Error::Prompt => Self::new(State::Locked, "the keyring is locked"),
            Error::NoResult | Error::Unavailable => {
                Self::new(State::NotInstalled, "no keyring is on this session's bus")
            }
            _ => Self::new(State::Unavailable, "the keyring, or the way to it, failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::attributes, *};

    #[test]
    fn an_item_is_told_by_what_finds_it_and_by_no_more() {
        let item = |pairs: &[(&str, &str)], label: &str| {
            let known = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            (known.collect::<HashMap<_, _>>(), label.to_owned())
        };
        let schema = ("xdg:schema", "org.gnome.A");
        let items = vec![
            item(&[("username", "ada"), ("service", "github"), schema], "GitHub"),
            item(&[("service", "twice"), ("xdg:schema", "one")], ""),
            item(&[("service", "twice"), ("xdg:schema", "two")], "x"),
            item(&[("service", "a,b")], "none can name it"),
            item(&[schema], "only a schema"),
            item(&[("Uuid", "5f"), ("Notes", "private"), ("TOTP", "123456")], "KeePassXC's"),
        ];
        let told: Vec<_> = held(&items).into_iter().map(|one| (one.reference, one.name)).collect();
        let one =
            |reference: &str, name: Option<&str>| (reference.to_owned(), name.map(str::to_owned));
        let expected = [
            one("service=github,username=ada", Some("GitHub")),
            one("service=twice,xdg:schema=one", None),
            one("service=twice,xdg:schema=two", Some("x")),
            one("xdg:schema=org.gnome.A", Some("only a schema")),
            one("Uuid=5f", Some("KeePassXC's")),
        ];
        assert_eq!(told, expected);
        assert!(told.iter().all(|(reference, _)| attributes(reference).is_ok()));
    }
}
