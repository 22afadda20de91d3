//! An OpenAPI 3 document of the operator's: a service of the provider `http`.
//!
//! What can't be sent as the document says is refused when it is read, each operation with its place and the reason;
//! nothing is left out in silence. Source: OpenAPI 3.0.4 and 3.1.1, sections 4.7 and 4.8.

mod body;
mod parameters;
mod security;
mod servers;

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use keyless_core::{Code, Error, SafeText};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use self::{body::Carried, parameters::Parameter, servers::Servers};
use super::{
    call::Wanted,
    provider::{Auth, is_plain_path, lacks, pieces},
    request::{Body, Draft},
};

const METHODS: [&str; 8] = ["delete", "get", "head", "options", "patch", "post", "put", "trace"];
/// How many references are followed, one from the other.
const MAX_REFERENCES: usize = 16;

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    name: String,
    /// By `operationId`, or by `METHOD /path` where there is none.
    operations: BTreeMap<String, Listed>,
}

/// An operation of the document's.
#[derive(Debug)]
struct Listed {
    /// `METHOD /path`.
    place: String,
    /// What it is, or why it can't be called.
    read: Result<Operation, String>,
}

/// An operation that can be called.
#[derive(Debug)]
struct Operation {
    server: servers::Server,
    method: String,
    path: String,
    parameters: BTreeMap<String, Parameter>,
    body: Option<Carried>,
    /// Nothing where the operation takes no credential.
    auth: Option<Auth>,
}

impl Document {
    /// Reads one; fails where nothing of it can be called.
    pub(super) fn read(name: &str, document: &Value) -> Result<Self, String> {
        let version = document["openapi"].as_str().unwrap_or_default();
        if !version.starts_with("3.") {
            return Err("it is no OpenAPI 3 document: `openapi` is not 3.0 or 3.1".to_owned());
        }
        let paths = document["paths"].as_object().ok_or("it has no `paths`")?;
        let reader = Reader { document, servers: Servers::of(document)? };
        let mut operations = BTreeMap::new();
        for (path, item) in paths {
            let item = match resolved(document, item) {
                Ok(item) => item,
                Err(why) => {
                    let listed = Listed { place: path.clone(), read: Err(why) };
                    operations.insert(path.clone(), listed);
                    continue;
                }
            };
            for method in METHODS {
                let Some(said) = item.get(method) else { continue };
                let place = format!("{} {path}", method.to_ascii_uppercase());
                let listed = Listed {
                    read: reader.operation(path, method, item, said),
                    place: place.clone(),
                };
                let id = said["operationId"].as_str().map_or_else(|| place.clone(), str::to_owned);
                match operations.entry(id) {
                    Entry::Vacant(free) => drop(free.insert(listed)),
                    Entry::Occupied(taken) => {
                        let why = format!("its operationId is that of {}", taken.get().place);
                        operations.insert(place.clone(), Listed { place, read: Err(why) });
                    }
                }
            }
        }
        reader.servers.check_said()?;
        let read = Self { name: name.to_owned(), operations };
        if read.operations.values().any(|listed| listed.read.is_ok()) {
            return Ok(read);
        }
        Err(match read.refused().next() {
            Some((place, why)) => format!("nothing of it can be called; {place}: {why}"),
            None => "it has no operations".to_owned(),
        })
    }

    /// The operations that can't be called, as `METHOD /path`, and why.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        self.operations.values().filter_map(|listed| {
            let why = listed.read.as_ref().err()?;
            Some((listed.place.as_str(), why.as_str()))
        })
    }

    /// A call of an operation, as far as its parameters say without a value.
    pub(super) fn draft(&self, wanted: Wanted<'_>) -> Result<Draft, Error> {
        let named = || {
            SafeText::default().as_they_wrote(&self.name).and(".").as_they_wrote(wanted.operation)
        };
        let Some(listed) = self.operations.get(wanted.operation) else {
            let words = SafeText::words("no operation ").as_they_wrote(named().as_str());
            let words = words
                .and(" is known; one without operationId is METHOD /path, as the document has it");
            return Err(Error::with(Code::BadRequest, words));
        };
        match &listed.read {
            Ok(operation) => operation.draft(wanted.parameters),
            Err(why) => {
                let words = named().and(" can't be called: ").as_they_wrote(why);
                Err(Error::with(Code::BadRequest, words))
            }
        }
    }
}

impl Operation {
    fn draft(&self, mut given: Map<String, Value>) -> Result<Draft, Error> {
        // A member that the body has to have, though a parameter is called so too, is in both.
        let shared = self.body.as_ref().map(|body| body.shared(&given)).unwrap_or_default();
        for (name, parameter) in &self.parameters {
            match given.get(name) {
                Some(Value::Null) => drop(given.remove(name)),
                Some(_) => continue,
                None => {}
            }
            if parameter.is_required {
                return Err(lacks(name));
            }
        }
        let path = pieces(&self.path, &[], &mut given)?;
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        for (name, parameter) in &self.parameters {
            if let Some(value) = given.remove(name) {
                parameter.write(name, &value, &mut query, &mut headers)?;
            }
        }
        let unknown = |name: &&String| self.body.as_ref().is_none_or(|body| !body.takes(name));
        if let Some(name) = given.keys().find(unknown) {
            return Err(self.unknown(name));
        }
        given.extend(shared);
        let body = match &self.body {
            Some(body) => body.written(given)?,
            None => Body::None,
        };
        let draft = Draft {
            scheme: self.server.scheme,
            authority: self.server.authority.clone(),
            method: self.method.clone(),
            prefix: self.server.prefix.clone(),
            path,
            query,
            headers,
            body,
            auth: self.auth.clone(),
            withheld: Vec::new(),
        };
        draft.checked()
    }

    fn unknown(&self, name: &str) -> Error {
        let own = self.parameters.keys().map(String::as_str);
        let of_body = self.body.iter().flat_map(Carried::members);
        let known: BTreeSet<&str> = own.chain(of_body).collect();
        let known: Vec<&str> = known.into_iter().collect();
        let words = SafeText::words("the operation has no parameter ").as_they_wrote(name);
        let words = if known.is_empty() {
            words.and("; it takes none")
        } else {
            words.and("; it takes ").as_they_wrote(&known.join(", "))
        };
        Error::with(Code::BadRequest, words)
    }
}

/// What an operation is read with.
struct Reader<'d> {
    document: &'d Value,
    servers: Servers<'d>,
}

impl Reader<'_> {
    fn operation(
        &self,
        path: &str,
        method: &str,
        item: &Value,
        said: &Value,
    ) -> Result<Operation, String> {
        if matches!(method, "options" | "trace") {
            return Err("OPTIONS and TRACE are not called".to_owned());
        }
        if !is_plain_path(path) {
            return Err("its path has characters that are none of a path's".to_owned());
        }
        let server = self.servers.nearest([&said["servers"], &item["servers"]])?;
        let auth = security::auth(self.document, said)?;
        let lists = [&item["parameters"], &said["parameters"]];
        let parameters = parameters::read(self.document, path, lists, auth.as_ref())?;
        let body = match said.get("requestBody") {
            None => None,
            Some(_) if matches!(method, "get" | "head") => {
                return Err("it has a body, which a GET or HEAD does not carry".to_owned());
            }
            Some(body) => Some(Carried::read(self.document, body, &parameters)?),
        };
        let (method, path) = (method.to_ascii_uppercase(), path.to_owned());
        Ok(Operation { server, method, path, parameters, body, auth })
    }
}

/// What stands at a place, once references into the document are followed.
fn resolved<'d>(document: &'d Value, at: &'d Value) -> Result<&'d Value, String> {
    let mut at = at;
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = at.get("$ref").and_then(Value::as_str) else { return Ok(at) };
        let pointer = reference.strip_prefix('#');
        let pointer =
            pointer.ok_or_else(|| format!("`$ref` leads out of the document: {reference}"))?;
        let pointer = percent_decode_str(pointer).decode_utf8_lossy();
        let to = document.pointer(&pointer);
        at = to.ok_or_else(|| format!("`$ref` leads nowhere: {reference}"))?;
    }
    Err("`$ref` leads from one to the next without end".to_owned())
}

#[cfg(test)]
mod tests;
