//! How long something is as JSON.

use std::io;

use serde::Serialize;

/// How many bytes something takes as JSON, which is not made for that; as many as there can be where it has no such form.
pub fn json_size(object: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, object) {
        Ok(()) => counted.0,
        Err(_) => usize::MAX,
    }
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
