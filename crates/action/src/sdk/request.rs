//! A call on its way to a service: a draft that was checked, the request with its values, the call that may be sent.
//!
//! Each is made of the one before and of nothing else, so that what was checked and judged is what goes out: [`Call`]
//! has no other maker than [`Request::judged`].

use std::{borrow::Cow, time::Duration};

use keyless_core::{
    Authority, Code, Error, RequestFacts, SafeText, Scheme, TemplatePart, is_method, parse_template,
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{
    call::BoundTo,
    filling::Filling,
    pattern,
    provider::{Auth, AuthScheme, encoded, escape, segment, set, withheld},
};

/// The longest path and query that can be sent, in bytes.
const MAX_TARGET: usize = 65_534;
/// Stands where a credential will.
const NO_CREDENTIAL: &str = "-";

/// One HTTP request of the broker's own, which may be sent.
pub struct Call {
    /// Cleartext never leaves this machine.
    pub scheme: Scheme,
    /// Where it goes.
    pub authority: Authority,
    /// Such as `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case and values; values may be credentials.
    pub headers: Vec<(String, Zeroizing<String>)>,
    /// The body.
    pub body: Zeroizing<Vec<u8>>,
    /// For everything until the last byte of the answer.
    pub patience: Duration,
    /// The most of the answer, in bytes.
    pub max_answer: usize,
    /// Nobody else makes one.
    _judged: Judged,
}

/// That rules were asked about a request.
struct Judged;

/// A request as it would go out; nobody has said yet that it may.
pub(super) struct Request {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, Zeroizing<String>)>,
    pub(super) body: Zeroizing<Vec<u8>>,
}

impl Request {
    /// The call, if its credential may go there, as the rules about it say.
    pub(super) fn judged(
        self,
        bounds: &BoundTo<'_>,
        belongs: bool,
        (patience, max_answer): (Duration, usize),
    ) -> Result<Call, Error> {
        bounds.judge(self.scheme, &self.authority, &self.facts(), belongs)?;
        let Self { scheme, authority, method, target, headers, body } = self;
        Ok(Call {
            scheme,
            authority,
            method,
            target,
            headers,
            body,
            patience,
            max_answer,
            _judged: Judged,
        })
    }

    /// What rules ask about it: what its head says, and a form in its body, in the same reading as those of a request through the
    /// proxy.
    pub(super) fn facts(&self) -> RequestFacts {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let parameters = form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned().into_bytes(), value.into_owned().into_bytes()));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let mut said = RequestFacts::of_head((&self.method, path), headers, parameters);
        match fields(&self.method, self.media_type().as_deref(), &self.body) {
            Some(fields) => said.add_parameters(fields),
            None => said.has_unread_form = true,
        }
        said
    }

    fn media_type(&self) -> Option<String> {
        let found = self.headers.iter().find(|(name, _)| name == "content-type");
        found.map(|(_, value)| value.to_ascii_lowercase())
    }

    /// Refuses what has a service do another operation than the one that was named, found and judged.
    fn keeps_its_operation(&self) -> Result<(), Error> {
        let said = self.facts();
        if said.has_other_path {
            let words = "a header of the call would have the service take another path than the operation's \
                         (X-Original-URL, X-Rewrite-URL)";
            return Err(Error::with(Code::BadRequest, SafeText::words(words)));
        }
        let Some(other) = said.methods.iter().find(|method| **method != self.method) else {
            return Ok(());
        };
        let words = SafeText::words(
            "a parameter of the call (_method, or a header as X-HTTP-Method-Override) would have the service do a ",
        );
        let words = words.as_they_wrote(other).and(" in place of the operation's ");
        let words = words.as_they_wrote(&self.method);
        Err(Error::with(
            Code::BadRequest,
            words.and("; leave it out, and name the operation that is meant"),
        ))
    }
}

/// The fields of a body by which frameworks take another method (Rails and Laravel by a form, Laravel by JSON as well); `None`
/// for parts, of which no operation has any.
fn fields(method: &str, media_type: Option<&str>, body: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let says = |word: &str| media_type.is_some_and(|media_type| media_type.contains(word));
    // Rack takes a POST that does not say what it is for a form.
    if says("x-www-form-urlencoded") || (media_type.is_none() && method == "POST") {
        let pairs = form_urlencoded::parse(body);
        let owned = |text: Cow<'_, str>| text.into_owned().into_bytes();
        return Some(pairs.map(|(name, value)| (owned(name), owned(value))).collect());
    }
    if says("multipart/") {
        return None;
    }
    if !says("json") {
        return Some(Vec::new());
    }
    let members: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let methods = members.into_iter().filter(|(name, _)| is_method(name.as_bytes()));
    let said = methods.filter_map(|(name, value)| Some((name.into(), value.as_str()?.into())));
    Some(said.collect())
}

/// A checked call of an HTTP service, in which placeholders stand where values will.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) method: String,
    /// What all paths of the service begin with.
    pub(super) prefix: String,
    pub(super) path: Vec<Piece>,
    pub(super) query: Vec<(String, Written)>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
    /// Where the credential goes; nothing where the operation takes none.
    pub(super) auth: Option<Auth>,
    /// The operations of the service that are not called, by paths without the beginning that all share.
    pub(super) withheld: Vec<String>,
}

/// A piece of a path.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// As it is written.
    Fixed(String),
    /// One segment, or a part of one, that a parameter says.
    Segment(String),
}

/// What stands for a parameter in a query or a form.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) parts: Vec<Part>,
    /// What stands between them.
    pub(super) between: &'static str,
}

/// A part of what stands for a parameter.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Json(Value),
    Text(String),
}

/// What a request carries.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Form { media_type: String, pairs: Vec<(String, Written)> },
    Json { media_type: String, members: Map<String, Value> },
    None,
}

impl Draft {
    /// Finds whether the request can be sent at all, and may be, as it is before values are filled in.
    pub(super) fn checked(self) -> Result<Self, Error> {
        let request = self.request(NO_CREDENTIAL)?;
        // One that is filled in may be shorter than its placeholder.
        if !self.has_handle() && request.target.len() > MAX_TARGET {
            let words = "path and query hold 64 KiB at most; give less at a time";
            return Err(Error::with(Code::BadRequest, SafeText::words(words)));
        }
        match request.headers.iter().find(|(_, value)| !value.bytes().all(stands_in_header)) {
            None => Ok(self),
            Some((name, _)) => {
                let words = SafeText::words("what is given for the header ").as_they_wrote(name);
                let words = words.and(" can't stand in one: it takes visible ASCII and spaces");
                Err(Error::with(Code::BadRequest, words))
            }
        }
    }

    /// The request as it is now, without its credential.
    pub(super) fn aim(&self) -> Result<Request, Error> {
        self.request(NO_CREDENTIAL)
    }

    /// The request with its values and its credential. What is wrong with it then is not told in words, which could
    /// have a value in them.
    pub(super) fn filled(
        mut self,
        filling: &mut Filling<'_>,
        credential: &str,
    ) -> Result<Request, Error> {
        for piece in &mut self.path {
            if let Piece::Segment(text) = piece {
                *text = filling.text(text)?;
            }
        }
        for (_, written) in &mut self.query {
            written.fill(filling)?;
        }
        for (_, text) in &mut self.headers {
            *text = filling.text(text)?;
        }
        match &mut self.body {
            Body::Form { pairs, .. } => {
                for (_, written) in pairs {
                    written.fill(filling)?;
                }
            }
            Body::Json { members, .. } => *members = filling.object(members)?,
            Body::None => {}
        }
        self.request(credential).map_err(|error| Error::new(error.code()))
    }

    fn request(&self, credential: &str) -> Result<Request, Error> {
        let path = self.path()?;
        if self.withheld.iter().any(|pattern| pattern::fits(pattern, &self.method, &path)) {
            return Err(withheld());
        }
        let mut headers: Vec<(String, Zeroizing<String>)> = vec![
            ("user-agent".to_owned(), Zeroizing::new("keyless".to_owned())),
            ("accept".to_owned(), Zeroizing::new("application/json".to_owned())),
        ];
        for (name, value) in &self.headers {
            set(&mut headers, name, value.clone());
        }
        let body = match &self.body {
            Body::Form { media_type, pairs } => {
                set(&mut headers, "content-type", media_type.clone());
                joined(pairs).into_bytes()
            }
            Body::Json { media_type, members } => {
                set(&mut headers, "content-type", media_type.clone());
                serde_json::to_vec(members).map_err(|_| Error::new(Code::Internal))?
            }
            Body::None => Vec::new(),
        };
        let mut query = joined(&self.query);
        if let Some(auth) = &self.auth {
            auth.put(credential, &mut headers, &mut query)?;
        }
        let mark = if query.is_empty() { "" } else { "?" };
        let request = Request {
            scheme: self.scheme,
            authority: self.authority.clone(),
            method: self.method.clone(),
            target: format!("{}{path}{mark}{query}", self.prefix),
            headers,
            body: Zeroizing::new(body),
        };
        request.keeps_its_operation()?;
        Ok(request)
    }

    /// The path; a parameter neither ends it nor leaves its segment.
    fn path(&self) -> Result<String, Error> {
        let mut path = String::new();
        for piece in &self.path {
            match piece {
                Piece::Fixed(text) => path.push_str(text),
                Piece::Segment(text) => {
                    path.push_str(&segment(text).ok_or_else(|| leaves(text))?);
                }
            }
        }
        // `.{ending}` of a template may have become `..`.
        let has_dots = path.split('/').any(|part| part == "." || part == "..");
        if has_dots { Err(leaves(&path)) } else { Ok(path) }
    }

    fn has_handle(&self) -> bool {
        let in_text = |text: &str| {
            let is_handle = |part: &TemplatePart| matches!(part, TemplatePart::Handle(_));
            parse_template(text).is_ok_and(|parts| parts.iter().any(is_handle))
        };
        let in_part = |part: &Part| {
            matches!(part, Part::Text(text) if in_text(text))
                || matches!(part, Part::Json(value) if in_text(&value.to_string()))
        };
        let in_piece = |piece: &Piece| matches!(piece, Piece::Segment(text) if in_text(text));
        self.path.iter().any(in_piece)
            || self.query.iter().any(|(_, written)| written.parts.iter().any(in_part))
    }
}

impl Auth {
    /// Puts the credential where it goes.
    fn put(
        &self,
        credential: &str,
        headers: &mut Vec<(String, Zeroizing<String>)>,
        query: &mut String,
    ) -> Result<(), Error> {
        if credential.is_empty() || credential.bytes().any(|byte| byte.is_ascii_control()) {
            let words = SafeText::words("the credential can't stand in a header");
            return Err(Error::with(Code::BadRequest, words));
        }
        if let Some(name) = &self.query {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(&encoded(&[(name.clone(), credential.to_owned())]));
            return Ok(());
        }
        let value = match self.scheme {
            AuthScheme::Basic => {
                format!("Basic {}", data_encoding::BASE64.encode(credential.as_bytes()))
            }
            AuthScheme::Bearer => format!("Bearer {credential}"),
            AuthScheme::Plain => credential.to_owned(),
        };
        set(headers, &self.header, value);
        Ok(())
    }
}

impl Written {
    /// One text.
    pub(super) fn text(text: String) -> Self {
        Self { parts: vec![Part::Text(text)], between: "" }
    }

    fn fill(&mut self, filling: &mut Filling<'_>) -> Result<(), Error> {
        for part in &mut self.parts {
            match part {
                Part::Json(value) => *value = filling.value(value)?,
                Part::Text(text) => *text = filling.text(text)?,
            }
        }
        Ok(())
    }

    fn escaped(&self) -> String {
        let part = |part: &Part| match part {
            Part::Json(value) => escape(&value.to_string()),
            Part::Text(text) => escape(text),
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join(self.between)
    }
}

fn joined(pairs: &[(String, Written)]) -> String {
    let pair = |(name, value): &(String, Written)| format!("{}={}", escape(name), value.escaped());
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

fn leaves(text: &str) -> Error {
    let words = SafeText::words("it can't stand in a path, which it would leave: ");
    Error::with(Code::BadRequest, words.as_they_wrote(text))
}

/// What can be sent as a value of a header.
fn stands_in_header(byte: u8) -> bool {
    byte == b' ' || byte == b'\t' || byte.is_ascii_graphic()
}
