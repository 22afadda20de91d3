//! Pipes that a command line names, as a shell's `<(…)` does: `diff /dev/fd/63 /dev/fd/62`.
//!
//! They are the caller's wish like its standard input. Every other descriptor stays outside: what somebody left open
//! by mistake is nothing that the command should find, and a folder's would lead past all that is hidden.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::RawFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt},
        },
    },
};

use serde::{Deserialize, Serialize};

const NAMES: [&[u8]; 2] = [b"/dev/fd/", b"/proc/self/fd/"];

/// A pipe by the number that caller and command know it by, and the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pipe {
    number: RawFd,
    inode: u64,
}

/// The descriptors behind the standard three that `command` names and that are pipes in this process.
pub(crate) fn named_in(command: &[OsString]) -> Vec<Pipe> {
    let arguments = command.iter().map(|argument| argument.as_bytes());
    let mut numbers: Vec<RawFd> = arguments.flat_map(numbers_in).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|number| *number > libc::STDERR_FILENO);
    numbers.into_iter().filter_map(pipe).collect()
}

/// Those that are the same pipes here: a number may stand for something of the jail's own in another process.
pub(crate) fn here(pipes: &[Pipe]) -> Vec<RawFd> {
    let same = |one: &&Pipe| pipe(one.number) == Some(**one);
    pipes.iter().filter(same).map(|pipe| pipe.number).collect()
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

fn pipe(number: RawFd) -> Option<Pipe> {
    let open = fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
    open.file_type().is_fifo().then(|| Pipe { number, inode: open.ino() })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn only_pipes_that_are_named_are_passed_on() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let folder = fs::File::open("/").expect("the root");
        let named = |text: String| {
            let pipes = named_in(&["cat".into(), text.into()]);
            pipes.into_iter().map(|pipe| pipe.number).collect::<Vec<_>>()
        };
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

    #[test]
    fn a_number_that_stands_for_another_is_not_passed_on() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let number = reader.as_raw_fd();
        let named = named_in(&[format!("/dev/fd/{number}").into()]);
        assert_eq!(here(&named), [number]);
        let other = Pipe { number, inode: named[0].inode + 1 };
        assert!(here(&[other]).is_empty());
    }
}
