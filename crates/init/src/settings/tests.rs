use super::*;

fn gather(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
    Settings::gather(&arguments, |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guest.conf");
    fs::write(&file, "# a guest\nports = 1 2\nway-out = vsock:2:3\non-exit = halt\n").unwrap();
    let file = file.to_str().unwrap();
    let variables = [("EGRESS_PORTS", "3,4"), ("KEYLESS_ON_EXIT", "poweroff")];
    let flags = ["--config", file, "--ports=5", "--ca", "/ca.pem", "--", "sh", "--ports"];
    let settings = gather(&flags, &variables).unwrap();
    assert_eq!(settings.ports, [5]);
    assert_eq!(settings.on_exit, OnExit::PowerOff);
    assert_eq!(settings.way_out.to_string(), "vsock:2:3");
    assert_eq!(settings.ca, Some("/ca.pem".into()));
    assert_eq!(settings.command, ["sh", "--ports"]);
    let settings = gather(&["--config", file, "sh", "--ports"], &variables).unwrap();
    assert_eq!((settings.ports, settings.command.len()), (vec![3, 4], 2));
}

#[test]
fn nothing_said_is_the_specifications_guest() {
    let settings = gather(&[], &[("EGRESS_PORTS", "")]).unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!(settings.way_out.to_string(), "vsock:2:1025");
    assert_eq!(settings.ports, [80, 443, 8000, 8080, 4318, 9418]);
}

#[test]
fn what_can_not_be_used_is_named() {
    let check = |arguments: &[&str], part: &str| {
        let error = gather(arguments, &[]).unwrap_err().to_string();
        assert!(error.contains(part), "{arguments:?} {error}");
    };
    check(&["--ports", "80,x"], "x is no port");
    check(&["--ports", "53"], "53 is DNS");
    check(&["--ports", ","], "no port");
    check(&["--ports"], "--ports needs a value");
    check(&["--secret", "x"], "--secret is not an option");
    check(&["--way-out", "tcp"], "way-out");
    check(&["--capture", "magic"], "not auto, redirect, tun or ports");
    check(&["--config", "/no/such/file"], "/no/such/file");
    for (file, part) in [
        ("ports", "line 1: not `name = value`"),
        ("\nport = 1", "line 2: port is not a setting"),
        ("ca=/a\nca=/b", "line 2: ca is said twice"),
    ] {
        assert!(read_file(file).unwrap_err().to_string().contains(part), "{file}");
    }
}
