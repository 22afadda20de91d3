//! Options that take `none`: the setting is to have no value.

/// What such an option says of its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<T> {
    Said(T),
    None,
}

impl<T> Word<T> {
    /// The value, if it says one.
    pub(crate) fn said(&self) -> Option<&T> {
        match self {
            Self::Said(value) => Some(value),
            Self::None => None,
        }
    }
}

impl<T: Clone> Word<T> {
    /// Has `place` hold what was said of it; where nothing was, it stays.
    pub(crate) fn put(word: Option<&Self>, place: &mut Option<T>) {
        if let Some(word) = word {
            *place = word.said().cloned();
        }
    }
}

/// Reads `none`, or else what `read` does.
pub(super) fn or_none<T, E>(
    read: impl Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<Word<T>, E> + Clone + Send + Sync + 'static {
    move |word| if word == "none" { Ok(Word::None) } else { read(word).map(Word::Said) }
}
