//! The head of one frame (RFC 6455, section 5.2).

use super::Masking;

/// The opcode of a fragment that goes on.
pub(super) const CONTINUATION: u8 = 0;
/// The opcode of a Close.
pub(super) const CLOSE: u8 = 8;
/// The longest payload of a control frame.
pub(super) const MAX_CONTROL: u64 = 125;

/// The head of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) fin: bool,
    pub(super) opcode: u8,
    pub(super) mask: Option<[u8; 4]>,
    pub(super) length: u64,
}

impl FrameHead {
    /// Reads a head from the beginning of `bytes`, with its own length; `None` while it is not
    /// complete.
    pub(super) fn parse(
        bytes: &[u8],
        masking: Masking,
    ) -> Result<Option<(Self, usize)>, &'static str> {
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        let masked = second & 0x80 != 0;
        if first & 0x70 != 0 {
            return Err("a frame of an extension that was not negotiated");
        }
        if masked != (masking == Masking::FromClient) {
            return Err("a frame whose mask is not its side's");
        }
        let (length, rest) = match second & 0x7f {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            short => (u64::from(short), rest),
        };
        let (mask, rest) = match (masked, rest.split_first_chunk()) {
            (false, _) => (None, rest),
            (true, Some((mask, rest))) => (Some(*mask), rest),
            (true, None) => return Ok(None),
        };
        let head = Self { fin: first & 0x80 != 0, opcode: first & 0x0f, mask, length };
        head.check()?;
        Ok(Some((head, bytes.len() - rest.len())))
    }

    fn check(self) -> Result<(), &'static str> {
        match self.opcode {
            0..=2 if self.length >> 63 == 0 => Ok(()),
            0..=2 => Err("a frame of an impossible length"),
            8..=10 if self.fin && self.length <= MAX_CONTROL => Ok(()),
            8..=10 => Err("a control frame that is long or in pieces"),
            _ => Err("a frame of an unknown kind"),
        }
    }

    pub(super) fn is_control(self) -> bool {
        self.opcode >= CLOSE
    }

    /// Appends the head in its shortest form.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let masked = if self.mask.is_some() { 0x80 } else { 0 };
        out.push(if self.fin { 0x80 } else { 0 } | self.opcode);
        match (u8::try_from(self.length), u16::try_from(self.length)) {
            (Ok(short @ 0..=125), _) => out.push(masked | short),
            (_, Ok(middle)) => {
                out.push(masked | 0x7e);
                out.extend(middle.to_be_bytes());
            }
            _ => {
                out.push(masked | 127);
                out.extend(self.length.to_be_bytes());
            }
        }
        out.extend(self.mask.into_iter().flatten());
    }
}

/// Masks, or unmasks, what stands `offset` bytes into a payload.
pub(super) fn apply_mask(mask: Option<[u8; 4]>, offset: u64, payload: &mut [u8]) {
    let Some(mut mask) = mask else { return };
    mask.rotate_left(usize::try_from(offset % 4).expect("less than four"));
    for chunk in payload.chunks_mut(4) {
        chunk.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Option<(FrameHead, usize)>, &'static str> {
        FrameHead::parse(bytes, Masking::FromServer)
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        for (bytes, words) in [
            (&[0xc1, 0][..], "extension"),
            (&[0x81, 0x80, 1, 2, 3, 4], "mask"),
            (&[0x83, 0], "unknown kind"),
            (&[0x8b, 0], "unknown kind"),
            (&[0x09, 0], "in pieces"),
            (&[0x89, 126, 0, 126], "long"),
            (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], "impossible"),
        ] {
            let refused = parse(bytes).unwrap_err();
            assert!(refused.contains(words), "{bytes:?}: {refused}");
        }
        assert!(FrameHead::parse(&[0x81, 0], Masking::FromClient).is_err());
    }

    proptest! {
        #[test]
        fn heads_survive_their_writing(
            fin: bool, opcode in 0_u8..3, mask: Option<[u8; 4]>, length in 0_u64..1 << 40, shift in 0_u32..40,
        ) {
            let head = FrameHead { fin, opcode, mask, length: length >> shift };
            let masking = if mask.is_some() { Masking::FromClient } else { Masking::FromServer };
            let mut bytes = Vec::new();
            head.write(&mut bytes);
            for cut in 0..bytes.len() {
                prop_assert_eq!(FrameHead::parse(&bytes[..cut], masking), Ok(None));
            }
            prop_assert_eq!(FrameHead::parse(&bytes, masking), Ok(Some((head, bytes.len()))));
        }

        #[test]
        fn masking_does_not_depend_on_pieces(
            mask: [u8; 4], payload in proptest::collection::vec(any::<u8>(), 0..40), cut in 0_usize..40,
        ) {
            let mut whole = payload.clone();
            apply_mask(Some(mask), 0, &mut whole);
            let cut = cut.min(payload.len());
            let mut pieces = payload.clone();
            apply_mask(Some(mask), 0, &mut pieces[..cut]);
            apply_mask(Some(mask), cut as u64, &mut pieces[cut..]);
            prop_assert_eq!(whole, pieces);
        }
    }
}
