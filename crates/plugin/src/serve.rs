//! The author's end: reads requests, asks the source, writes answers.

use std::io::{self, BufRead, BufReader, Write};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use zeroize::Zeroizing;

use crate::{
    line,
    messages::{
        Answer, Availability, DeleteReply, Entry, Fault, Found, GetReply, Init, InitReply,
        ListReply, METHODS, PROTOCOL_VERSION, PutParams, PutReply, Reference, Request, Text,
        ValidateReply, Version,
    },
};

/// A place where secrets are kept. Only the first three have to be written.
pub trait SecretSource {
    /// What it can do, as bits such as [`READ`](crate::READ).
    fn capabilities(&self) -> u32;

    /// How it is, in under 100 ms.
    fn is_available(&mut self) -> Availability;

    /// The value of `reference`; `None` when there is none.
    fn get(&mut self, reference: &str) -> Result<Option<Found>, Fault>;

    /// Takes the settings of the source from the operator's `sources.toml`.
    fn configure(&mut self, _config: Value) -> Result<(), Fault> {
        Ok(())
    }

    /// Everything that it keeps.
    fn list(&mut self) -> Result<Vec<Entry>, Fault> {
        Err(unsupported("list"))
    }

    /// Whether `reference` is written well; not whether there is a value.
    fn validate(&mut self, _reference: &str) -> Result<(), Fault> {
        Err(unsupported("validate"))
    }

    /// Puts a value; says whether it took the place of another.
    fn put(&mut self, _reference: &str, _value: &Text) -> Result<bool, Fault> {
        Err(unsupported("put"))
    }

    /// Deletes a value; says whether there was one.
    fn delete(&mut self, _reference: &str) -> Result<bool, Fault> {
        Err(unsupported("delete"))
    }
}

/// Serves `source` under `name` on stdin and stdout until stdin ends.
pub fn serve(name: &str, source: impl SecretSource) -> io::Result<()> {
    serve_on(name, source, BufReader::new(io::stdin().lock()), io::stdout().lock())
}

/// [`serve`] on other streams.
pub fn serve_on(
    name: &str,
    mut source: impl SecretSource,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    while let Some(text) = line::read(&mut input)? {
        let Ok(request) = serde_json::from_slice::<Request<&RawValue>>(&text) else {
            let fault = Fault::Other { detail: "the request can't be read".to_owned() };
            write(&mut output, 0, Err::<Value, _>(fault))?;
            continue;
        };
        respond(name, &mut source, &request, &mut output)?;
    }
    Ok(())
}

fn respond(
    name: &str,
    source: &mut impl SecretSource,
    request: &Request<&RawValue>,
    output: &mut impl Write,
) -> io::Result<()> {
    let Request { id, params, .. } = *request;
    match request.method.strip_prefix(METHODS).unwrap_or_default() {
        "init" => write(output, id, read(params).and_then(|init| begin(name, source, init))),
        "is_available" => write(output, id, Ok(source.is_available())),
        "get" => {
            let got = read::<Reference>(params).and_then(|asked| source.get(&asked.reference));
            write(output, id, got.map(reply))
        }
        "list" => write(output, id, source.list().map(|entries| ListReply { entries })),
        "validate" => {
            let asked = read::<Reference>(params);
            let valid = asked.and_then(|asked| source.validate(&asked.reference));
            write(output, id, valid.map(|()| ValidateReply { ok: true }))
        }
        "put" => {
            let asked = read::<PutParams>(params);
            let put = asked.and_then(|asked| source.put(&asked.reference, &asked.value));
            write(output, id, put.map(|replaced| PutReply { replaced }))
        }
        "delete" => {
            let asked = read::<Reference>(params);
            let deleted = asked.and_then(|asked| source.delete(&asked.reference));
            write(output, id, deleted.map(|existed| DeleteReply { existed }))
        }
        _ => write(output, id, Err::<Value, _>(unsupported(&request.method))),
    }
}

fn begin(
    name: &str,
    source: &mut impl SecretSource,
    init: Init<serde_json::Value>,
) -> Result<InitReply, Fault> {
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(&init.protocol_version) != major(PROTOCOL_VERSION) {
        let detail = format!("protocol {} is not {PROTOCOL_VERSION}", init.protocol_version);
        return Err(Fault::Unavailable { detail });
    }
    source.configure(init.config)?;
    Ok(InitReply {
        source_name: name.to_owned(),
        capabilities_bits: source.capabilities(),
        plugin_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn reply(found: Option<Found>) -> GetReply {
    match found {
        None => GetReply { found: false, value: None, lease_seconds: None },
        Some(Found { value, lease_seconds }) => {
            GetReply { found: true, value: Some(value), lease_seconds }
        }
    }
}

fn read<P: DeserializeOwned>(params: &RawValue) -> Result<P, Fault> {
    serde_json::from_str(params.get())
        .map_err(|_| Fault::Other { detail: "the parameters can't be read".to_owned() })
}

fn write(
    output: &mut impl Write,
    id: u64,
    outcome: Result<impl Serialize, Fault>,
) -> io::Result<()> {
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(fault) => (None, Some(fault)),
    };
    let mut text = Zeroizing::new(Vec::with_capacity(64 * 1024));
    serde_json::to_writer(&mut *text, &Answer { jsonrpc: Version::Two, id, result, error })?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

fn unsupported(capability: &str) -> Fault {
    Fault::UnsupportedCapability { capability: capability.to_owned() }
}
