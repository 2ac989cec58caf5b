// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes an archive in the format of POSIX tar (ustar), which every `tar` can unpack.

/// The size of a header, and the unit of all lengths in an archive, in bytes.
const BLOCK: usize = 512;

/// Creates an archive with these named files, dated `seconds` after 1970. A name must have at most 100 bytes, and a
/// file less than 8 GiB.
pub(super) fn tar(files: &[(String, Vec<u8>)], seconds: u64) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, contents) in files {
        archive.extend(header(name, contents.len() as u64, seconds));
        archive.extend(contents);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks end an archive.
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// The header of a regular file that everybody may read and its owner may write.
fn header(name: &str, bytes: u64, seconds: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, &format!("{seconds:011o}\0"));
    // The sum counts its own field as spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_a_header_and_whole_blocks_and_the_header_has_its_sum() {
        let archive = tar(&[("d/a".into(), vec![7; 513]), ("d/b".into(), Vec::new())], 8);
        assert_eq!(archive.len(), (1 + 2) * BLOCK + BLOCK + 2 * BLOCK);
        assert_eq!(&archive[..4], b"d/a\0");
        assert_eq!(&archive[124..148], b"00000001001\x0000000000010\0");
        let field = &archive[148..156];
        let others: u32 = archive[..BLOCK].iter().map(|&byte| u32::from(byte)).sum::<u32>()
            - field.iter().map(|&byte| u32::from(byte)).sum::<u32>();
        assert_eq!(field, format!("{:06o}\0 ", others + 8 * 32).as_bytes());
        assert_eq!(&archive[3 * BLOCK..3 * BLOCK + 4], b"d/b\0");
    }
}
