//! Pipes that a command line names, as a shell's `<(…)` does: `diff /dev/fd/63 /dev/fd/62`.
//!
//! They are the caller's wish like its standard input. Every other descriptor stays outside: what somebody left open
//! by mistake is nothing that the command should find, and a folder's would lead past all that is hidden.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::RawFd,
        unix::{ffi::OsStrExt, fs::FileTypeExt},
    },
};

const NAMES: [&[u8]; 2] = [b"/dev/fd/", b"/proc/self/fd/"];

/// The descriptors behind the standard three that `command` names and that are pipes in this process.
pub(crate) fn named_in(command: &[OsString]) -> Vec<RawFd> {
    let arguments = command.iter().map(|argument| argument.as_bytes());
    let mut numbers: Vec<RawFd> = arguments.flat_map(numbers_in).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|number| *number > libc::STDERR_FILENO && is_pipe(*number));
    numbers
}

/// What stands behind each of [`NAMES`], anywhere in an argument (`--data=@/dev/fd/63`).
fn numbers_in(argument: &[u8]) -> Vec<RawFd> {
    let behind = |name: &'static [u8]| {
        let starts = 0..argument.len();
        starts.filter_map(move |start| number(argument[start..].strip_prefix(name)?))
    };
    NAMES.into_iter().flat_map(behind).collect()
}

fn number(text: &[u8]) -> Option<RawFd> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

fn is_pipe(number: RawFd) -> bool {
    let open = fs::metadata(format!("/proc/self/fd/{number}"));
    open.is_ok_and(|open| open.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn only_pipes_that_are_named_are_passed_on() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let folder = fs::File::open("/").expect("the root");
        let named = |text: String| named_in(&["cat".into(), text.into()]);
        let (reader, writer, folder) = (reader.as_raw_fd(), writer.as_raw_fd(), folder.as_raw_fd());
        assert_eq!(named(format!("/dev/fd/{reader}")), [reader]);
        assert_eq!(named(format!("--data=@/proc/self/fd/{writer},/dev/fd/{reader}")).len(), 2);
        for text in [
            format!("{reader} fd/{reader} /dev/fd/"),
            format!("/dev/fd/{folder} /dev/fd/0 /dev/fd/99999999999"),
        ] {
            assert!(named(text.clone()).is_empty(), "{text}");
        }
    }
}
