//! Characters that a reader does not see: they leave no ink, or move and hide others.

/// Whether nobody sees this character, other than a white space or a control character.
///
/// Those that programs may leave away (Unicode's `Default_Ignorable_Code_Point`, directions and tags among them), and
/// those that are drawn as nothing though they count as letters or signs. Not the two selectors that make a sign an
/// emoji or a text.
pub fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
        // Joins marks.
        | '\u{34f}'
        | '\u{61c}'
        // Letters of Hangul without a shape.
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        // Selectors of Mongolian.
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        // Line ends, and directions.
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        // A cell of Braille without a dot.
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffc}'
        // A filler of Khitan, joiners of shorthand, and what music has for nothing.
        | '\u{16fe4}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}'
        // Tags, and more selectors.
        | '\u{e0000}'..='\u{e0fff}'
    )
}
