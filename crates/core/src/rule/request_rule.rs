//! Which requests a value may be used for, within the hosts that may receive it.
//!
//! ```text
//! GET,HEAD api.github.com/repos/acme/site/**
//! POST /graphql graphql:query,mutation.addComment
//! POST /mcp json-rpc:tools/list,resources/*
//! ```
//!
//! One line: methods (or `*`), a path pattern with or without a host before it, and what the body
//! may call. A request that a server could read in several ways must be named in each of them.

use std::{fmt, slice, str::FromStr};

use serde::{Deserialize, Serialize};

use super::path_glob::{PathGlob, PathGlobError, PathReadings, name_matches};
use crate::{Authority, Destination, DestinationError};

/// One line about requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestRule {
    /// None: any.
    methods: Vec<String>,
    host: Option<Destination>,
    path: PathGlob,
    calls: Calls,
}

/// What the body of a request may call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Calls {
    /// Anything; it is not looked at.
    Any,
    GraphQl(Vec<String>),
    JsonRpc(Vec<String>),
}

/// What happens to a request that no `allow` rule names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Otherwise {
    /// It is held until the operator approves.
    Ask,
    /// It is refused.
    #[default]
    Deny,
}

/// What one request says of itself, as far as rules look.
#[derive(Clone, Debug, Default)]
pub struct RequestFacts {
    /// The method, and those that a header, a parameter or a form would have the server take in its place.
    pub methods: Vec<String>,
    /// The path as it was sent, without its query.
    pub path: String,
    /// A header names another path, which some servers would take.
    pub has_other_path: bool,
    /// A form in the body may have the server take another method, and could not be read.
    pub has_unread_form: bool,
    /// What the body calls, where it was looked into.
    pub calls: BodyCalls,
}

/// Headers by which frameworks take another method than the request line's.
const METHODS: [&str; 3] = ["x-http-method", "x-http-method-override", "x-method-override"];
/// The parameter of a query or form by which they do.
const METHOD: &[u8] = b"_method";
/// What the calls of a document begin with that is named by its id.
const DOCUMENT: &str = "document.";
const BY_ID: &str = "it names a GraphQL document by an id or hash, and what that calls can't be seen; have the client send the document alone (`query`), or a rule allow it by name (`graphql:document.ID`)";
const UNREAD_FORM: &str = "a form in its body may name another method (`_method`) and can't be looked into; send at most 8 MiB of plain UTF-8 with names in one piece, say what it is where it is no form (`content-type: application/octet-stream`), or have a rule allow every method there (`*`)";
/// The methods of HTTP. Source: IANA's Hypertext Transfer Protocol (HTTP) Method Registry.
pub const REGISTERED_METHODS: [&str; 39] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];
/// Methods that servers take beside these: caches', HashiCorp Vault's, and the one that searches with a body.
const WELL_KNOWN: [&str; 4] = ["BAN", "LIST", "PURGE", "QUERY"];
/// More methods than any request names.
const MAX_METHODS: usize = 64;
/// Headers by which servers take another path (IIS, Symfony and their heirs).
const PATHS: [&str; 2] = ["x-original-url", "x-rewrite-url"];

impl RequestFacts {
    /// What a head says: the method, in capitals too since some servers take it so, and those that a header or parameter
    /// would have the server take in its place. Headers come with their names in lower case, the parameters of the
    /// query decoded.
    pub fn of_head<'a>(
        (method, path): (&str, &str),
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        parameters: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Self {
        let mut methods = vec![method.to_owned()];
        methods.extend(Some(method.to_ascii_uppercase()).filter(|capitals| capitals != method));
        let mut has_other_path = false;
        for (name, value) in headers {
            // WSGI, Rack and CGI make one name of both.
            let name = name.replace('_', "-");
            if METHODS.contains(&name.as_str()) {
                methods.push(said_in_capitals(value));
            }
            has_other_path |= PATHS.contains(&name.as_str());
        }
        let path = path.to_owned();
        let mut said = Self { methods, path, has_other_path, ..Self::default() };
        said.add_parameters(parameters);
        said
    }

    /// Counts the methods that parameters, decoded, would have the server take: those of a form in the body, too.
    pub fn add_parameters(&mut self, parameters: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        for (name, value) in parameters {
            // Some part them by a semicolon, too.
            let name = name.rsplit(|byte| *byte == b';').next().unwrap_or_default();
            let mut rest = value.split(|byte| *byte == b';');
            let first = rest.next().unwrap_or_default();
            if is_method(name) {
                self.count(said_in_capitals(first));
            }
            for other in rest {
                let at = other.iter().position(|byte| *byte == b'=').unwrap_or(other.len());
                if is_method(&other[..at]) {
                    self.count(said_in_capitals(other.get(at + 1..).unwrap_or_default()));
                }
            }
        }
    }

    fn count(&mut self, method: String) {
        if self.methods.contains(&method) {
            return;
        }
        if self.methods.len() < MAX_METHODS {
            self.methods.push(method);
        } else {
            self.has_unread_form = true;
        }
    }
}

/// Whether a framework may take a parameter, or a member of JSON, of this name for the method: `_method` in any capitals,
/// since Slim takes `_METHOD`, or one of the headers', which others look for there too.
pub fn is_method(name: &[u8]) -> bool {
    let folded = || folded_parameter(name).map(|byte| byte.to_ascii_lowercase());
    let dashed = || folded().map(|byte| if byte == b'_' { b'-' } else { byte });
    folded().eq(METHOD.iter().copied()) || METHODS.iter().any(|header| dashed().eq(header.bytes()))
}

/// A parameter's name, decoded, as PHP has it: without blanks before it, what follows a NUL and an index in brackets, and
/// with `_` for dots, blanks and other brackets.
pub fn folded_parameter(name: &[u8]) -> impl Iterator<Item = u8> {
    let name = name.trim_ascii_start();
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = &name[..end];
    let index = name.iter().skip(1).position(|byte| *byte == b'[').map(|at| at + 1);
    let indexed = index.filter(|at| name[*at..].contains(&b']'));
    name[..indexed.unwrap_or(name.len())].iter().map(|byte| match byte {
        b'.' | b' ' | b'[' => b'_',
        other => *other,
    })
}

fn said_in_capitals(value: &[u8]) -> String {
    String::from_utf8_lossy(value.trim_ascii()).to_ascii_uppercase()
}

/// What a body calls; `None` where it could not be read so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyCalls {
    /// GraphQL operations as `query.FIELD`, one for each field at the root of each, and documents that are named
    /// instead of sent as `document.ID`.
    pub graphql: Option<Vec<String>>,
    /// JSON-RPC methods.
    pub json_rpc: Option<Vec<String>>,
}

/// What a secret's rules say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Allow,
    Ask,
    /// With the reason.
    Deny(&'static str),
}

/// Why a text is not a [`RequestRule`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRuleError {
    /// Neither `graphql:` nor `json-rpc:`.
    #[error("after the path comes `graphql:LIST` or `json-rpc:LIST`, or nothing")]
    Calls,
    /// After `graphql:` stands what is no operation.
    #[error(
        "`graphql:` takes query, mutation, subscription, and their fields as in mutation.addComment, not {0:?}"
    )]
    Operation(String),
    /// The part before the path is no host.
    #[error("the part before the path is no host: {0}")]
    Host(#[from] DestinationError),
    /// Not a list of methods.
    #[error("the first word is `*` or methods in capitals, as in `GET,HEAD`")]
    Methods,
    /// No path.
    #[error("a rule is METHODS PATH, as in `GET,HEAD /repos/**`")]
    NoPath,
    /// The path can't be matched.
    #[error(transparent)]
    Path(#[from] PathGlobError),
}

impl RequestRule {
    /// The methods that it names; none: any.
    pub(super) fn methods(&self) -> &[String] {
        &self.methods
    }

    /// The methods that it names and nobody has registered: mostly slips, of which no request makes use.
    pub fn unregistered_methods(&self) -> impl Iterator<Item = &str> {
        self.methods
            .iter()
            .map(String::as_str)
            .filter(|method| !REGISTERED_METHODS.contains(method) && !WELL_KNOWN.contains(method))
    }

    /// Parses a line.
    pub fn parse(text: &str) -> Result<Self, RequestRuleError> {
        let mut words = text.split_ascii_whitespace();
        let methods = parse_methods(words.next().unwrap_or_default())?;
        let target = words.next().ok_or(RequestRuleError::NoPath)?;
        let (host, path) = match target.find('/') {
            Some(0) | None => (None, target),
            Some(slash) => {
                let (host, path) = target.split_at(slash);
                (Some(Destination::parse(host)?), path)
            }
        };
        let path = PathGlob::parse(path)?;
        let calls = words.next().map_or(Ok(Calls::Any), parse_calls)?;
        match words.next() {
            Some(_) => Err(RequestRuleError::Calls),
            None => Ok(Self { methods, host, path, calls }),
        }
    }

    /// The host that it is about; any of the secret's when it names none.
    pub(super) fn host(&self) -> Option<&Destination> {
        self.host.as_ref()
    }

    /// Whether the rule names the request in some reading, and looks into its body.
    fn looks_into(&self, at: &Authority, request: &RequestFacts, path: &PathReadings) -> bool {
        let could = |method: &String| {
            (0..path.len()).any(|reading| self.could_name(at, method, path, reading))
        };
        self.calls != Calls::Any && request.methods.iter().any(could)
    }

    fn names(&self, at: &Authority, method: &str, path: &PathReadings, reading: usize) -> bool {
        self.names_before_path(at, method) && self.path.matches(path, reading)
    }

    /// Whether some server could take the request for one that the rule names.
    fn could_name(
        &self,
        at: &Authority,
        method: &str,
        path: &PathReadings,
        reading: usize,
    ) -> bool {
        self.names_before_path(at, method) && self.path.could_match(path, reading)
    }

    fn names_before_path(&self, at: &Authority, method: &str) -> bool {
        let method = self.methods.is_empty() || self.methods.iter().any(|one| one == method);
        method && self.is_at(at)
    }

    /// Whether it could be about a request to one of these; if not, it says nothing of a secret that goes nowhere else.
    pub fn is_within_reach(&self, to: &[Destination]) -> bool {
        self.host.as_ref().is_none_or(|named| {
            let is_any_port = named.port() == named.scheme().default_port();
            to.iter()
                .any(|to| named.shares_host_with(to) && (is_any_port || named.port() == to.port()))
        })
    }

    /// Whether it is about requests there: on a port of its own, else on each port of its host.
    fn is_at(&self, at: &Authority) -> bool {
        self.host.as_ref().is_none_or(|named| {
            let (port, usual) = (named.port(), named.scheme().default_port());
            named.names(&at.host) && (port == usual || port == at.port)
        })
    }
}

/// What `allow`, `ask` and `otherwise` say of a request to `at`. An `ask` rule goes before an
/// `allow` rule that names the same request.
pub(super) fn judge(
    (allow, ask, otherwise): (&[RequestRule], &[RequestRule], Otherwise),
    at: &Authority,
    request: &RequestFacts,
) -> Said {
    if allow.is_empty() && ask.is_empty() && otherwise == Otherwise::Deny {
        return Said::Allow;
    }
    if request.has_other_path {
        return Said::Deny("a header names another path");
    }
    let Some(path) = PathReadings::of(&request.path) else {
        return Said::Deny("servers could read its path in other ways");
    };
    if request.has_unread_form && minds_method((allow, ask, otherwise), at, request) {
        return Said::Deny(UNREAD_FORM);
    }
    let case = |method, reading| Case { at, method, path: &path, reading, calls: &request.calls };
    let cases = || {
        let readings = 0..path.len();
        readings.flat_map(|reading| request.methods.iter().map(move |one| case(one, reading)))
    };
    if cases().any(|case| case.touches(ask)) {
        return Said::Ask;
    }
    let is_unruled = allow.is_empty() && otherwise == Otherwise::Deny;
    match (is_unruled || cases().all(|case| case.is_covered(allow)), otherwise) {
        (true, _) => Said::Allow,
        (false, Otherwise::Ask) => Said::Ask,
        (false, Otherwise::Deny) if cases().any(|case| case.is_by_id(allow)) => Said::Deny(BY_ID),
        (false, Otherwise::Deny) => Said::Deny("no allow rule names it"),
    }
}

/// Whether it would be judged otherwise if a form in its body had the server take another method.
pub(super) fn minds_method(
    rules: (&[RequestRule], &[RequestRule], Otherwise),
    at: &Authority,
    request: &RequestFacts,
) -> bool {
    let mut with = RequestFacts { has_unread_form: false, ..request.clone() };
    let said = judge(rules, at, &with);
    let (allow, ask, _) = rules;
    let named = allow.iter().chain(ask).flat_map(RequestRule::methods).map(String::as_str);
    // And one that no rule names.
    named.chain([""]).any(|method| {
        with.methods.push(method.to_owned());
        let other = judge(rules, at, &with);
        with.methods.pop();
        other != said
    })
}

/// The words that [`judge`] goes by for a request to `at`; none where no line names it and none has
/// to.
pub(super) fn deciding_words(
    (allow, ask, otherwise): (&[RequestRule], &[RequestRule], Otherwise),
    at: &Authority,
    request: &RequestFacts,
) -> Option<String> {
    let path = PathReadings::of(&request.path)?;
    let case = |method, reading| Case { at, method, path: &path, reading, calls: &request.calls };
    let cases = || {
        let readings = 0..path.len();
        readings.flat_map(|reading| request.methods.iter().map(move |one| case(one, reading)))
    };
    let asks = |rule: &&RequestRule| cases().any(|case| case.touches(slice::from_ref(rule)));
    if let Some(rule) = ask.iter().find(asks) {
        return Some(format!("ask {rule}"));
    }
    let allows = |rule: &&RequestRule| cases().any(|case| case.is_covered(slice::from_ref(rule)));
    match allow.iter().find(allows) {
        Some(rule) if cases().all(|case| case.is_covered(allow)) => Some(format!("allow {rule}")),
        _ if otherwise == Otherwise::Ask => Some("otherwise ask".to_owned()),
        _ => None,
    }
}

/// Whether what `request` calls has to be known before it can be judged.
pub(super) fn look_into<'r>(
    mut rules: impl Iterator<Item = &'r RequestRule>,
    at: &Authority,
    request: &RequestFacts,
) -> bool {
    let path = PathReadings::of(&request.path);
    path.is_some_and(|path| rules.any(|rule| rule.looks_into(at, request, &path)))
}

/// Whether the rule could name a request in some reading. One whose path can't be read could be any, and so could one
/// whose path is not known, since a header names another.
pub(super) fn is_named(
    rule: &RequestRule,
    at: &Authority,
    methods: &[String],
    path: Option<&str>,
) -> bool {
    let Some(path) = path.and_then(PathReadings::of) else {
        return rule.is_at(at);
    };
    let could = |reading| methods.iter().any(|method| rule.could_name(at, method, &path, reading));
    (0..path.len()).any(could)
}

/// A request in one reading.
struct Case<'a> {
    at: &'a Authority,
    method: &'a str,
    path: &'a PathReadings,
    reading: usize,
    calls: &'a BodyCalls,
}

impl Case<'_> {
    fn naming<'r>(&self, rules: &'r [RequestRule]) -> impl Iterator<Item = &'r RequestRule> {
        rules.iter().filter(|rule| rule.names(self.at, self.method, self.path, self.reading))
    }

    /// Whether rules name the request and everything that its body calls.
    fn is_covered(&self, rules: &[RequestRule]) -> bool {
        let all_named = |calls: &Option<Vec<String>>, names: fn(&Calls, &str) -> bool| {
            calls.as_ref().is_some_and(|calls| {
                let named = |call: &String| self.naming(rules).any(|rule| names(&rule.calls, call));
                !calls.is_empty() && calls.iter().all(named)
            })
        };
        self.naming(rules).any(|rule| rule.calls == Calls::Any)
            || all_named(&self.calls.graphql, Calls::names_operation)
            || all_named(&self.calls.json_rpc, Calls::names_method)
    }

    /// Whether it names a document by an id, where rules name GraphQL operations and not this one.
    fn is_by_id(&self, rules: &[RequestRule]) -> bool {
        let is_unnamed = |call: &String| {
            let names = |rule: &RequestRule| rule.calls.names_operation(call);
            call.starts_with(DOCUMENT) && !self.naming(rules).any(names)
        };
        self.naming(rules).any(|rule| matches!(rule.calls, Calls::GraphQl(_)))
            && self.calls.graphql.iter().flatten().any(is_unnamed)
    }

    /// Whether a rule could name the request, or one thing that its body calls or could call.
    fn touches(&self, rules: &[RequestRule]) -> bool {
        let touched = |calls: &Option<Vec<String>>, named: &dyn Fn(&String) -> bool| {
            calls.as_ref().is_none_or(|calls| calls.iter().any(named))
        };
        let could =
            |rule: &&RequestRule| rule.could_name(self.at, self.method, self.path, self.reading);
        rules.iter().filter(could).any(|rule| match &rule.calls {
            Calls::Any => true,
            calls @ Calls::GraphQl(_) => touched(&self.calls.graphql, &|call| {
                call.starts_with(DOCUMENT) || calls.names_operation(call)
            }),
            calls @ Calls::JsonRpc(_) => {
                touched(&self.calls.json_rpc, &|call| calls.names_method(call))
            }
        })
    }
}

impl Calls {
    /// Whether this GraphQL operation is named; `query` names every query, and `document` every id.
    fn names_operation(&self, call: &str) -> bool {
        let Self::GraphQl(patterns) = self else { return false };
        let kind = call.split_once('.').map(|(kind, _)| kind);
        patterns.iter().any(|pattern| kind == Some(pattern) || name_matches(pattern, call))
    }

    /// Whether this JSON-RPC method is named.
    fn names_method(&self, call: &str) -> bool {
        let Self::JsonRpc(patterns) = self else { return false };
        patterns.iter().any(|pattern| name_matches(pattern, call))
    }
}

fn parse_methods(word: &str) -> Result<Vec<String>, RequestRuleError> {
    if word == "*" {
        return Ok(Vec::new());
    }
    let is_method = |method: &str| {
        !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
    };
    if word.split(',').all(is_method) {
        Ok(word.split(',').map(str::to_owned).collect())
    } else {
        Err(RequestRuleError::Methods)
    }
}

fn parse_calls(word: &str) -> Result<Calls, RequestRuleError> {
    let list = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
    let operations = |names: Vec<String>| match names.iter().find(|name| !is_operation(name)) {
        Some(name) if !name.is_empty() => Err(RequestRuleError::Operation(name.clone())),
        Some(_) => Err(RequestRuleError::Calls),
        None => Ok(Calls::GraphQl(names)),
    };
    let full = |list: &[String]| list.iter().all(|name| !name.is_empty());
    match word.split_once(':') {
        Some(("graphql", names)) => return operations(list(names)),
        Some(("json-rpc", names)) => Some(list(names)).filter(|l| full(l)).map(Calls::JsonRpc),
        _ => None,
    }
    .ok_or(RequestRuleError::Calls)
}

fn is_operation(name: &str) -> bool {
    let kind = name.split('.').next().unwrap_or_default();
    matches!(kind, "document" | "query" | "mutation" | "subscription")
}

impl fmt::Display for RequestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.methods.is_empty() {
            f.write_str("* ")?;
        } else {
            write!(f, "{} ", self.methods.join(","))?;
        }
        if let Some(host) = &self.host {
            write!(f, "{host}")?;
        }
        write!(f, "{}", self.path)?;
        match &self.calls {
            Calls::Any => Ok(()),
            Calls::GraphQl(names) => write!(f, " graphql:{}", names.join(",")),
            Calls::JsonRpc(names) => write!(f, " json-rpc:{}", names.join(",")),
        }
    }
}

impl FromStr for RequestRule {
    type Err = RequestRuleError;

    fn from_str(text: &str) -> Result<Self, RequestRuleError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for RequestRule {
    type Error = RequestRuleError;

    fn try_from(text: String) -> Result<Self, RequestRuleError> {
        Self::parse(&text)
    }
}

impl From<RequestRule> for String {
    fn from(rule: RequestRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[&str]) -> Vec<RequestRule> {
        lines.iter().map(|line| RequestRule::parse(line).unwrap()).collect()
    }

    fn facts(method: &str, path: &str) -> RequestFacts {
        let (methods, path) = (vec![method.to_owned()], path.to_owned());
        RequestFacts { methods, path, ..RequestFacts::default() }
    }

    fn said(allow: &[&str], ask: &[&str], otherwise: Otherwise, request: &RequestFacts) -> Said {
        said_at("api.test:443", allow, ask, otherwise, request)
    }

    fn said_at(
        at: &str,
        allow: &[&str],
        ask: &[&str],
        otherwise: Otherwise,
        request: &RequestFacts,
    ) -> Said {
        let at = Authority::parse(at).unwrap();
        judge((&rules(allow), &rules(ask), otherwise), &at, request)
    }

    fn allowed(allow: &[&str], request: &RequestFacts) -> bool {
        said(allow, &[], Otherwise::Deny, request) == Said::Allow
    }

    #[test]
    fn lines_read_and_write_back() {
        for line in [
            "GET,HEAD api.github.com/repos/acme/site/**",
            "* /**",
            "POST /graphql graphql:query,mutation.addComment",
            "POST *.corp.test:8443/rpc json-rpc:tools/*",
        ] {
            assert_eq!(RequestRule::parse(line).unwrap().to_string(), line);
        }
        for (line, why) in [
            ("", RequestRuleError::Methods),
            ("get /", RequestRuleError::Methods),
            ("GET,", RequestRuleError::Methods),
            ("GET", RequestRuleError::NoPath),
            ("GET repos", RequestRuleError::Path(PathGlobError::NotAbsolute)),
            ("GET / soap:x", RequestRuleError::Calls),
            ("GET / graphql:", RequestRuleError::Calls),
            ("GET / graphql:query,delete", RequestRuleError::Operation("delete".to_owned())),
            ("GET / json-rpc:a,,b", RequestRuleError::Calls),
            ("GET / json-rpc:a b", RequestRuleError::Calls),
        ] {
            assert_eq!(RequestRule::parse(line), Err(why), "{line}");
        }
        assert!(matches!(RequestRule::parse("GET *.com/x"), Err(RequestRuleError::Host(_))));
    }

    #[test]
    fn methods_hosts_and_paths_must_all_fit() {
        let allow = ["GET,HEAD /repos/acme/**", "POST other.test/**"];
        assert!(allowed(&allow, &facts("GET", "/repos/acme/x")));
        assert!(!allowed(&allow, &facts("DELETE", "/repos/acme/x")));
        assert!(!allowed(&allow, &facts("POST", "/repos/acme/x")));
        assert!(!allowed(&allow, &facts("GET", "/repos/other")));
        assert!(allowed(&[], &facts("DELETE", "/anything")));
    }

    #[test]
    fn a_slip_in_a_method_is_seen() {
        let unregistered = |text: &str| -> Vec<String> {
            let rule = RequestRule::parse(text).unwrap();
            rule.unregistered_methods().map(str::to_owned).collect()
        };
        assert_eq!(unregistered("GTE,HEAD,DELTE /x"), ["GTE", "DELTE"]);
        for fine in ["* /x", "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS /x", "LIST,VERSION-CONTROL /"]
        {
            assert_eq!(unregistered(fine), [""; 0], "{fine}");
        }
    }

    #[test]
    fn a_rule_with_a_port_is_about_that_port() {
        let allow = ["GET api.test:8443/admin/**", "GET api.test/users/**"];
        let allows = |at: &str, path: &str| {
            said_at(at, &allow, &[], Otherwise::Deny, &facts("GET", path)) == Said::Allow
        };
        assert!(allows("api.test:8443", "/admin/x") && !allows("api.test:443", "/admin/x"));
        assert!(allows("api.test:8443", "/users/x") && allows("api.test:443", "/users/x"));
    }

    /// A rule that holds something back counts wherever some server could take the request so.
    #[test]
    fn no_spelling_gets_around_a_question() {
        let (allow, ask) = (["* /**"], ["DELETE /repos/acme/**", "POST /hooks/deploy"]);
        let asked =
            |method, path| said(&allow, &ask, Otherwise::Deny, &facts(method, path)) == Said::Ask;
        for path in ["/repos/acme/site", "/repos/ACME/site", "/Repos/acme", "//repos/acme/"] {
            assert!(asked("DELETE", path), "{path}");
        }
        for path in ["/hooks/deploy/", "/hooks/deploy.json", "/hooks/Deploy"] {
            assert!(asked("POST", path), "{path}");
        }
        assert!(!asked("GET", "/repos/acme/site") && !asked("POST", "/hooks/deployed"));
        // What is allowed is so by the letter.
        assert!(!allowed(&["GET /repos/acme/**"], &facts("GET", "/repos/ACME/site")));
    }

    #[test]
    fn a_header_changes_neither_method_nor_path() {
        let mut request = facts("POST", "/a");
        request.methods.push("DELETE".to_owned());
        assert!(!allowed(&["POST /**"], &request));
        assert!(allowed(&["POST,DELETE /**"], &request));
        let elsewhere = RequestFacts { has_other_path: true, ..facts("GET", "/a") };
        assert!(!allowed(&["* /**"], &elsewhere));
        assert!(allowed(&[], &elsewhere));
    }

    #[test]
    fn a_form_that_cannot_be_read_counts_where_methods_do() {
        let unread = |method, path| RequestFacts { has_unread_form: true, ..facts(method, path) };
        let allow = ["POST /a", "* /b", "POST,DELETE /c", "* /d"];
        let ask = ["DELETE /d"];
        let say = |path| said(&allow, &ask, Otherwise::Deny, &unread("POST", path));
        assert_eq!((say("/a"), say("/b")), (Said::Deny(UNREAD_FORM), Said::Allow));
        assert_eq!((say("/c"), say("/d")), (Said::Deny(UNREAD_FORM), Said::Deny(UNREAD_FORM)));
        assert_eq!(say("/e"), Said::Deny("no allow rule names it"));
        assert!(allowed(&[], &unread("POST", "/a")));
    }

    #[test]
    fn parameters_name_methods_in_every_spelling() {
        let methods = |name: &str, value: &str| {
            let mut request = facts("POST", "/a");
            request.add_parameters([(name.into(), value.into())]);
            request.methods.split_off(1)
        };
        assert_eq!(methods("_method", " delete"), ["DELETE"]);
        assert_eq!(methods("a;_method", "PUT;_method=PATCH"), ["PUT", "PATCH"]);
        assert_eq!(methods("method", "PUT"), [""; 0]);
    }

    #[test]
    fn asking_goes_first_and_may_be_the_rest() {
        let (allow, ask) = (["GET /**", "POST /x"], ["* /admin/**"]);
        let say = |method, path, otherwise| said(&allow, &ask, otherwise, &facts(method, path));
        assert_eq!(say("GET", "/x", Otherwise::Deny), Said::Allow);
        assert_eq!(say("GET", "/admin/x", Otherwise::Deny), Said::Ask);
        // In one reading it is under /admin.
        assert_eq!(say("GET", "/admin%2Fx", Otherwise::Deny), Said::Ask);
        assert!(matches!(say("PUT", "/x", Otherwise::Deny), Said::Deny(_)));
        assert_eq!(say("PUT", "/x", Otherwise::Ask), Said::Ask);
        let only_ask = said(&[], &["DELETE /**"], Otherwise::Deny, &facts("GET", "/"));
        assert_eq!(only_ask, Said::Allow);
        assert_eq!(said(&[], &[], Otherwise::Ask, &facts("GET", "/")), Said::Ask);
    }

    #[test]
    fn everything_a_body_calls_must_be_named() {
        let calls = |graphql: Option<&[&str]>, json_rpc: Option<&[&str]>| {
            let owned = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
            let calls = BodyCalls { graphql: graphql.map(owned), json_rpc: json_rpc.map(owned) };
            RequestFacts { calls, ..facts("POST", "/api") }
        };
        let allow =
            ["POST /api graphql:query,mutation.addComment", "POST /api json-rpc:tools/*,ping"];
        assert!(allowed(&allow, &calls(Some(&["query.viewer", "mutation.addComment"]), None)));
        assert!(!allowed(&allow, &calls(Some(&["query.viewer", "mutation.deleteRef"]), None)));
        assert!(allowed(&allow, &calls(None, Some(&["ping", "tools/list"]))));
        assert!(!allowed(&allow, &calls(None, Some(&["ping", "admin"]))));
        for empty in [calls(None, None), calls(Some(&[]), Some(&[]))] {
            assert!(!allowed(&allow, &empty));
        }
        // A kind of operation is GraphQL's alone.
        let wallet = ["POST /api json-rpc:wallet"];
        assert!(allowed(&wallet, &calls(None, Some(&["wallet"]))));
        assert!(!allowed(&wallet, &calls(None, Some(&["wallet.send"]))));
        // What is named by an id could be anything, unless that is named too.
        let by_id = |more: &[&str]| calls(Some(&[&["document.abc"], more].concat()), None);
        for more in [&[][..], &["query.viewer"]] {
            let refused = said(&allow, &[], Otherwise::Deny, &by_id(more));
            assert_eq!(refused, Said::Deny(BY_ID));
            for named in ["document", "document.abc", "document.a*"] {
                let allow = [allow[0], &format!("POST /api graphql:{named}")];
                assert!(allowed(&allow, &by_id(more)), "{named}");
            }
        }
        let ask = ["POST /api graphql:mutation.deleteRef"];
        assert_eq!(said(&[], &ask, Otherwise::Deny, &by_id(&[])), Said::Ask);
        // What can't be read could be anything that is asked about.
        let ask = ["POST /api graphql:mutation"];
        assert_eq!(said(&[], &ask, Otherwise::Deny, &calls(None, None)), Said::Ask);
        let query = calls(Some(&["query.viewer"]), None);
        assert_eq!(said(&[], &ask, Otherwise::Deny, &query), Said::Allow);
    }
}
