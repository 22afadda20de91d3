//! Random requests, how they are written, and what an origin saw of them.

use std::fmt::Write as _;

use data_encoding::BASE64;
use keyless_testkit::{Origin, RecordedRequest};
use proptest::{collection::vec, option, prelude::*, sample::select};

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The placeholder of the secret that is for this host.
    Ours,
    /// The placeholder of one that is for another.
    Foreign,
    /// The beginning of ours, and no more.
    Torn,
    Plain(&'static str),
}

/// How a body is framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Chunks(Vec<usize>),
    Length,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Tells it from those before, which an origin may still be busy with.
    pub(super) number: usize,
    pub(super) method: &'static str,
    pub(super) path: Vec<Piece>,
    pub(super) query: Option<Vec<Piece>>,
    pub(super) headers: Vec<(&'static str, Vec<Piece>)>,
    /// Of `Authorization: Basic`, with the user `me`.
    pub(super) password: Option<Vec<Piece>>,
    pub(super) body: Vec<Piece>,
    pub(super) framing: Framing,
    /// Into how many records it is cut, and how long they are.
    pub(super) records: Vec<usize>,
}

/// What reaches an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) body: String,
}

/// About one hop, so it stays there.
const CLOSE: &str = "connection: close\r\n";
const NAMES: [&str; 4] = ["x-one", "x-two", "cookie", "referer"];

/// Anything.
pub(super) fn any() -> impl Strategy<Value = Request> {
    let head = (
        select(vec!["GET", "POST", "PUT", "DELETE"]),
        pieces(4),
        option::of(pieces(4)),
        vec((select(NAMES.to_vec()), pieces(3)), 0..4),
        option::weighted(0.3, pieces(3)),
    );
    let framing = prop_oneof![
        3 => Just(Framing::Length),
        2 => vec(1_usize..40, 1..5).prop_map(Framing::Chunks),
    ];
    let body = (pieces(8), framing, vec(1_usize..60, 1..5));
    (head, body).prop_map(|((method, path, query, headers, password), (body, framing, records))| {
        // No header is empty: hyper writes those without the space.
        let full = |(name, mut pieces): (_, Vec<_>)| {
            pieces.insert(0, Piece::Plain("v"));
            (name, pieces)
        };
        let headers = headers.into_iter().map(full).collect();
        Request { number: 0, method, path, query, headers, password, body, framing, records }
    })
}

fn pieces(most: usize) -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        2 => Just(Piece::Ours),
        1 => Just(Piece::Foreign),
        1 => Just(Piece::Torn),
        6 => select(vec!["a", "-", "b.c", "0", "=", "kloak", "~_"]).prop_map(Piece::Plain),
    ];
    vec(piece, 0..=most)
}

impl Piece {
    pub(super) fn text<'a>(&self, [ours, foreign]: [&'a str; 2]) -> &'a str {
        match self {
            Self::Ours => ours,
            Self::Foreign => foreign,
            Self::Torn => ours.get(..20).unwrap_or_default(),
            Self::Plain(text) => text,
        }
    }
}

impl Request {
    /// Its bytes, in the pieces in which they are sent.
    pub(super) fn written(&self, host: &str, words: [&str; 2]) -> Vec<Vec<u8>> {
        let text =
            |pieces: &[Piece]| -> String { pieces.iter().map(|it| it.text(words)).collect() };
        let query = self.query.as_ref().map(|query| format!("?{}", text(query)));
        let path = if self.path.first() == Some(&Piece::Plain("/")) { "" } else { "/m/" };
        let mut all = format!(
            "{} {path}{}{} HTTP/1.1\r\nHost: {host}\r\n",
            self.method,
            text(&self.path),
            query.unwrap_or_default()
        );
        for (name, pieces) in &self.headers {
            write!(all, "{name}: {}\r\n", text(pieces)).unwrap();
        }
        if let Some(password) = &self.password {
            let coded = BASE64.encode(format!("me:{}", text(password)).as_bytes());
            write!(all, "authorization: Basic {coded}\r\n").unwrap();
        }
        write!(all, "x-case: {}\r\n{CLOSE}", self.number).unwrap();
        let body = text(&self.body);
        match &self.framing {
            Framing::Length => {
                write!(all, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
            Framing::Chunks(sizes) => {
                all.push_str("transfer-encoding: chunked\r\n\r\n");
                for chunk in cut(body.as_bytes(), sizes) {
                    let chunk = String::from_utf8_lossy(&chunk).into_owned();
                    write!(all, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
                }
                all.push_str("0\r\n\r\n");
            }
        }
        cut(all.as_bytes(), &self.records)
    }

    /// The same without placeholders, with each header once, for a target that gives `bytes` bytes, or
    /// reads the body: a server that does not would close the connection some time later.
    pub(super) fn without_placeholders(mut self, bytes: usize) -> Self {
        let plain = |piece: &Piece| matches!(piece, Piece::Plain(_));
        let mut seen = Vec::new();
        self.headers.retain(|(name, _)| {
            let first = !seen.contains(name);
            seen.push(*name);
            first
        });
        for (_, pieces) in &mut self.headers {
            pieces.retain(plain);
        }
        self.password.iter_mut().for_each(|pieces| pieces.retain(plain));
        self.body.retain(plain);
        let bodiless = self.body.is_empty() && self.framing == Framing::Length;
        let target = if bodiless { format!("bytes?n={bytes}") } else { "sink".to_owned() };
        self.path = vec![Piece::Plain("/"), Piece::Plain(target.leak())];
        Self { query: None, ..self }
    }
}

fn cut(mut bytes: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes.next().copied().unwrap_or(1);
        let (piece, rest) = bytes.split_at(size.min(bytes.len()));
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    pieces
}

impl Seen {
    /// The method, and what else the origin saw.
    pub(super) fn of(request: &RecordedRequest) -> (String, Self) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (path, query) = match request.target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (request.target.as_str(), None),
        };
        let password = request.header("authorization").map(|value| {
            let coded = value.strip_prefix("Basic ").unwrap_or_default();
            let pair = text(&BASE64.decode(coded.as_bytes()).unwrap_or_default());
            pair.strip_prefix("me:").unwrap_or_default().to_owned()
        });
        let headers = request.headers.iter().filter(|(name, _)| NAMES.contains(&name.as_str()));
        let seen = Self {
            path: path.strip_prefix("/m/").unwrap_or(path).to_owned(),
            query,
            headers: headers.map(|(name, value)| (name.clone(), text(value))).collect(),
            password,
            body: text(&request.body),
        };
        (request.method.clone(), seen.grouped())
    }

    /// With equal names together, as a table of headers has them.
    pub(super) fn grouped(mut self) -> Self {
        self.headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        self
    }
}

/// What stood on the wire of the one request that the origin saw; where it came in chunks, without
/// their sizes.
pub(super) fn comparable(origin: &Origin, request: &Request) -> String {
    let snapshot = origin.snapshot();
    let text = String::from_utf8_lossy(&snapshot.received()).replacen(CLOSE, "", 1);
    if request.framing == Framing::Length {
        return text;
    }
    let head = text.split_once("\r\n\r\n").map_or("", |(head, _)| head);
    let body = snapshot.requests.first().map(|it| String::from_utf8_lossy(&it.body).into_owned());
    format!("{head}\r\n\r\n{}", body.unwrap_or_default())
}

/// An answer without what belongs to one connection or moment.
pub(super) fn answered(text: &str) -> (Vec<String>, String) {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let own = ["connection:", "date:", "keep-alive:"];
    let mut lines: Vec<String> = head.lines().map(str::to_ascii_lowercase).collect();
    lines.retain(|line| !own.iter().any(|name| line.starts_with(name)));
    lines.sort();
    (lines, body.to_owned())
}
