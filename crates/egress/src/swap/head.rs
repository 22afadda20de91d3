//! Placeholders in the head of a request: found, judged, and swapped in place.

use http::{HeaderMap, HeaderValue, Uri, header, request::Parts, uri::PathAndQuery};
use keyless_core::{Code, Error, Location, SafeText};
use zeroize::Zeroizing;

use super::{
    basic::Basic,
    escape::Escape,
    find::{Find, contains, find, find_in_target, has_stranger, percent_decoded, splice},
    ledger::{Fate, Ledger, Values},
    table::{Facts, SwapTable},
};

const ODD_BASIC: &str = "a Basic credential that is no base64 to every reader (blanks inside, a tab after `Basic`, bits left over at its end), so that it can't be swapped; encode it as RFC 4648 has it";

/// The placeholders of one head.
pub(super) struct Head {
    path: Vec<Find>,
    query: Vec<Find>,
    fields: Vec<Field>,
}

/// A header value that holds placeholders.
struct Field {
    /// Its number in the map's own order.
    index: usize,
    finds: Vec<Find>,
    basic: Option<Basic>,
}

/// Reads texts of one head, on the watch for placeholders of others.
struct Reader<'t> {
    table: &'t SwapTable,
    refuses_strangers: bool,
}

impl Head {
    /// Finds every placeholder. Fails on one in a method or a header's name, and on a stranger's.
    pub(super) fn read(table: &SwapTable, facts: &Facts, parts: &Parts) -> Result<Self, Error> {
        let reader = Reader { table, refuses_strangers: facts.named };
        if contains(table.patterns(), parts.method.as_str().as_bytes()) {
            return Err(misplaced("the method"));
        }
        let mut names = parts.headers.keys().map(|name| name.as_str().as_bytes());
        if names.any(|name| contains(table.folded(), name)) {
            return Err(misplaced("the name of a header"));
        }
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self {
            path: reader.target(parts.uri.path(), "the path")?,
            query: reader.target(query, "the query")?,
            fields: reader.fields(&parts.headers)?,
        })
    }

    /// Decides about each. What stays as it is, is forgotten here.
    pub(super) fn judge(mut self, ledger: &mut Ledger) -> Result<Self, Error> {
        judge(&mut self.path, Location::Path, ledger)?;
        judge(&mut self.query, Location::Query, ledger)?;
        for field in &mut self.fields {
            let location = if field.basic.is_some() { Location::Basic } else { Location::Header };
            judge(&mut field.finds, location, ledger)?;
        }
        self.fields.retain(|field| !field.finds.is_empty());
        Ok(self)
    }

    /// Puts the values in.
    pub(super) fn splice(&self, values: &Values, parts: &mut Parts) -> Result<(), Error> {
        if !self.path.is_empty() || !self.query.is_empty() {
            parts.uri = self.spliced_uri(values, &parts.uri)?;
        }
        // `fields` is in the map's order, and nothing has touched the map since.
        let mut fields = self.fields.iter().peekable();
        for (index, value) in parts.headers.values_mut().enumerate() {
            if let Some(field) = fields.next_if(|field| field.index == index) {
                *value = field.spliced(value, values)?;
            }
        }
        Ok(())
    }

    fn spliced_uri(&self, values: &Values, uri: &Uri) -> Result<Uri, Error> {
        let path = splice(uri.path().as_bytes(), &self.path, values)?;
        let target = match uri.query() {
            None => path,
            Some(query) => {
                let query = splice(query.as_bytes(), &self.query, values)?;
                Zeroizing::new([&path[..], b"?", &query[..]].concat())
            }
        };
        let mut parts = uri.clone().into_parts();
        let target = PathAndQuery::try_from(target.as_slice());
        parts.path_and_query = Some(target.map_err(|_| unfit("the target"))?);
        Uri::from_parts(parts).map_err(|_| unfit("the target"))
    }
}

impl Reader<'_> {
    fn target(&self, text: &str, place: &'static str) -> Result<Vec<Find>, Error> {
        let text = text.as_bytes();
        let finds = find_in_target(self.table, text);
        if finds.is_empty() && !text.contains(&b'%') {
            self.refuse_strangers(text, &finds, place)?;
            return Ok(finds);
        }
        // Where escapes hide letters, ranges and decoded bytes no longer run side by side; the
        // finds are looked up anew in what the server will see.
        let decoded = percent_decoded(text).0;
        let seen =
            if finds.is_empty() { Vec::new() } else { find(self.table, &decoded, Escape::Raw) };
        self.refuse_strangers(&decoded, &seen, place)?;
        Ok(finds)
    }

    fn fields(&self, headers: &HeaderMap) -> Result<Vec<Field>, Error> {
        let mut fields = Vec::new();
        for (index, (name, value)) in headers.iter().enumerate() {
            let value = value.as_bytes();
            if name == header::AUTHORIZATION
                && let Some(field) = self.basic(index, value)?
            {
                fields.push(field);
                continue;
            }
            let finds = find(self.table, value, Escape::Raw);
            self.refuse_strangers(value, &finds, "a header")?;
            if !finds.is_empty() {
                fields.push(Field { index, finds, basic: None });
            }
        }
        Ok(fields)
    }

    fn basic(&self, index: usize, value: &[u8]) -> Result<Option<Field>, Error> {
        let Some(basic) = Basic::parse(value) else {
            if contains(self.table.patterns(), &Basic::read_loosely(value)) {
                return Err(misplaced(ODD_BASIC));
            }
            return Ok(None);
        };
        let finds = find(self.table, &basic.credential, Escape::Raw);
        self.refuse_strangers(&basic.credential, &finds, "the Basic credential")?;
        let found = !finds.is_empty();
        Ok(found.then_some(Field { index, finds, basic: Some(basic) }))
    }

    fn refuse_strangers(
        &self,
        text: &[u8],
        finds: &[Find],
        place: &'static str,
    ) -> Result<(), Error> {
        if self.refuses_strangers && has_stranger(text, finds) {
            return Err(Error::with(Code::UnknownPlaceholder, SafeText::words("in ").and(place)));
        }
        Ok(())
    }
}

impl Field {
    fn spliced(&self, value: &HeaderValue, values: &Values) -> Result<HeaderValue, Error> {
        let bytes = match &self.basic {
            None => splice(value.as_bytes(), &self.finds, values)?,
            Some(basic) => {
                let credential = splice(&basic.credential, &self.finds, values)?;
                Zeroizing::new(basic.with(&credential))
            }
        };
        let mut swapped = HeaderValue::from_bytes(&bytes).map_err(|_| unfit("a header"))?;
        // Sent as a never-indexed literal on HTTP/2, and left out of `Debug`.
        swapped.set_sensitive(true);
        Ok(swapped)
    }
}

/// Keeps of `finds` those that are to be swapped.
pub(super) fn judge(
    finds: &mut Vec<Find>,
    location: Location,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let mut refusal = Ok(());
    finds.retain(|found| match refusal {
        Ok(()) => match ledger.judge(found.secret, location) {
            Ok(fate) => fate == Fate::Swapped,
            Err(error) => {
                refusal = Err(error);
                false
            }
        },
        Err(_) => false,
    });
    refusal
}

pub(super) fn misplaced(place: &'static str) -> Error {
    Error::with(Code::BadRequest, SafeText::words("a placeholder stands in ").and(place))
}

fn unfit(place: &'static str) -> Error {
    let detail = SafeText::words("the value has characters that can't stand in ").and(place);
    Error::with(Code::ValueRefused, detail)
}
