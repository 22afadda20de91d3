//! A coded body on its way through: decoded, changed by the caller, and coded again as it was.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::{Coding, CodingError, MAX_WIDE, decoder::Decoder, encoder::Encoder};
use crate::room::{Place, Room};

/// Of the process, since its memory is.
static WIDE: LazyLock<Arc<Room>> = LazyLock::new(|| Room::of(MAX_WIDE));

/// A decoder and, from the first plain byte on, the encoder that undoes it.
pub(crate) struct Recoder {
    decoder: Decoder,
    encoder: Option<Encoder>,
    began: bool,
    unflushed: bool,
    _place: Option<Place>,
}

impl Recoder {
    pub(crate) fn new(coding: Coding) -> Result<Self, CodingError> {
        let place = || WIDE.enter().ok_or(CodingError::Crowded);
        let place = coding.is_wide().then(place).transpose()?;
        let decoder = Decoder::new(coding)?;
        Ok(Self { decoder, encoder: None, began: false, unflushed: false, _place: place })
    }

    /// As [`Decoder::step`].
    pub(crate) fn decode(
        &mut self,
        input: &mut Bytes,
        plain: &mut Vec<u8>,
    ) -> Result<bool, CodingError> {
        self.began |= !input.is_empty();
        self.decoder.step(input, plain)
    }

    /// Takes changed plain bytes, appends what is ready of their coded form.
    pub(crate) fn encode(&mut self, plain: &[u8], coded: &mut Vec<u8>) -> Result<(), CodingError> {
        if plain.is_empty() {
            return Ok(());
        }
        self.unflushed = true;
        self.encoder()?.write(plain, coded)
    }

    /// Appends everything that was taken, for a reader who waits for it.
    pub(crate) fn flush(&mut self, coded: &mut Vec<u8>) -> Result<(), CodingError> {
        if core::mem::take(&mut self.unflushed) {
            self.encoder()?.flush(coded)?;
        }
        Ok(())
    }

    /// Says whether the coded input may end here.
    pub(crate) fn check_end(&self) -> Result<(), CodingError> {
        self.decoder.finish()
    }

    /// Appends the end. A body that was cut off stays one: it is an error, never a complete stream.
    pub(crate) fn finish(&mut self, coded: &mut Vec<u8>) -> Result<(), CodingError> {
        self.check_end()?;
        if !self.began {
            return Ok(());
        }
        self.encoder()?;
        match self.encoder.take() {
            Some(encoder) => encoder.finish(coded),
            None => Ok(()),
        }
    }

    fn encoder(&mut self) -> Result<&mut Encoder, CodingError> {
        if self.encoder.is_none() {
            self.encoder = Some(self.decoder.encoder()?);
        }
        Ok(self.encoder.as_mut().expect("made just above"))
    }
}
