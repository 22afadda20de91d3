//! What a request of an operation carries: its members, as JSON or as a form.

use std::collections::{BTreeMap, BTreeSet};

use keyless_core::Error;
use serde_json::{Map, Value};

use super::{
    parameters::{Parameter, Style, is_scalar, query_style},
    resolved,
};
use crate::sdk::request::{Body, Part, Written};

const FORM: &str = "application/x-www-form-urlencoded";

/// The body of an operation.
#[derive(Debug)]
pub(super) struct Carried {
    media_type: String,
    form: Form,
    /// The members that the document names.
    members: BTreeSet<String>,
    /// Whether there may be others.
    is_open: bool,
    /// Members that it has to have and that parameters are called after too.
    shared: BTreeSet<String>,
    is_required: bool,
}

#[derive(Debug)]
enum Form {
    Json,
    /// With the styles of members that have one.
    Urlencoded(BTreeMap<String, Style>),
}

impl Carried {
    pub(super) fn read(
        document: &Value,
        body: &Value,
        parameters: &BTreeMap<String, Parameter>,
    ) -> Result<Self, String> {
        let body = resolved(document, body)?;
        let content = body["content"].as_object().ok_or("its body has no `content`")?;
        let (media_type, content, is_json) = sent(content)?;
        let schema = content.get("schema").map(|schema| resolved(document, schema)).transpose()?;
        let schema = schema.unwrap_or(&Value::Null);
        if !is_object(&schema["type"]) {
            return Err("its body is no object, so that parameters could not say it".to_owned());
        }
        let form = if is_json {
            Form::Json
        } else {
            let styles = content.get("encoding").and_then(Value::as_object).into_iter().flatten();
            let styles =
                styles.filter(|(_, said)| said.get("style").or(said.get("explode")).is_some());
            let style = |(name, said): (&String, &Value)| {
                let style = query_style(said).map_err(|why| format!("its member {name} {why}"))?;
                Ok::<_, String>((name.clone(), style))
            };
            Form::Urlencoded(styles.map(style).collect::<Result<_, _>>()?)
        };
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let members = names(&schema["properties"]);
        let composed = ["allOf", "anyOf", "oneOf", "patternProperties"];
        let is_open = schema["additionalProperties"] != false
            || composed.iter().any(|word| schema.get(*word).is_some());
        let required = schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(|name| Some(name.as_str()?.to_owned()));
        let shared = required.filter(|name| parameters.contains_key(name)).collect();
        let is_required = body["required"] == true;
        Ok(Self { media_type, form, members, is_open, shared, is_required })
    }

    /// The members that the document names.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(String::as_str)
    }

    /// Whether it may have such a member.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.is_open || self.members.contains(name)
    }

    /// Those of the given parameters that are members of the body too.
    pub(super) fn shared(&self, given: &Map<String, Value>) -> Map<String, Value> {
        let shared = given.iter().filter(|(name, _)| self.shared.contains(*name));
        shared.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The body with these members; none where it needs none and there are none.
    pub(super) fn written(&self, members: Map<String, Value>) -> Result<Body, Error> {
        if members.is_empty() && !self.is_required {
            return Ok(Body::None);
        }
        let media_type = self.media_type.clone();
        let Form::Urlencoded(styles) = &self.form else {
            return Ok(Body::Json { media_type, members });
        };
        let mut pairs = Vec::new();
        for (name, value) in &members {
            match (styles.get(name), value) {
                (Some(style), value) => style.write(name, value, &mut pairs)?,
                (None, Value::Array(items)) => {
                    pairs.extend(items.iter().map(|item| (name.clone(), member(item))));
                }
                (None, Value::Null) => {}
                (None, value) => pairs.push((name.clone(), member(value))),
            }
        }
        Ok(Body::Form { media_type, pairs })
    }
}

/// A member of a form without a style of its own: what is nested is JSON (section 4.8.15.1.1).
fn member(value: &Value) -> Written {
    if is_scalar(value) {
        return Written::text(crate::sdk::provider::plain(value));
    }
    Written { parts: vec![Part::Json(value.clone())], between: "" }
}

/// The media type that is sent, of those that there are, and whether it is JSON.
fn sent(content: &Map<String, Value>) -> Result<(String, &Value, bool), String> {
    let bare =
        |media: &str| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = |media: &str| media == "application/json" || media.ends_with("+json");
    let any = |media: &str| matches!(media, "*/*" | "application/*");
    let find = |fits: &dyn Fn(&str) -> bool| content.iter().find(|(media, _)| fits(&bare(media)));
    if let Some((media, content)) = find(&is_json) {
        return Ok((media.clone(), content, true));
    }
    if let Some((_, content)) = find(&any) {
        return Ok(("application/json".to_owned(), content, true));
    }
    if let Some((_, content)) = find(&|media| media == FORM) {
        return Ok((FORM.to_owned(), content, false));
    }
    let media = content.keys().next().map_or("nothing", String::as_str);
    Err(format!("its body is {media}, which is not sent: a body is JSON or {FORM}"))
}

/// Whether a schema's `type` is an object, or says nothing.
fn is_object(said: &Value) -> bool {
    match said {
        Value::Array(several) => several.iter().any(|one| one == "object"),
        Value::Null => true,
        one => one == "object",
    }
}
