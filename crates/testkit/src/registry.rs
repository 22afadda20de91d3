//! Package indexes and a registry of images with one tiny thing each: what `pip download`, `npm view|install` and `skopeo`
//! talk to.
//!
//! Static answers only. They do not check credentials: put the handler behind a `Gate`.

mod archive;

use std::fmt::Write as _;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use http::{
    HeaderValue, Request, StatusCode,
    header::{CONTENT_TYPE, HOST, LOCATION},
};
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use crate::origin::{Handler, Reply, RequestBody, reply};

use archive::{tar_gz, zip};

/// Returns a PyPI "simple" index (PEP 503) at `/simple/` with the package `keyless-sample` 1.0.
pub fn pypi() -> Handler {
    let wheel = wheel();
    let page = format!(
        "<!DOCTYPE html><html><body><a href=\"/files/{WHEEL}#sha256={}\">{WHEEL}</a></body></html>",
        HEXLOWER.encode(&Sha256::digest(&wheel)),
    );
    Handler::new(move |request| {
        let answer = match request.uri().path().trim_end_matches('/') {
            "/simple" => {
                typed("text/html", "<a href=\"/simple/keyless-sample/\">keyless-sample</a>")
            }
            "/simple/keyless-sample" => typed("text/html", page.clone()),
            path if path == format!("/files/{WHEEL}") => typed("application/zip", wheel.clone()),
            _ => reply(StatusCode::NOT_FOUND, "no such package\n"),
        };
        async { answer }
    })
}

/// Returns an npm registry at `/` with the package `keyless-sample` 1.0.0.
pub fn npm() -> Handler {
    let tarball = tar_gz(&[
        (
            "package/package.json",
            br#"{"name":"keyless-sample","version":"1.0.0","main":"index.js"}"#,
        ),
        ("package/index.js", b"module.exports = 'keyless';\n"),
    ]);
    Handler::new(move |request| {
        let answer = match request.uri().path() {
            "/keyless-sample" => {
                typed("application/json", packument(&authority(&request), &tarball))
            }
            TARBALL => typed("application/octet-stream", tarball.clone()),
            _ => {
                typed_status(StatusCode::NOT_FOUND, "application/json", "{\"error\":\"not found\"}")
            }
        };
        async { answer }
    })
}

/// Returns a registry of images with `team/image:v1`, whose blobs stand at `https://BLOBS/…`, where it leads clients to as
/// Docker Hub does, and what answers there.
pub fn image(blobs: &str) -> (Handler, Handler) {
    let layer = tar_gz(&[("etc/motd", b"keyless\n")]);
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    let config = config.to_string().into_bytes();
    let described = |kind: &str, blob: &[u8]| {
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": digest(blob),
            "size": blob.len(),
        })
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described("config.v1+json", &config),
        "layers": [described("layer.v1.tar+gzip", &layer)],
    });
    let manifest = manifest.to_string();
    let place = format!("https://{blobs}/");
    let registry = Handler::new(move |request| {
        let path = request.uri().path();
        let answer = match path.strip_prefix("/v2/team/image/").and_then(|it| it.split_once('/')) {
            None if path == "/v2/" => typed("application/json", "{}"),
            Some(("manifests", _)) => typed(MANIFEST, manifest.clone()),
            Some(("blobs", digest)) => {
                let mut redirect = reply(StatusCode::TEMPORARY_REDIRECT, "");
                let at = HeaderValue::try_from(format!("{place}{digest}?signature=1"));
                redirect.headers_mut().insert(LOCATION, at.expect("a digest has ASCII alone"));
                redirect
            }
            _ => reply(StatusCode::NOT_FOUND, "no such image\n"),
        };
        async { answer }
    });
    let blobs = Handler::new(move |request| {
        let asked = request.uri().path().trim_start_matches('/');
        let blob = [&layer, &config].into_iter().find(|blob| digest(blob) == asked);
        let answer = match blob {
            Some(blob) => typed("application/octet-stream", blob.clone()),
            None => reply(StatusCode::NOT_FOUND, "no such blob\n"),
        };
        async { answer }
    });
    (registry, blobs)
}

fn digest(blob: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(blob)))
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const WHEEL: &str = "keyless_sample-1.0-py3-none-any.whl";
const TARBALL: &str = "/keyless-sample/-/keyless-sample-1.0.0.tgz";

/// A wheel (PEP 427): a zip with metadata and a RECORD of hashes.
fn wheel() -> Vec<u8> {
    let info = "keyless_sample-1.0.dist-info";
    let metadata = "Metadata-Version: 2.1\nName: keyless-sample\nVersion: 1.0\n";
    let kind = "Wheel-Version: 1.0\nGenerator: keyless\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let mut files = vec![
        ("keyless_sample.py".to_owned(), b"NAME = 'keyless'\n".to_vec()),
        (format!("{info}/METADATA"), metadata.into()),
        (format!("{info}/WHEEL"), kind.into()),
    ];
    let mut record = String::new();
    for (name, content) in &files {
        let hash = BASE64URL_NOPAD.encode(&Sha256::digest(content));
        let _ = writeln!(record, "{name},sha256={hash},{}", content.len());
    }
    let _ = writeln!(record, "{info}/RECORD,,");
    files.push((format!("{info}/RECORD"), record.into()));
    zip(&files)
}

/// What npm calls the document of a package; tarballs are named by absolute URL.
fn packument(authority: &str, tarball: &[u8]) -> String {
    json!({
        "name": "keyless-sample",
        "description": "a sample package",
        "dist-tags": { "latest": "1.0.0" },
        "versions": { "1.0.0": {
            "name": "keyless-sample",
            "version": "1.0.0",
            "dist": {
                "tarball": format!("https://{authority}{TARBALL}"),
                "shasum": HEXLOWER.encode(&Sha1::digest(tarball)),
                "integrity": format!("sha512-{}", BASE64.encode(&Sha512::digest(tarball))),
            },
        }},
    })
    .to_string()
}

fn authority(request: &Request<RequestBody>) -> String {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let target = request.uri().authority().map(http::uri::Authority::as_str);
    target.or(host).unwrap_or("localhost").to_owned()
}

fn typed(kind: &'static str, body: impl Into<bytes::Bytes>) -> Reply {
    typed_status(StatusCode::OK, kind, body)
}

fn typed_status(status: StatusCode, kind: &'static str, body: impl Into<bytes::Bytes>) -> Reply {
    let mut reply = reply(status, body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}
