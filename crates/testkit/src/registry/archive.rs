//! The two archive formats of the indexes, just enough to write a handful of small files.
//!
//! Zip: stored entries (APPNOTE.TXT 6.3.9, sections 4.3.7, 4.3.12, 4.3.16). Tar: ustar (POSIX.1-1988).

use std::io::Write as _;

use flate2::{Compression, Crc, write::GzEncoder};

/// Makes a zip of names and contents, uncompressed.
pub(super) fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let offset = length32(archive.len());
        let common = zip_fields(name, content);
        archive.extend(0x0403_4b50_u32.to_le_bytes());
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(content);

        directory.extend(0x0201_4b50_u32.to_le_bytes());
        directory.extend(0x0314_u16.to_le_bytes()); // made by: Unix, version 2.0
        directory.extend(&common);
        directory.extend([0; 6]); // comment, disk, internal attributes
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(files.len()).expect("a handful of files").to_le_bytes();
    let offset = length32(archive.len()).to_le_bytes();
    let size = length32(directory.len()).to_le_bytes();
    archive.extend(&directory);
    archive.extend(0x0605_4b50_u32.to_le_bytes());
    archive.extend([0; 4]); // disks
    archive.extend([count, count].concat());
    archive.extend([size, offset].concat());
    archive.extend([0; 2]); // comment
    archive
}

/// The 26 bytes that a local header and a directory entry share.
fn zip_fields(name: &str, content: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(content);
    let size = length32(content.len()).to_le_bytes();
    let mut fields = Vec::new();
    fields.extend(20_u16.to_le_bytes()); // needs version 2.0
    fields.extend([0; 4]); // flags, stored
    fields.extend([0, 0, 0x21, 0]); // 1980-01-01 00:00
    fields.extend(crc.sum().to_le_bytes());
    fields.extend([size, size].concat());
    fields.extend(u16::try_from(name.len()).expect("a short name").to_le_bytes());
    fields.extend([0; 2]); // extra field
    fields
}

/// Makes a gzipped tar of names and contents.
pub(super) fn tar_gz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in files {
        archive.extend(tar_header(name, content.len()));
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&archive).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

fn tar_header(name: &str, size: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        "); // the checksum counts itself as blanks
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn length32(length: usize) -> u32 {
    u32::try_from(length).expect("archives of a few kilobytes")
}
