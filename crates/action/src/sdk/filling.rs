//! Values in the parameters of a call.
//!
//! A secret that names its destinations is a credential and nothing else; one that names none goes
//! where the grant lets it go. What a provider is called does not matter here.

use keyless_core::{
    Authority, Code, Error, Handle, SafeText, Scheme, TemplatePart, parse_template,
};
use serde_json::{Map, Value};

use super::call::BoundTo;
use crate::{
    executor::Work,
    material::{Material, Materials},
};

/// The most that the texts of all parameters hold, in bytes.
const ROOM: usize = 4 << 20;

/// Puts values in the place of placeholders.
pub(super) struct Filling<'a> {
    work: &'a Work,
    materials: &'a Materials,
    scheme: Scheme,
    authority: &'a Authority,
    room: usize,
}

impl<'a> Filling<'a> {
    /// For a call of this host.
    pub(super) fn new(
        work: &'a Work,
        materials: &'a Materials,
        scheme: Scheme,
        authority: &'a Authority,
    ) -> Self {
        Self { work, materials, scheme, authority, room: ROOM }
    }

    /// The members of an object, filled.
    pub(super) fn object(
        &mut self,
        members: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Error> {
        members.iter().map(|(name, value)| Ok((name.clone(), self.value(value)?))).collect()
    }

    /// A value, filled.
    pub(super) fn value(&mut self, value: &Value) -> Result<Value, Error> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => Value::Object(self.object(members)?),
            other => other.clone(),
        })
    }

    /// A text, filled.
    pub(super) fn text(&mut self, text: &str) -> Result<String, Error> {
        let parts = parse_template(text).map_err(|_| Error::new(Code::PlaceholderInvalid))?;
        let mut whole = String::new();
        for part in parts {
            match part {
                TemplatePart::Text(text) => self.append(&mut whole, &text)?,
                TemplatePart::Handle(handle) => {
                    let material = self.parameter(&handle)?;
                    // Changed into text it would come back as something that is not looked for.
                    let value = std::str::from_utf8(&material.bytes).map_err(|_| {
                        let words = SafeText::default().and(&material.secret.path);
                        Error::with(
                            Code::BadRequest,
                            words.and(" is not text: it can be no parameter"),
                        )
                    })?;
                    self.append(&mut whole, value)?;
                }
            }
        }
        Ok(whole)
    }

    fn append(&mut self, whole: &mut String, text: &str) -> Result<(), Error> {
        self.room = self.room.checked_sub(text.len()).ok_or_else(|| {
            Error::with(Code::MessageTooLarge, "parameters hold 4 MiB at most".into())
        })?;
        whole.push_str(text);
        Ok(())
    }

    /// A secret that may be a parameter of this call.
    fn parameter(&self, handle: &Handle) -> Result<&'a Material, Error> {
        let (_, material) = self.materials.of(handle)?;
        let secret = &material.secret;
        let (rule, allowed_hosts) = (secret.rule.as_ref(), self.work.allowed_hosts.as_slice());
        let bounds = BoundTo { path: &secret.path, rule, allowed_hosts };
        may_be_parameter(&bounds, secret.is_exposed)?;
        lets_go(&bounds, self.scheme, self.authority)?;
        Ok(material)
    }
}

/// Whether a secret may be a parameter of anything; `is_exposed`: though it names its hosts (`unsafe_expose`).
pub(super) fn may_be_parameter(bounds: &BoundTo<'_>, is_exposed: bool) -> Result<(), Error> {
    if bounds.rule.is_none() || is_exposed {
        return Ok(());
    }
    let words = SafeText::default().and(bounds.path);
    let words = words.and(" names its hosts: it can be a credential, not a parameter");
    Err(Error::with(Code::LocationNotAllowed, words))
}

/// Whether the grant lets a parameter go there.
pub(super) fn lets_go(
    bounds: &BoundTo<'_>,
    scheme: Scheme,
    authority: &Authority,
) -> Result<(), Error> {
    if bounds.allowed_hosts.iter().any(|to| to.matches(scheme, authority)) {
        return Ok(());
    }
    let words = SafeText::words("the grant does not let ").and(bounds.path);
    let words = words.and(" go to ").and(authority).and(" as a parameter");
    Err(Error::with(Code::ForeignDestination, words))
}
