//! A text seen in another way, with the way back to where each byte came from.
//!
//! A view may hold a value that the original only hints at, so its bytes stand in a [`Room`], which is
//! zeroized; and a room is used again for the next view, since wiping costs as much as looking.

mod escapes;
mod reading;
mod thinning;

use std::ops::{Deref, DerefMut, Range};

use zeroize::optimization_barrier;

use self::thinning::Thinned;
pub(super) use self::{
    escapes::{Escape, Escaping, each_pair},
    reading::as_read,
    thinning::{goes_on, is_separator, is_string, is_x, remains, thinned, unseen, without_strings},
};

/// Where the bytes of a view stand. All of it is wiped when it goes, as a block: `Zeroizing` writes byte by byte, which for
/// a text takes as long as looking through it.
#[derive(Default)]
pub(super) struct Room(Vec<u8>);

/// A text derived from another.
pub(super) struct View<'a> {
    bytes: &'a [u8],
    way_back: WayBack<'a>,
    /// Where the text that it was made of begins in the one below.
    offset: usize,
    /// What that text is a part of, if it is itself a view.
    below: Option<&'a View<'a>>,
}

/// Where the bytes of a view came from.
enum WayBack<'a> {
    /// The same places in the text below.
    Same,
    /// Stretches, in order.
    Runs(Vec<Run>),
    /// A text with bytes left out.
    Thinned(Thinned<'a>),
}

/// Bytes that came from one stretch of the original.
#[derive(Clone, Copy)]
struct Run {
    /// Where they begin here.
    here: usize,
    /// Where they began there.
    there: usize,
    /// How many bytes of the original they stand for when these were decoded; 0 when they are the same.
    decoded: usize,
}

impl<'a> View<'a> {
    /// The text as it is.
    pub(super) fn whole(text: &'a [u8]) -> Self {
        Self::new(text, WayBack::Same)
    }

    /// A part of another view, as it is.
    pub(super) fn part(below: &'a View<'a>, part: Range<usize>) -> Self {
        Self::whole(&below.bytes[part.clone()]).over(below, part.start)
    }

    fn new(bytes: &'a [u8], way_back: WayBack<'a>) -> Self {
        Self { bytes, way_back, offset: 0, below: None }
    }

    /// This view of a part of `below` that begins at `offset`, as a view of what `below` is a view of.
    pub(super) fn over(self, below: &'a View<'a>, offset: usize) -> Self {
        Self { offset, below: Some(below), ..self }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of the original that a range of this stands for.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let range = match &self.way_back {
            WayBack::Same => range,
            WayBack::Runs(runs) => runs_back(runs, range),
            WayBack::Thinned(thinned) => {
                thinned.place_of(range.start)..thinned.place_of(range.end - 1) + 1
            }
        };
        let range = range.start + self.offset..range.end + self.offset;
        self.below.map_or(range.clone(), |below| below.original(range))
    }
}

fn runs_back(runs: &[Run], range: Range<usize>) -> Range<usize> {
    let run_at = |here: usize| {
        let after = runs.partition_point(|run| run.here <= here);
        runs[after.saturating_sub(1)]
    };
    let (start, last) = (run_at(range.start), run_at(range.end - 1));
    let from = match start.decoded {
        0 => start.there + (range.start - start.here),
        _ => start.there,
    };
    let to = match last.decoded {
        0 => last.there + (range.end - last.here),
        length => last.there + length,
    };
    from..to
}

impl Deref for Room {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // What earlier views have left behind the last one's end as well.
        self.0.clear();
        self.0.resize(self.0.capacity(), 0);
        // Nobody reads the zeros, so that without this they might not be written.
        optimization_barrier(self.0.as_slice());
    }
}

/// Makes room for so many bytes without ever moving any, which would leave a copy of them behind.
pub(super) fn make_room(room: &mut Room, length: usize) {
    if room.capacity() < length {
        *room = Room(Vec::with_capacity(length));
    }
}

/// As [`make_room`], with bytes in it, whatever they are.
pub(super) fn make_filled_room(room: &mut Room, length: usize) -> &mut [u8] {
    make_room(room, length);
    if room.len() < length {
        room.resize(length, 0);
    }
    &mut room[..length]
}

/// What stands in a view for something in the text: a byte, a character, nothing.
#[derive(Clone, Copy)]
pub(super) struct Symbol {
    bytes: [u8; 4],
    length: u8,
}

impl Symbol {
    const NOTHING: Self = Self { bytes: [0; 4], length: 0 };

    fn byte(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }

    /// In UTF-8.
    fn char(char: char) -> Self {
        let mut bytes = [0; 4];
        let length = char.encode_utf8(&mut bytes).len();
        Self { bytes, length: u8::try_from(length).expect("at most four") }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A view under construction, of a text with symbols in the place of stretches of it.
struct Replacing<'t, 'a> {
    text: &'t [u8],
    room: &'a mut Room,
    runs: Vec<Run>,
    /// How far the text is in the room.
    kept: usize,
}

impl<'t, 'a> Replacing<'t, 'a> {
    fn new(text: &'t [u8], room: &'a mut Room) -> Self {
        make_room(room, text.len());
        room.clear();
        Self { text, room, runs: Vec::new(), kept: 0 }
    }

    /// Puts a symbol in the place of so many bytes, behind those before; it has no more than these.
    fn replace(&mut self, at: usize, length: usize, symbol: Symbol) {
        self.keep(at);
        let here = self.room.len();
        self.room.extend_from_slice(symbol.bytes());
        if self.room.len() > here {
            self.runs.push(Run { here, there: at, decoded: length });
        }
        self.kept = at + length;
    }

    fn keep(&mut self, end: usize) {
        if self.kept < end {
            self.runs.push(Run { here: self.room.len(), there: self.kept, decoded: 0 });
            self.room.extend_from_slice(&self.text[self.kept..end]);
        }
    }

    /// Nothing where nothing was replaced.
    fn finish(mut self) -> Option<View<'a>> {
        if self.kept == 0 {
            return None;
        }
        self.keep(self.text.len());
        Some(View::new(self.room.as_slice(), WayBack::Runs(self.runs)))
    }
}
