//! The document: groups, entries, fields. One field of one entry is decrypted, no other.

use data_encoding::BASE64;
use roxmltree::{Document, Node};
use zeroize::Zeroizing;

use super::{Fault, container::Content};

/// Fields that are made of a seed each time they are asked for; the seed is no value.
const SEEDS: [&str; 4] = ["otp", "totp", "timeotp", "hmacotp"];
/// Fields that every entry has; they are found in any case.
const STANDARD: [&str; 5] = ["Notes", "Password", "Title", "URL", "UserName"];
/// How a value starts that is another entry's, in any case.
const REFERENCE: &[u8] = b"{REF:";

/// A field's text: `entry` is the names of its groups and its title, with slashes between. `None`
/// when there is no such entry, or it has no such field.
pub(super) fn find(
    content: &Content,
    entry: &str,
    field: &str,
) -> Result<Option<Zeroizing<Vec<u8>>>, Fault> {
    let (document, stream) = (parse(content)?, &content.stream);
    if is_seed(field) {
        return Err(Fault::Seed);
    }
    let Some(found) = find_entry(&document, entry)? else { return Ok(None) };
    let Some(value) = find_field(found, field) else { return Ok(None) };
    let text = value.text().unwrap_or_default();
    let bytes = if is_protected(value) {
        let mut bytes = decode(text)?;
        stream.decrypt(offset_of(&document, value)?, &mut bytes)?;
        bytes
    } else {
        Zeroizing::new(text.as_bytes().to_vec())
    };
    // KeePass would put another entry's field in its place.
    if refers(&bytes) { Err(Fault::Refers) } else { Ok(Some(bytes)) }
}

fn refers(value: &[u8]) -> bool {
    let start = value.get(..REFERENCE.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(REFERENCE))
}

/// Whether the whole of it can be read.
pub(super) fn check(content: &Content) -> Result<(), Fault> {
    parse(content).map(|_| ())
}

/// Refuses a document that is not its header's, as version 3.1 has it.
fn parse(content: &Content) -> Result<Document<'_>, Fault> {
    let document = Document::parse(content.text()?).map_err(|_| Fault::Damaged)?;
    let said = meta(&document, "HeaderHash");
    match (content.header_hash, said) {
        (Some(hash), Some(said)) if said != BASE64.encode(&hash) => Err(Fault::Damaged),
        _ => Ok(document),
    }
}

/// What every entry that can be found goes by; the names of groups and titles are not protected.
pub(super) fn names(content: &Content) -> Result<Vec<String>, Fault> {
    let document = parse(content)?;
    let name = |entry: Node<'_, '_>| {
        let title = find_field(entry, "Title").filter(|value| !is_protected(*value))?.text()?;
        let mut groups: Vec<_> = groups_of(entry).collect();
        // The root group's name is not written.
        groups.pop();
        let folders = groups.iter().rev().map(|group| text_of(*group, "Name").unwrap_or_default());
        Some(folders.chain([title]).collect::<Vec<_>>().join("/"))
    };
    Ok(entries(&document).filter_map(name).collect())
}

/// The one entry that goes by this.
fn find_entry<'a, 'input>(
    document: &'a Document<'input>,
    named: &str,
) -> Result<Option<Node<'a, 'input>>, Fault> {
    let mut fitting = entries(document).filter(|entry| is_called(*entry, groups_of(*entry), named));
    match (fitting.next(), fitting.next()) {
        (_, Some(_)) => Err(Fault::Ambiguous),
        (one, None) => Ok(one),
    }
}

/// Every entry but those in the recycle bin, and those of an entry's past.
fn entries<'a, 'input>(document: &'a Document<'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    let bin = meta(document, "RecycleBinUUID");
    let entries = document.descendants().filter(|node| node.has_tag_name("Entry"));
    entries.filter(move |entry| {
        let binned = groups_of(*entry).any(|group| bin.is_some() && text_of(group, "UUID") == bin);
        !binned && groups_of(*entry).count() > 0
    })
}

/// The groups that an entry lies in, from the inside outwards.
fn groups_of<'a, 'input: 'a>(entry: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    entry.ancestors().skip(1).take_while(|node| node.has_tag_name("Group"))
}

/// Whether the names, from the entry outwards, are those of `named` from its end. The root group has
/// a name that is not written.
fn is_called<'a, 'input: 'a>(
    entry: Node<'a, 'input>,
    groups: impl Iterator<Item = Node<'a, 'input>>,
    named: &str,
) -> bool {
    let title = find_field(entry, "Title").and_then(|value| value.text()).unwrap_or_default();
    let Some(mut rest) = named.strip_suffix(title) else { return false };
    let mut groups = groups.peekable();
    while let Some(group) = groups.next() {
        if groups.peek().is_none() {
            return rest.is_empty();
        }
        let name = text_of(group, "Name").unwrap_or_default();
        let before = rest.strip_suffix('/').and_then(|rest| rest.strip_suffix(name));
        let Some(before) = before else { return false };
        rest = before;
    }
    false
}

/// The value of a field; standard ones go by their name in any case.
fn find_field<'a, 'input>(entry: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    let standard = STANDARD.iter().find(|known| known.eq_ignore_ascii_case(name));
    let name = standard.copied().unwrap_or(name);
    let fields = entry.children().filter(|node| node.has_tag_name("String"));
    let mut fitting = fields.filter(|field| text_of(*field, "Key") == Some(name));
    fitting.next()?.children().find(|node| node.has_tag_name("Value"))
}

fn is_seed(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    SEEDS.iter().any(|seed| field.starts_with(seed))
}

/// What the document says of itself.
fn meta<'a>(document: &'a Document<'_>, name: &str) -> Option<&'a str> {
    text_of(document.descendants().find(|node| node.has_tag_name("Meta"))?, name)
}

/// How much of the stream goes to the protected fields before this one.
fn offset_of(document: &Document<'_>, value: Node<'_, '_>) -> Result<u64, Fault> {
    let before = document.descendants().take_while(|node| *node != value);
    let before = before.filter(|node| is_protected(*node));
    before.map(|node| length_of(node.text().unwrap_or_default())).sum()
}

fn is_protected(node: Node<'_, '_>) -> bool {
    node.attribute("Protected").is_some_and(|said| said.eq_ignore_ascii_case("true"))
}

/// How many bytes this Base64 stands for.
fn length_of(text: &str) -> Result<u64, Fault> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let length = BASE64.decode_len(text.len()).ok().and_then(|most| most.checked_sub(padding));
    length.and_then(|length| u64::try_from(length).ok()).ok_or(Fault::Damaged)
}

fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let room = BASE64.decode_len(text.len()).map_err(|_| Fault::Damaged)?;
    let mut bytes = Zeroizing::new(vec![0; room]);
    let length = BASE64.decode_mut(text.as_bytes(), &mut bytes).map_err(|_| Fault::Damaged)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// The text of a child.
fn text_of<'a>(node: Node<'a, '_>, child: &str) -> Option<&'a str> {
    node.children().find(|node| node.has_tag_name(child))?.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_known_by_its_start_in_any_case() {
        for value in ["{REF:", "{REF:P@I:46C9B1FF}", "{ref:u@t:x}", "{Ref:"] {
            assert!(refers(value.as_bytes()), "{value}");
        }
        for value in ["", "{REF", "{REF;", " {REF:P@I:46C9B1FF}", "ref:"] {
            assert!(!refers(value.as_bytes()), "{value}");
        }
    }
}
