//! Reads a template's file for an agent.
//!
//! The broker may read more than the agent, so that only what everybody may read is taken: else an
//! action would be a way to files that the agent's jail hides.

use std::{
    fs::OpenOptions,
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use keyless_core::{Code, SafeText, nl_message::NlFault};

/// The largest template, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The text of a template's file.
pub(super) fn read(path: &str) -> Result<String, NlFault> {
    let refuse = |why: &'static str| {
        let words = SafeText::words("template_path: ").and(why);
        NlFault::new(Code::PathUnusable, words)
            .suggesting(SafeText::words("Send the text as template_content."))
    };
    if !Path::new(path).is_absolute() {
        return Err(refuse("it is not absolute"));
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(|_| Code::Internal)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let unusable = |_| refuse("it can't be read");
    let file = file.map_err(unusable)?;
    let about = file.metadata().map_err(unusable)?;
    if !about.is_file() || about.mode() & 0o004 == 0 {
        return Err(refuse("it is no file that everybody may read"));
    }
    if about.len() > MAX_BYTES {
        return Err(refuse("it has more than 1 MiB"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|_| refuse("it is no UTF-8 text"))?;
    Ok(text)
}
