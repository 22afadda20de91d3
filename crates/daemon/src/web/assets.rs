//! The style sheet, the scripts and the icon, embedded.
//!
//! What a page looks like is kept by the browser under an address that names its bytes, so that the page that says that
//! the broker has ended looks like the others. Scripts import one another by plain names and are fetched anew.

use std::{collections::HashMap, sync::LazyLock};

use axum::{
    extract::{Path, RawQuery},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type, text.
const ALL: &[(&str, &str, &str)] = &[
    ("dialog.js", SCRIPT, include_str!("assets/dialog.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("page.js", SCRIPT, include_str!("assets/page.js")),
    ("passkey.js", SCRIPT, include_str!("assets/passkey.js")),
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("value.js", SCRIPT, include_str!("assets/value.js")),
];

/// What the looks' addresses end in.
static VERSIONS: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let looks = ALL.iter().filter(|(_, kind, _)| *kind != SCRIPT);
    looks.map(|(name, _, text)| (*name, HEXLOWER.encode(&Sha256::digest(text)[..6]))).collect()
});

/// Where an asset is.
pub(super) fn address(name: &str) -> String {
    match VERSIONS.get(name) {
        Some(version) => format!("/assets/{name}?{version}"),
        None => format!("/assets/{name}"),
    }
}

pub(super) async fn serve(Path(name): Path<String>, RawQuery(version): RawQuery) -> Response {
    let Some((_, kind, text)) = ALL.iter().find(|(known, ..)| *known == name) else {
        return (StatusCode::NOT_FOUND, "There is no such file.\n").into_response();
    };
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if version.is_some() && version.as_ref() == VERSIONS.get(name.as_str()) {
        let kept = HeaderValue::from_static("private, max-age=86400, immutable");
        headers.insert(header::CACHE_CONTROL, kept);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_together_is_small() {
        let bytes: usize = ALL.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < 40 * 1024, "{bytes}");
    }
}
