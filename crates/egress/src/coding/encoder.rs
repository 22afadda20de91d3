//! Puts a body together again in the coding that it came in.

use std::io::Write;

use flate2::Compression;

use super::CodingError;

/// Fast ones: the bytes cross a network once.
const ZSTD_LEVEL: i32 = 1;
const BROTLI_QUALITY: u32 = 3;
const BROTLI_WINDOW_BITS: u32 = 18;

/// Takes plain bytes, gives coded ones.
pub(crate) struct Encoder(Encoding);

enum Encoding {
    Bare(flate2::write::DeflateEncoder<Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zlib(flate2::write::ZlibEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// What an encoder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Deflate without a frame.
    Bare,
    Brotli,
    Gzip,
    Zlib,
    Zstd,
}

impl Encoder {
    pub(super) fn new(kind: Kind) -> Result<Self, CodingError> {
        let (out, fast) = (Vec::new(), Compression::fast());
        Ok(Self(match kind {
            Kind::Bare => Encoding::Bare(flate2::write::DeflateEncoder::new(out, fast)),
            Kind::Brotli => Encoding::Brotli(Box::new(brotli::CompressorWriter::new(
                out,
                4096,
                BROTLI_QUALITY,
                BROTLI_WINDOW_BITS,
            ))),
            Kind::Gzip => Encoding::Gzip(flate2::write::GzEncoder::new(out, fast)),
            Kind::Zlib => Encoding::Zlib(flate2::write::ZlibEncoder::new(out, fast)),
            Kind::Zstd => Encoding::Zstd(
                zstd::stream::write::Encoder::new(out, ZSTD_LEVEL).map_err(CodingError::Encode)?,
            ),
        }))
    }

    /// Takes `plain`; appends to `coded` what is ready.
    pub(crate) fn write(&mut self, plain: &[u8], coded: &mut Vec<u8>) -> Result<(), CodingError> {
        let writer = self.writer();
        writer.write_all(plain).map_err(CodingError::Encode)?;
        self.drain(coded);
        Ok(())
    }

    /// Appends everything that was taken so far in a form that the other side can decode now.
    pub(crate) fn flush(&mut self, coded: &mut Vec<u8>) -> Result<(), CodingError> {
        let writer = self.writer();
        writer.flush().map_err(CodingError::Encode)?;
        self.drain(coded);
        Ok(())
    }

    /// Appends the end of the stream.
    pub(crate) fn finish(self, coded: &mut Vec<u8>) -> Result<(), CodingError> {
        let rest = match self.0 {
            Encoding::Bare(encoder) => encoder.finish(),
            Encoding::Brotli(encoder) => Ok(encoder.into_inner()),
            Encoding::Gzip(encoder) => encoder.finish(),
            Encoding::Zlib(encoder) => encoder.finish(),
            Encoding::Zstd(encoder) => encoder.finish(),
        };
        coded.extend_from_slice(&rest.map_err(CodingError::Encode)?);
        Ok(())
    }

    fn drain(&mut self, coded: &mut Vec<u8>) {
        let ready = match &mut self.0 {
            Encoding::Bare(encoder) => encoder.get_mut(),
            Encoding::Brotli(encoder) => encoder.get_mut(),
            Encoding::Gzip(encoder) => encoder.get_mut(),
            Encoding::Zlib(encoder) => encoder.get_mut(),
            Encoding::Zstd(encoder) => encoder.get_mut(),
        };
        coded.append(ready);
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Encoding::Bare(encoder) => encoder,
            Encoding::Brotli(encoder) => encoder.as_mut(),
            Encoding::Gzip(encoder) => encoder,
            Encoding::Zlib(encoder) => encoder,
            Encoding::Zstd(encoder) => encoder,
        }
    }
}
