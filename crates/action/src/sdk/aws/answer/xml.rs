//! Answers of XML. Which elements are lists, numbers or booleans only the model knows; it goes no deeper
//! than the model, none of whose shapes here contains itself (`cargo xtask aws-models` sees to that).

use roxmltree::{Document, Node};
use serde_json::{Map, Value};

use super::{
    super::models::{Map as MapShape, Member, Service, Shape, Structure},
    WITHHELD, scalar,
};

/// The members in the root, or in the element in it that is called `wrapper`.
pub(super) fn structure(
    service: &Service,
    structure: &Structure,
    text: &str,
    wrapper: Option<&str>,
) -> Option<Map<String, Value>> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    let result = wrapper.and_then(|name| children(root).find(|child| is(*child, name)));
    let reader = Reader { service };
    let mut members = reader.members(structure, result.unwrap_or(root));
    // S3 answers GetBucketLocation with the member itself.
    if let Some((title, member)) = structure.members.first_key_value()
        && members.is_empty()
        && is(root, member.wire(title))
    {
        let text = root.text().filter(|text| !text.is_empty());
        members.insert(title.clone(), text.map_or(Value::Null, Value::from));
    }
    Some(members)
}

/// The root as a value.
pub(super) fn value(service: &Service, of: usize, text: &str) -> Option<Value> {
    let document = Document::parse(text).ok()?;
    Reader { service }.value(of, false, &[document.root_element()])
}

/// Whether the root is an error's.
pub(super) fn is_error(text: &str) -> bool {
    Document::parse(text).is_ok_and(|document| is(document.root_element(), "Error"))
}

struct Reader<'a> {
    service: &'a Service,
}

impl Reader<'_> {
    fn members(&self, structure: &Structure, node: Node<'_, '_>) -> Map<String, Value> {
        let mut members = Map::new();
        for (title, member) in structure.members.iter().filter(|(_, member)| member.at.is_none()) {
            let name = self.name(title, member);
            if member.attribute {
                let name = name.rsplit(':').next().unwrap_or(name);
                let found = node.attributes().find(|attribute| attribute.name() == name);
                members.extend(found.map(|found| (title.clone(), found.value().into())));
                continue;
            }
            let found: Vec<_> = children(node).filter(|child| is(*child, name)).collect();
            if let Some(value) = self.value(member.of, member.flat, &found) {
                members.insert(title.clone(), value);
            }
        }
        members
    }

    /// What a member's elements are called: those of a flat list as its items are.
    fn name<'m>(&'m self, title: &'m str, member: &'m Member) -> &'m str {
        match self.service.shape(member.of) {
            Shape::List(list) if list.flat || member.flat => {
                list.name.as_deref().unwrap_or(member.wire(title))
            }
            _ => member.wire(title),
        }
    }

    /// What elements of one name in one parent are; of what is no flat list or map there is one.
    fn value(&self, of: usize, flat: bool, nodes: &[Node<'_, '_>]) -> Option<Value> {
        let first = nodes.first()?;
        Some(match self.service.shape(of) {
            Shape::List(list) => {
                let item = |node| self.value(list.of, false, &[node]);
                if list.flat || flat {
                    nodes.iter().copied().filter_map(item).collect()
                } else {
                    children(*first).filter_map(item).collect()
                }
            }
            Shape::Map(map) => {
                let entry = |node| self.entry(map, node);
                let entries = if map.flat || flat {
                    nodes.iter().copied().filter_map(entry).collect()
                } else {
                    children(*first).filter_map(entry).collect()
                };
                Value::Object(entries)
            }
            Shape::Secret => WITHHELD.into(),
            Shape::Structure(structure) => Value::Object(self.members(structure, *first)),
            shape => scalar(shape, first.text().unwrap_or_default()),
        })
    }

    /// One entry of a map, if it has a key and a value.
    fn entry(&self, map: &MapShape, node: Node<'_, '_>) -> Option<(String, Value)> {
        let find = |name: &str| children(node).find(|child| is(*child, name));
        let key = find(map.key.as_deref().unwrap_or("key"))?;
        let value = find(map.value.as_deref().unwrap_or("value"))?;
        let value = self.value(map.of, false, &[value])?;
        let key = key.text().unwrap_or_default().to_owned();
        let value = if map.secret.contains(&key) { WITHHELD.into() } else { value };
        Some((key, value))
    }
}

fn children<'a, 'input>(
    node: Node<'a, 'input>,
) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
    node.children().filter(Node::is_element)
}

fn is(node: Node<'_, '_>, name: &str) -> bool {
    node.tag_name().name() == name
}
