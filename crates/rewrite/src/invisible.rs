//! Characters that a reader does not see: they leave no ink, or move and hide others.

/// Unicode's `Default_Ignorable_Code_Point` (`DerivedCoreProperties` 16.0), and the directional marks: programs may leave
/// them away.
pub fn is_ignorable(character: char) -> bool {
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
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        // Joiners of shorthand, and what music has for nothing.
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        // Tags, and more selectors.
        | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether nobody sees this character, other than a white space or a control character: those that are ignorable, and
/// those that are drawn as nothing though they count as letters or signs. Not the two selectors that make a sign an
/// emoji or a text.
pub fn is_invisible(character: char) -> bool {
    match character {
        '\u{fe0e}' | '\u{fe0f}' => false,
        // Line ends, a cell of Braille without a dot, what annotates and what stands for objects, a filler of Khitan, and
        // a note's head without a shape.
        '\u{2028}'
        | '\u{2029}'
        | '\u{2800}'
        | '\u{fff9}'..='\u{fffc}'
        | '\u{16fe4}'
        | '\u{1d159}' => true,
        other => is_ignorable(other),
    }
}
