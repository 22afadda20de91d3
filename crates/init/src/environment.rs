//! What the command finds in its environment: placeholders, and where the CA that it must trust is.

use std::{fs, io, path::Path};

use crate::{Fault, log, settings::Settings};

/// A variable and its text.
pub(crate) type Variable = (String, String);

/// Puts the CA into the machine's trust stores, reads the placeholders, and writes both down for other
/// programs of this machine.
pub(crate) fn prepare(settings: &Settings) -> Result<Vec<Variable>, Fault> {
    let mut variables = Vec::new();
    if let Some(path) = &settings.ca {
        let pem = fs::read_to_string(path).map_err(Fault::step(path.display().to_string()))?;
        let stores = keyless_jail::trust_on_this_machine(&pem)
            .map_err(Fault::step("trusting the certificate"))?;
        log(format_args!("{} is trusted: {} system stores", path.display(), stores));
        let trust = keyless_jail::trust_environment().into_iter();
        variables.extend(trust.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    if let Some(path) = &settings.placeholders {
        let text = fs::read_to_string(path).map_err(Fault::step(path.display().to_string()))?;
        variables.extend(text.lines().filter_map(read_line));
    }
    write(&settings.environment, &variables)
        .map_err(Fault::step(settings.environment.display().to_string()))?;
    Ok(variables)
}

/// `NAME=value`; anything else is no variable.
fn read_line(line: &str) -> Option<Variable> {
    let (name, value) = line.split_once('=')?;
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name =
        !name.is_empty() && name.bytes().all(fine) && !name.as_bytes()[0].is_ascii_digit();
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

/// Lines that a shell, systemd's EnvironmentFile and Docker read alike: nothing in them needs quotes.
fn write(path: &Path, variables: &[Variable]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let lines = variables.iter().map(|(name, value)| format!("{name}={value}\n"));
    fs::write(path, lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_are_read() {
        let read = |line| read_line(line).map(|(name, value)| format!("{name} {value}"));
        assert_eq!(read("API_TOKEN=kloak_X=").as_deref(), Some("API_TOKEN kloak_X="));
        for line in ["", "# a comment", "=x", "1A=x", "A-B=x", "export A=x"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
