//! Claude Code's settings files: the hook in them, put in and taken out. All else in the file, its order and its comments
//! stay as the person has them.

use std::{fs, io, path::Path};

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstObject, CstObjectProp, CstRootNode},
    json,
};
use keyless_core::{
    Code, Error, SafeText,
    shell::{self, SimpleCommand},
};
use keyless_vault::read_settings_text;

use super::{OR_BLOCK, quoted};
use crate::{
    path_unusable,
    whole_file::{rewrite_whole, write_whole},
};

const HOOKS: &str = "hooks";
const BEFORE_TOOLS: &str = "PreToolUse";

/// Whether a settings file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// It has the hook now.
    Added,
    /// It had it already.
    Before,
    /// It had one that would let calls through when the program is not found, or ran another program.
    Renewed,
}

/// The command that Claude Code is told to run: by its own path, since the hook's shell may look elsewhere for programs.
pub fn hook_command(program: &Path) -> Result<String, Error> {
    let name = program.to_str().ok_or_else(|| {
        let words = SafeText::words("the path of keyless is no UTF-8, which settings have to be");
        Error::with(Code::PathUnusable, words)
    })?;
    Ok(format!("{} guard hook {OR_BLOCK}", quoted(name)))
}

/// Puts the hook into a settings file, beside what is there. `hook` is [`hook_command`]'s. [`Code::FileInvalid`] of what is
/// no settings file, and then nothing is changed.
pub fn install(settings: &Path, hook: &str) -> Result<Installed, Error> {
    let root = read(settings)?.unwrap_or_else(|| parse("{}").expect("it is an object"));
    let before_tools =
        before_tools(&root).map_err(|why| invalid(settings, why))?.unwrap_or_else(|| {
            root.object_value_or_set().object_value_or_set(HOOKS).array_value_or_set(BEFORE_TOOLS)
        });
    let installed = match renew(&before_tools, hook) {
        Some(Installed::Before) => return Ok(Installed::Before),
        Some(renewed) => renewed,
        None => {
            before_tools.ensure_multiline();
            before_tools.append(json!({
                "matcher": "*",
                "hooks": [{ "type": "command", "command": hook }],
            }));
            Installed::Added
        }
    };
    write(settings, &root)?;
    Ok(installed)
}

/// Takes every hook that asks the guard out of a settings file, and what is empty without it; whether there was one.
pub fn uninstall(settings: &Path) -> Result<bool, Error> {
    let Some(root) = read(settings)? else { return Ok(false) };
    let Some(before_tools) = before_tools(&root).map_err(|why| invalid(settings, why))? else {
        return Ok(false);
    };
    let mut found = false;
    for entry in before_tools.elements() {
        let Some(hooks) = entry.as_object().and_then(|entry| entry.array_value(HOOKS)) else {
            continue;
        };
        let ours = hooks.elements().into_iter().filter_map(|hook| hook.as_object());
        let ours = ours.filter(|hook| command_of(hook).is_some_and(|it| asks_guard(&it).is_some()));
        let ours: Vec<CstObject> = ours.collect();
        found |= !ours.is_empty();
        if !ours.is_empty() && ours.len() == hooks.elements().len() {
            entry.remove();
        } else {
            ours.into_iter().for_each(CstObject::remove);
        }
    }
    if !found {
        return Ok(false);
    }
    if before_tools.elements().is_empty()
        && let Some(hooks) = root.object_value().and_then(|whole| whole.object_value(HOOKS))
    {
        hooks.get(BEFORE_TOOLS).into_iter().for_each(CstObjectProp::remove);
        if hooks.properties().is_empty() {
            let whole = root.object_value();
            whole.and_then(|whole| whole.get(HOOKS)).into_iter().for_each(CstObjectProp::remove);
        }
    }
    write(settings, &root)?;
    Ok(true)
}

/// [`Code::PathUnusable`] where a project's settings are a link out of the project: whoever wrote the project would say
/// which file of yours is written. In the home such links are a person's own.
pub fn check_inside(settings: &Path, project: &Path) -> Result<(), Error> {
    let place = || SafeText::default().as_they_wrote(&settings.to_string_lossy());
    let project = fs::canonicalize(project).map_err(|error| path_unusable(project, &error))?;
    let there = settings.ancestors().find_map(|above| fs::canonicalize(above).ok());
    match there.filter(|there| !there.starts_with(&project)) {
        None => Ok(()),
        Some(target) => {
            let words = place().and(" leads out of this project, to ");
            let words = words.as_they_wrote(&target.to_string_lossy());
            let words =
                words.and(": remove the link, or use `keyless guard install claude --user`");
            Err(Error::with(Code::PathUnusable, words))
        }
    }
}

fn invalid(settings: &Path, why: impl AsRef<str>) -> Error {
    let place = SafeText::default().as_they_wrote(&settings.to_string_lossy());
    Error::with(Code::FileInvalid, place.and(": ").as_they_wrote(why.as_ref()))
}

/// Nothing where there is no file.
fn read(settings: &Path) -> Result<Option<CstRootNode>, Error> {
    match read_settings_text(settings) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => parse(&text).map(Some).map_err(|why| invalid(settings, why)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(invalid(settings, "it is no UTF-8"))
        }
        Err(error) => Err(path_unusable(settings, &error)),
    }
}

/// JSON, with comments where somebody has some: they stay.
fn parse(text: &str) -> Result<CstRootNode, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let root = CstRootNode::parse(text, &options).map_err(|error| error.to_string())?;
    if root.object_value().is_none() { Err("it holds no object".to_owned()) } else { Ok(root) }
}

/// There are several members of one name, of which Claude Code takes the last.
struct Several;

/// The one member of this name, if there is one.
fn only(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, Several> {
    let is_named = |member: &CstObjectProp| {
        let member = member.name().and_then(|name| name.decoded_value().ok());
        member.as_deref() == Some(name)
    };
    let mut named = object.properties().into_iter().filter(is_named);
    let only = named.next();
    if named.next().is_some() { Err(Several) } else { Ok(only) }
}

/// The list of what runs before tools, if there is one; why what is there is none.
fn before_tools(root: &CstRootNode) -> Result<Option<CstArray>, &'static str> {
    let Some(whole) = root.object_value() else { return Ok(None) };
    let Some(hooks) = only(&whole, HOOKS).map_err(|Several| "`hooks` stands there twice")? else {
        return Ok(None);
    };
    let hooks = hooks.object_value().ok_or("`hooks` is no object")?;
    let before_tools =
        only(&hooks, BEFORE_TOOLS).map_err(|Several| "`PreToolUse` stands there twice")?;
    let Some(before_tools) = before_tools else { return Ok(None) };
    before_tools.array_value().map(Some).ok_or("`PreToolUse` is no list")
}

/// Sees to it that the hooks of ours that are there block when they can't run; nothing when there is none for all tools:
/// one for some tools alone lets the others by.
fn renew(before_tools: &CstArray, ours: &str) -> Option<Installed> {
    let mut found = None;
    let entries = before_tools.elements().into_iter().filter_map(|entry| entry.as_object());
    for entry in entries.filter(is_for_all_tools) {
        let hooks = entry.array_value(HOOKS).map(|hooks| hooks.elements()).unwrap_or_default();
        for hook in hooks.into_iter().filter_map(|hook| hook.as_object()) {
            let Some(command) = command_of(&hook) else { continue };
            let Some(renewed) = renewed(&command, ours) else { continue };
            if renewed == command {
                found = found.or(Some(Installed::Before));
            } else if let Some(held) = hook.get("command") {
                held.set_value(CstInputValue::String(renewed));
                found = Some(Installed::Renewed);
            }
        }
    }
    found
}

fn is_for_all_tools(entry: &CstObject) -> bool {
    if only(entry, HOOKS).is_err() {
        return false;
    }
    match (only(entry, "matcher"), text_of(entry, "matcher")) {
        (Ok(None), _) => true,
        (Ok(Some(_)), Some(text)) => ["", "*", ".*"].contains(&&*text),
        (Ok(Some(matcher)), None) => {
            matcher.value().and_then(|value| value.as_null_keyword()).is_some()
        }
        (Err(Several), _) => false,
    }
}

fn command_of(hook: &CstObject) -> Option<String> {
    text_of(hook, "type").filter(|kind| kind == "command")?;
    text_of(hook, "command")
}

fn text_of(object: &CstObject, name: &str) -> Option<String> {
    only(object, name).ok()??.value()?.as_string_lit()?.decoded_value().ok()
}

/// What a command has to be that asks the guard and nothing else; nothing when it is none. With words of a person's own,
/// such as variables, it keeps them.
fn renewed(command: &str, ours: &str) -> Option<String> {
    let Asking { is_plain, blocks } = asks_guard(command)?;
    Some(match (is_plain, blocks) {
        (true, _) => ours.to_owned(),
        (false, true) => command.to_owned(),
        (false, false) => format!("{} {OR_BLOCK}", command.trim_end()),
    })
}

/// How a command asks the guard.
struct Asking {
    is_plain: bool,
    /// What goes wrong with it blocks the call.
    blocks: bool,
}

fn asks_guard(command: &str) -> Option<Asking> {
    let script = shell::lex(command).ok()?;
    let (asks, rest) = script.commands.split_first()?;
    let is_plain = is_plainly_asking(asks)?;
    let blocks = match rest {
        [] => false,
        [_] if command.get(asks.span.end..).is_some_and(|rest| rest.trim() == OR_BLOCK) => true,
        _ => return None,
    };
    Some(Asking { is_plain, blocks })
}

/// Whether a command that runs `keyless guard hook` is only that: no variables, no `env`, no redirection.
fn is_plainly_asking(command: &SimpleCommand) -> Option<bool> {
    let is_before = |word: &str| word.contains('=') || ["env", "exec"].contains(&word);
    let before = command.words.iter().take_while(|word| is_before(&word.text)).count();
    let [program, guard, hook] = &command.words[before..] else { return None };
    let is_ours = program.text.rsplit('/').next() == Some("keyless")
        && (guard.text.as_str(), hook.text.as_str()) == ("guard", "hook");
    let is_plain = before == 0
        && command.assignments.is_empty()
        && command.redirections.is_empty()
        && !program.text.contains(['$', '`', '~']);
    is_ours.then_some(is_plain)
}

/// The person's own file: its mode stays, and a link into the files that they keep in git stays one.
fn write(file: &Path, root: &CstRootNode) -> Result<(), Error> {
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let written = if file.exists() {
        rewrite_whole(file, text.as_bytes())
    } else {
        let made = file.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| write_whole(file, text.as_bytes(), 0o600))
    };
    written.map_err(|error| path_unusable(file, &error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use serde_json::{Value, json};

    use super::*;

    const HOOK: &str = "'/opt/bin/keyless' guard hook || exit 2";

    #[test]
    fn settings_keep_what_they_have() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude/settings.json");
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Added);
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Before);
        fs::write(&file, r#"{"model": "x", "hooks": {"PreToolUse": [{"matcher": "Bash"}]}}"#)
            .unwrap();
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Added);
        let whole: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(whole["model"], "x");
        assert_eq!(whole["hooks"]["PreToolUse"].as_array().unwrap().len(), 2);
        assert_eq!(whole["hooks"]["PreToolUse"][1]["hooks"][0]["command"], HOOK);
    }

    #[test]
    fn only_a_hook_before_each_tool_is_there_already() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        let installed = |settings: Value| {
            fs::write(&file, settings.to_string()).unwrap();
            let installed = install(&file, HOOK).unwrap();
            assert_eq!(install(&file, HOOK).unwrap(), Installed::Before);
            let whole: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            let command = &whole["hooks"]["PreToolUse"][0]["hooks"][0]["command"];
            (installed, command.as_str().unwrap_or_default().to_owned())
        };
        let before = |entry: Value| json!({ "hooks": { "PreToolUse": [entry] } });
        let runs = |command: &str| json!([{ "type": "command", "command": command }]);
        for absent in [
            json!({ "permissions": { "allow": ["Bash(keyless guard hook:*)"] } }),
            json!({ "hooks": { "PostToolUse": [{ "matcher": "*", "hooks": runs(HOOK) }] } }),
            before(json!({ "matcher": "Bash", "hooks": runs(HOOK) })),
            before(json!({ "matcher": "*", "description": HOOK, "hooks": runs("true") })),
            before(json!({ "matcher": "*", "hooks": runs("echo keyless guard hook") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard check x") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard hook || true") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard hook; exit 0") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard hook 'x") })),
            before(json!({ "matcher": "*", "hooks": [{ "type": "prompt", "command": HOOK }] })),
        ] {
            assert_eq!(installed(absent.clone()).0, Installed::Added, "{absent}");
        }
        assert_eq!(
            installed(before(json!({ "hooks": runs(HOOK) }))),
            (Installed::Before, HOOK.to_owned())
        );
        for (old, new) in [
            ("keyless guard hook", HOOK),
            ("/usr/bin/keyless guard hook", HOOK),
            ("'/my own/keyless' guard hook || exit 2", HOOK),
            (
                "KEYLESS_HOME=/x \"$HOME/bin/keyless\" guard hook",
                "KEYLESS_HOME=/x \"$HOME/bin/keyless\" guard hook || exit 2",
            ),
            ("env A=1 keyless guard hook 2>>log", "env A=1 keyless guard hook 2>>log || exit 2"),
        ] {
            let there = before(json!({ "matcher": ".*", "hooks": runs(old) }));
            assert_eq!(installed(there), (Installed::Renewed, new.to_owned()), "{old}");
        }
    }

    #[test]
    fn what_else_is_there_stays_as_it_is_written() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        let before = "{\n  \"zeta\": 1, // mine\n  \"alpha\": [1,\n2]\n}\n";
        fs::write(&file, before).unwrap();
        install(&file, HOOK).unwrap();
        let installed = fs::read_to_string(&file).unwrap();
        assert!(
            installed.starts_with("{\n  \"zeta\": 1, // mine\n  \"alpha\": [1,\n2],\n"),
            "{installed}"
        );
        assert!(uninstall(&file).unwrap() && !uninstall(&file).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    }

    #[test]
    fn only_hooks_that_ask_the_guard_are_taken_out() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        let other = json!({ "type": "command", "command": "./check.sh" });
        let ours = json!({ "type": "command", "command": "A=1 keyless guard hook || exit 2" });
        let whole = json!({ "hooks": { "Stop": [], "PreToolUse": [
            { "matcher": "Bash", "hooks": [ours, other] }, { "hooks": [ours] }, { "hooks": [] },
        ] } });
        fs::write(&file, whole.to_string()).unwrap();
        assert!(uninstall(&file).unwrap());
        let left: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let expected = json!({ "hooks": { "Stop": [], "PreToolUse": [
            { "matcher": "Bash", "hooks": [other] }, { "hooks": [] },
        ] } });
        assert_eq!(left, expected);
        assert!(!uninstall(&home.path().join("none.json")).unwrap());
    }

    /// Of two members of one name the last one counts for who reads them.
    #[test]
    fn a_hook_that_is_said_twice_is_none() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        let hook = format!(r#"{{"type": "command", "command": "{HOOK}"}}"#);
        for entry in [
            format!(r#"{{"matcher": "*", "matcher": "Bash", "hooks": [{hook}]}}"#),
            format!(r#"{{"hooks": [{hook}], "hooks": []}}"#),
            format!(
                r#"{{"hooks": [{{"type": "command", "command": "{HOOK}", "command": "true"}}]}}"#
            ),
        ] {
            fs::write(&file, format!(r#"{{"hooks": {{"PreToolUse": [{entry}]}}}}"#)).unwrap();
            assert_eq!(install(&file, HOOK).unwrap(), Installed::Added, "{entry}");
        }
    }

    #[test]
    fn what_is_no_settings_file_is_left_and_said() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        for (text, says) in [
            ("{", "line 1"),
            ("[]", "no object"),
            (r#"{"hooks": []}"#, "`hooks` is no object"),
            (r#"{"hooks": {"PreToolUse": {}}}"#, "`PreToolUse` is no list"),
            (r#"{"hooks": {"PreToolUse": []}, "hooks": {}}"#, "`hooks` stands there twice"),
            (r#"{"hooks": {"PreToolUse": [], "PreToolUse": []}}"#, "stands there twice"),
        ] {
            fs::write(&file, text).unwrap();
            for error in [install(&file, HOOK).unwrap_err(), uninstall(&file).unwrap_err()] {
                assert_eq!(error.code(), Code::FileInvalid, "{text}");
                assert!(error.message().contains(says), "{}", error.message());
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        fs::write(&file, "").unwrap();
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Added);
    }

    #[test]
    fn settings_that_a_person_keeps_elsewhere_stay_there() {
        let home = tempfile::tempdir().unwrap();
        let (kept, link) = (home.path().join("dotfiles.json"), home.path().join("settings.json"));
        fs::write(&kept, "{}").unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&kept, &link).unwrap();
        assert_eq!(install(&link, HOOK).unwrap(), Installed::Added);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&kept).unwrap().contains(HOOK));
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o644);
    }
}
