//! `keyless broker install`: a unit for the systemd of this user.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::vault::read_settings_text;
use keyless_daemon::{KEYLESS_HOME, keyless_home, path_unusable, write_whole};
use serde_json::json;

use crate::{args::BrokerInstallArgs, ui::Ui};

const UNIT: &str = "keyless-broker.service";
/// The line by which a unit of ours is known: another one is not written over.
const MARK: &str = "# Written by `keyless broker install`, which writes it anew.";

pub(super) fn run(ui: &Ui, args: &BrokerInstallArgs) -> Result<ExitCode, Error> {
    if !cfg!(target_os = "linux") {
        let words = "units are systemd's, which is Linux's; let launchd start keyless broker --keyfile FILE";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    let file = folder()?.join(UNIT);
    let fault = |error: io::Error| path_unusable(&file, &error);
    if read_settings_text(&file).is_ok_and(|text| !text.contains(MARK)) {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
        return Err(Error::with(
            Code::PathUnusable,
            place.and(" is somebody else's; move it away"),
        ));
    }
    let unit = unit(args)?;
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).map_err(fault)?;
    write_whole(&file, unit.as_bytes(), 0o644).map_err(fault)?;
    let words = format!(
        "Written: {}\nNext: systemctl --user daemon-reload; systemctl --user enable --now keyless-broker\n",
        file.display()
    );
    ui.answer("broker install", &json!({ "unit": file.to_string_lossy() }), &words);
    Ok(ExitCode::SUCCESS)
}

/// Where systemd looks for units of this user.
fn folder() -> Result<PathBuf, Error> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let config =
        config.ok_or_else(|| Error::with(Code::HomeUnset, SafeText::words("HOME is not set")))?;
    Ok(config.join("systemd/user"))
}

fn unit(args: &BrokerInstallArgs) -> Result<String, Error> {
    let (option, file) = match (&args.keyfile, &args.passphrase_file) {
        (Some(file), _) => ("--keyfile", file),
        (None, Some(file)) => ("--passphrase-file", file),
        (None, None) => return Err(Code::Usage.into()),
    };
    let file = fs::canonicalize(file).map_err(|error| path_unusable(file, &error))?;
    let program =
        env::current_exe().map_err(|error| path_unusable(Path::new("keyless"), &error))?;
    let home = keyless_home()?.map_or_else(String::new, |home| {
        let mut setting = OsString::from(KEYLESS_HOME);
        setting.extend(["=".as_ref(), home.as_os_str()]);
        format!("Environment={}\n", quoted(setting))
    });
    let (program, file) = (quoted(program), quoted(file));
    Ok(format!(
        "{MARK}\n\
         [Unit]\n\
         Description=Keyless broker\n\n\
         [Service]\n\
         Type=notify\n\
         # The broker is a child of the process that is started: nobody has opened its memory at the start.\n\
         NotifyAccess=all\n\
         {home}\
         ExecStart={program} broker {option} {file}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         # Neither bad arguments nor a wrong factor nor a lacking machine get better by trying again.\n\
         RestartPreventExitStatus=2 5 7\n\
         # Values are locked in memory and never dumped.\n\
         LimitMEMLOCK=64M\n\
         LimitCORE=0\n\
         # Commands run in jails of its own making: these need namespaces, and what is forbidden or masked\n\
         # here would be in there as well.\n\
         NoNewPrivileges=yes\n\
         RestrictRealtime=yes\n\
         SystemCallArchitectures=native\n\n\
         [Install]\n\
         WantedBy=default.target\n"
    ))
}

/// A word of a unit: quoted, and nothing in it expanded (systemd.service(5), systemd.unit(5)).
fn quoted(word: impl AsRef<OsStr>) -> String {
    let mut quoted = String::from("\"");
    for chunk in word.as_ref().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => quoted.push_str(r"\n"),
                '\\' | '"' => quoted.extend(['\\', character]),
                '%' | '$' => quoted.extend([character, character]),
                other => quoted.push(other),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(quoted, r"\x{byte:02x}");
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_unit_stay_as_they_are() {
        assert_eq!(quoted(r#"/a b/"c"\d%h$e"#), r#""/a b/\"c\"\\d%%h$$e""#);
        assert_eq!(quoted("a\nb é"), r#""a\nb é""#);
        assert_eq!(quoted(OsStr::from_bytes(b"caf\xe9/x")), r#""caf\xe9/x""#);
    }
}
