//! Takes certificates out of PEM text.
//!
//! Only what a bundle needs: blocks marked CERTIFICATE, as DER. Anything else in the file is skipped,
//! a block that is not base64 too: one odd root must not cost the others.

use data_encoding::BASE64;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The certificates of a bundle, in order.
pub(crate) fn certificates(text: &str) -> Vec<Vec<u8>> {
    text.split(BEGIN)
        .skip(1)
        .filter_map(|rest| rest.split_once(END))
        .filter_map(|(body, _)| {
            let base64: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            BASE64.decode(&base64).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_other_text() {
        let text = format!(
            "# a comment\n{BEGIN}\nAQID\n{END}\nnoise\n{BEGIN}\r\n!!\r\n{END}\n{BEGIN}\nBA==\n{END}"
        );
        assert_eq!(certificates(&text), [vec![1, 2, 3], vec![4]]);
    }
}
