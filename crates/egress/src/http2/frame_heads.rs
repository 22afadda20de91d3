//! Follows a stream of HTTP/2 frames by their heads (RFC 9113, section 4.1), whatever pieces they come in.

pub(super) const FRAME_HEAD: usize = 9;

/// Where in a frame a stream is.
#[derive(Default)]
pub(super) struct FrameHeads {
    /// Of the next frame's head.
    head: [u8; FRAME_HEAD],
    have: usize,
    /// What is left of the current frame's payload, or of what comes before the first frame.
    left: usize,
}

/// What some bytes were.
pub(super) enum Step {
    /// Of a payload.
    Payload,
    /// Of a head that goes on.
    PartOfHead,
    /// The end of this head.
    Head([u8; FRAME_HEAD]),
}

impl FrameHeads {
    /// For a stream that begins with so many bytes of something else.
    pub(super) fn after(length: usize) -> Self {
        Self { left: length, ..Self::default() }
    }

    /// Takes up the first of `bytes`; nothing where there are none.
    pub(super) fn step(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        if bytes.is_empty() {
            return None;
        }
        if self.left > 0 {
            self.left -= take(bytes, self.left).len();
            return Some(Step::Payload);
        }
        let taken = take(bytes, FRAME_HEAD - self.have);
        self.head[self.have..self.have + taken.len()].copy_from_slice(taken);
        self.have += taken.len();
        if self.have < FRAME_HEAD {
            return Some(Step::PartOfHead);
        }
        (self.have, self.left) = (0, payload_length(&self.head));
        Some(Step::Head(self.head))
    }

    /// Takes up all of `bytes`.
    pub(super) fn skip(&mut self, mut bytes: &[u8]) {
        while self.step(&mut bytes).is_some() {}
    }

    /// How much of the next frame's head has come.
    pub(super) fn of_head(&self) -> usize {
        self.have
    }

    /// How much of the current frame's payload is to come.
    pub(super) fn of_payload(&self) -> usize {
        self.left
    }
}

/// What a frame's head says of its payload.
pub(super) fn payload_length(head: &[u8]) -> usize {
    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])
}

fn take<'b>(bytes: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    taken
}
