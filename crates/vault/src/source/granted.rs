//! The places that a program's variables name: where its data lie, and its keys.
//!
//! `[source.environment]` is where the operator says so, and nobody else knows: the agent's own environment has other
//! variables, or none. What a command can't do without is no such place, whatever a variable says.

use std::{
    env,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use super::supply::Setting;

/// Variables that name what is everybody's.
const EVERYBODYS: &[&str] = &["PATH", "PWD", "SHELL", "TMPDIR"];
/// Folders of programs, devices and roots of trust, and all that is below them.
const SYSTEM: &[&str] = &[
    "/Applications",
    "/System",
    "/bin",
    "/boot",
    "/dev",
    "/etc/ca-certificates",
    "/etc/pki",
    "/etc/ssl",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix",
    "/proc",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
];
/// Folders that are nobody's own, though what is below them may be.
const SHARED: &[&str] = &[
    "/Library", "/Users", "/etc", "/home", "/media", "/mnt", "/opt", "/private", "/root", "/run",
    "/srv", "/tmp", "/var", "/var/lib", "/var/tmp",
];

/// The table `environment` of a source's settings. The error is a fragment of a sentence.
pub(super) fn environment(settings: &Table) -> Result<Vec<(String, Setting)>, String> {
    let Some(granted) = settings.get("environment") else { return Ok(Vec::new()) };
    let granted = granted.as_table().ok_or("environment is no table")?;
    let entry = |(name, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| format!("{name} is not text"))?;
        Ok((name.clone(), Setting::parse(value)?))
    };
    granted.iter().map(entry).collect()
}

/// What these variables name that is there and the program's own. The folders of XDG are shared with other programs:
/// who knows a program's own below them names it.
pub(super) fn places(environment: &[(String, Setting)]) -> Vec<PathBuf> {
    places_but(environment, &needed())
}

fn places_but(environment: &[(String, Setting)], needed: &[PathBuf]) -> Vec<PathBuf> {
    environment
        .iter()
        .filter(|(name, _)| !EVERYBODYS.contains(&name.as_str()) && !name.starts_with("XDG_"))
        .filter_map(|(_, value)| value.written())
        .map(PathBuf::from)
        .filter(|place| place.is_absolute() && is_its_own(place, needed))
        .collect()
}

/// The home, the folder that the command starts in, and where its programs and its scratch files are.
fn needed() -> Vec<PathBuf> {
    let one = [env::home_dir(), env::current_dir().ok(), Some(env::temp_dir())];
    let path = env::var_os("PATH").unwrap_or_default();
    let all = one.into_iter().flatten().chain(env::split_paths(&path));
    all.filter_map(|place| place.canonicalize().ok()).collect()
}

/// Whether there is something that a jail can cover and still be one.
fn is_its_own(place: &Path, needed: &[PathBuf]) -> bool {
    let Ok(real) = place.canonicalize() else { return false };
    let is_systems = SYSTEM.iter().any(|folder| real.starts_with(folder));
    let is_shared = SHARED.iter().any(|folder| real == Path::new(folder));
    let holds_needed = needed.iter().any(|needed| needed.starts_with(&real));
    !is_systems && !is_shared && !holds_needed
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_place_is_the_programs_own_unless_a_command_needs_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["home/work", "home/.gnupg", "home/.config", "home/tools/bin", "keys"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("token"), "x").unwrap();
        symlink(at("home"), at("link")).unwrap();
        let needed = [at("home"), at("home/work"), at("home/tools/bin")];
        let own = |name: &str, place: &Path| {
            let environment =
                [(name.to_owned(), Setting::Text(place.to_str().unwrap().to_owned()))];
            places_but(&environment, &needed) == [place.to_owned()]
        };
        for place in ["home/.gnupg", "keys", "token"] {
            assert!(own("GNUPGHOME", &at(place)), "{place}");
        }
        for place in ["", "home", "home/work", "home/tools", "link", "nowhere"] {
            assert!(!own("GNUPGHOME", &at(place)), "{place}");
        }
        for place in ["/", "/etc", "/usr/bin", "/dev/null", "relative"] {
            assert!(!own("GNUPGHOME", Path::new(place)), "{place}");
        }
        assert!(!own("PATH", &at("keys")) && !own("XDG_CONFIG_HOME", &at("home/.config")));
    }
}
