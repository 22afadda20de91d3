//! Where an operation is: the server nearest to it, its variables filled.

use std::{cell::RefCell, collections::BTreeSet};

use keyless_core::{Authority, Scheme};
use serde_json::{Map, Value};

use crate::sdk::provider::{is_plain_path, split_base};

/// What the operator says of variables in the document itself; else each has its default.
const SAID: &str = "x-keyless-variables";

/// An address that operations are below of.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) prefix: String,
}

/// The servers of a document.
pub(super) struct Servers<'d> {
    all: &'d Value,
    said: Option<&'d Map<String, Value>>,
    /// The variables that were met.
    met: RefCell<BTreeSet<String>>,
}

impl<'d> Servers<'d> {
    pub(super) fn of(document: &'d Value) -> Result<Self, String> {
        let said = match document.get(SAID) {
            None => None,
            Some(Value::Object(said)) if said.values().all(Value::is_string) => Some(said),
            Some(_) => return Err(format!("{SAID}: it is an object of names and texts")),
        };
        Ok(Self { all: &document["servers"], said, met: RefCell::default() })
    }

    /// The first server of the nearest list that there is: those of the operation and its path come before the
    /// document's own.
    pub(super) fn nearest(&self, lists: [&Value; 2]) -> Result<Server, String> {
        let mut lists = lists.into_iter().chain([self.all]);
        let first = lists.find_map(|list| list.as_array()?.first());
        self.server(first.ok_or("it names no server")?)
    }

    /// Finds whether everything that is said of variables is about one.
    pub(super) fn check_said(&self) -> Result<(), String> {
        let met = self.met.borrow();
        match self.said.into_iter().flatten().find(|(name, _)| !met.contains(*name)) {
            None => Ok(()),
            Some((name, _)) => Err(format!("{SAID}: no server has a variable {name}")),
        }
    }

    fn server(&self, server: &Value) -> Result<Server, String> {
        let url = server["url"].as_str().ok_or("a server has no `url`")?;
        let (mut address, mut rest) = (String::new(), url);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a server's `url` has an open `{`")?;
            address.push_str(before);
            address.push_str(self.variable(name, &server["variables"][name])?);
            rest = after;
        }
        address.push_str(rest);
        if !address.starts_with("https://") && !address.starts_with("http://") {
            return Err(format!("the server's address is not absolute: {address}"));
        }
        let unusable = || format!("the server's address can't be used: {address}");
        let (scheme, authority, prefix) = split_base(&address).map_err(|_| unusable())?;
        if !prefix.is_empty() && !is_plain_path(&prefix) || address.contains(['?', '#', '@']) {
            return Err(unusable());
        }
        Ok(Server { scheme, authority, prefix })
    }

    /// What a variable is: what the operator says, else its default; never a word of the agent's.
    fn variable<'v>(&'v self, name: &str, variable: &'v Value) -> Result<&'v str, String> {
        self.met.borrow_mut().insert(name.to_owned());
        let said = self.said.and_then(|said| said.get(name)?.as_str());
        let value = said.or_else(|| variable["default"].as_str()).ok_or_else(|| {
            format!("the server's variable {name} has no default; say it in {SAID}")
        })?;
        let listed = variable.get("enum").and_then(Value::as_array);
        if listed.is_some_and(|listed| !listed.iter().any(|one| one == value)) {
            return Err(format!(
                "the server's variable {name} can't be {value}: its `enum` has others"
            ));
        }
        Ok(value)
    }
}
