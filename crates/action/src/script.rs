//! Turns a command with placeholders into a script with variables of the shell.
//!
//! The shell's own quoting decides how a variable is written where the placeholder stood, so that the
//! value arrives as it is: never split, never globbed, never part of the program's text. Variables are
//! taken back from the environment in the first line, so no program that the shell starts inherits them.
//! Source: reference/nl.md, 13.1.

use std::fmt::Write as _;

use keyless_core::{
    Code, Error, Handle, SafeText, TemplatePart, parse_template,
    shell::{self, Context, Script},
};

/// A variable that holds one secret.
pub(crate) fn variable(number: usize) -> String {
    format!("NL_SECRET_{number}")
}

/// What a placeholder becomes.
pub(crate) enum Stand {
    /// The variable of this number.
    Variable(usize),
    /// This text, which has nothing special to a shell in it: a path.
    Path(String),
}

/// A command with placeholders, read once as a shell will.
pub(crate) struct Reading {
    parts: Vec<TemplatePart>,
    read: Script,
}

impl Reading {
    pub(crate) fn of(template: &str) -> Result<Self, Error> {
        let parts = parse_template(template).map_err(|error| unfit(&error.to_string()))?;
        let read = shell::lex(&outline(&parts)).map_err(|error| {
            let has_handle = parts.iter().any(|part| matches!(part, TemplatePart::Handle(_)));
            // No placeholder is to blame where there is none.
            let code = if has_handle { Code::PlaceholderInvalid } else { Code::Usage };
            let words = SafeText::words("the command can't be read as a shell would: ");
            Error::with(code, words.as_they_wrote(&error.to_string()))
        })?;
        Ok(Self { parts, read })
    }

    /// Its script; `stand` says what each of its handles becomes.
    pub(crate) fn script(
        &self,
        mut stand: impl FnMut(&Handle) -> Result<Stand, Error>,
    ) -> Result<String, Error> {
        let mut script = String::new();
        let mut at = 0;
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => {
                    script.push_str(text);
                    at += text.len();
                }
                TemplatePart::Handle(handle) => {
                    let context = self.read.context_at(at);
                    let written = if context == Context::Comment {
                        format!("{{nl:{handle}}}")
                    } else {
                        is_apart(handle, context, &script)?;
                        place(handle, context, &stand(handle)?)?
                    };
                    script.push_str(&written);
                    at += STAND_IN.len();
                }
            }
        }
        Ok(script)
    }

    /// How many placeholders it has.
    pub(crate) fn handles(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, TemplatePart::Handle(_))).count()
    }

    /// The handles that stand in the arguments of a program, which whoever may list processes reads there. What the
    /// shell does itself has none.
    pub(crate) fn in_arguments(&self) -> Vec<&Handle> {
        let is_own = |name: &str| OF_THE_SHELL.contains(&name);
        let commands = self.read.commands.iter();
        let programs = commands.filter(|command| !command.program().is_none_or(is_own));
        let words: Vec<_> = programs.flat_map(|command| &command.words).collect();
        let (mut at, mut handles) = (0, Vec::new());
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => at += text.len(),
                TemplatePart::Handle(handle) => {
                    if words.iter().any(|word| word.span.contains(&at)) {
                        handles.push(handle);
                    }
                    at += STAND_IN.len();
                }
            }
        }
        handles
    }
}

/// What every shell of ours does without starting anything, whatever it is given.
const OF_THE_SHELL: [&str; 14] = [
    ":", "[", "cd", "echo", "export", "false", "printf", "read", "readonly", "return", "set",
    "test", "true", "unset",
];

/// The first line of a script: takes its variables back from the environment.
pub(crate) fn prelude(variables: usize) -> String {
    let mut line = String::new();
    for number in 0..variables {
        let name = variable(number);
        // Writing to a String does not fail.
        let _ = write!(line, "_nl=${name}; unset {name}; {name}=$_nl; ");
    }
    if variables > 0 {
        line.push_str("unset _nl\n");
    }
    line
}

/// A word without any meaning, where a placeholder stands.
const STAND_IN: &str = "NLSECRET";

fn outline(parts: &[TemplatePart]) -> String {
    let text = |part: &TemplatePart| match part {
        TemplatePart::Handle(_) => STAND_IN.to_owned(),
        TemplatePart::Text(text) => text.clone(),
    };
    parts.iter().map(text).collect()
}

/// Whether what stands before a placeholder leaves it alone: a backslash would take the quote or the dollar sign that is
/// written there, and a dollar sign would begin another expansion.
fn is_apart(handle: &Handle, context: Context, before: &str) -> Result<(), Error> {
    // In these a backslash is like any other character.
    if matches!(context, Context::SingleQuoted | Context::QuotedHereDoc) {
        return Ok(());
    }
    let is_escape = |text: &str| {
        let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
        backslashes % 2 == 1
    };
    // A shell joins lines before it reads them.
    let mut before = before;
    while let Some(line) =
        before.strip_suffix("\\\n").filter(|_| is_escape(&before[..before.len() - 1]))
    {
        before = line;
    }
    if is_escape(before) {
        return Err(misplaced(handle, r"right after a backslash; write \\ for one"));
    }
    match before.strip_suffix('$') {
        Some(rest) if !is_escape(rest) => Err(misplaced(handle, "right after a dollar sign")),
        _ => Ok(()),
    }
}

fn place(handle: &Handle, context: Context, stand: &Stand) -> Result<String, Error> {
    let name = match stand {
        Stand::Path(path) => {
            return match context {
                Context::Unquoted
                | Context::DoubleQuoted
                | Context::SingleQuoted
                | Context::HereDoc => Ok(path.clone()),
                _ => Err(misplaced(handle, "there")),
            };
        }
        Stand::Variable(number) => variable(*number),
    };
    match context {
        Context::Unquoted => Ok(format!("\"${{{name}}}\"")),
        Context::DoubleQuoted | Context::HereDoc => Ok(format!("${{{name}}}")),
        Context::SingleQuoted => Ok(format!("'\"${{{name}}}\"'")),
        Context::Arithmetic => Err(misplaced(handle, "in arithmetic")),
        Context::Backquoted => Err(misplaced(handle, "in escaped backquotes; use $( )")),
        Context::Descriptor => Err(misplaced(handle, "as a descriptor")),
        Context::DollarSingle => Err(misplaced(handle, "in $'…'; use '…' or \"…\"")),
        Context::HereDocDelimiter => Err(misplaced(handle, "in the delimiter of a here-document")),
        Context::ParameterExpansion => Err(misplaced(handle, "in ${…}")),
        Context::QuotedHereDoc => {
            Err(misplaced(handle, "in a here-document with a quoted delimiter"))
        }
        Context::VariableName => Err(misplaced(handle, "in a variable's name")),
        Context::Comment => Err(misplaced(handle, "in a comment")),
    }
}

fn misplaced(handle: &Handle, place: &'static str) -> Error {
    let words = SafeText::words("a shell can't expand ").as_they_wrote(handle.as_written());
    Error::with(Code::PlaceholderInvalid, words.and(" ").and(place))
}

fn unfit(words: &str) -> Error {
    Error::with(Code::PlaceholderInvalid, SafeText::default().as_they_wrote(words))
}

#[cfg(test)]
mod tests;
