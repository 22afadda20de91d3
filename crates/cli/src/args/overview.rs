//! The verbs in groups, for the help of `keyless` itself: one list of more than thirty is none.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Cli;

/// What belongs together, in the order in which people come to need it.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Start", &["demo", "init", "setup", "doctor", "status"]),
    ("The store", &["unlock", "lock", "secret", "source", "catalog", "vault"]),
    ("Work", &["run", "exec", "action", "egress"]),
    ("Answer", &["approve", "web", "ui"]),
    ("Agents", &["mcp", "agent", "session", "grant", "delegation", "guard", "serve", "schema"]),
    ("The log", &["audit"]),
    ("A project", &["hooks", "pack"]),
    ("A fleet", &["proxy", "forward", "placeholders"]),
    ("This machine", &["broker", "completions", "manual"]),
];

/// As many verbs of a verb are shown by an example.
const EXAMPLES: usize = 5;

/// The command line, with its verbs in groups, and examples for each.
pub(crate) fn grouped() -> Command {
    let command = with_examples(Cli::command());
    let template = template(&command);
    command.help_template(template)
}

/// A verb that has verbs of its own is shown by an example of each of the first ones.
fn with_examples(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command =
        names.iter().fold(command, |command, name| command.mut_subcommand(name, with_examples));
    let examples: Vec<String> =
        command.get_subcommands().filter_map(first_example).take(EXAMPLES).collect();
    if examples.is_empty() || command.get_after_help().is_some() {
        return command;
    }
    command.after_help(format!("Examples:\n{}", examples.join("\n")))
}

fn first_example(command: &Command) -> Option<String> {
    let help = command.get_after_help()?.to_string();
    let (_, examples) = help.split_once("Examples:\n")?;
    examples.lines().next().map(str::to_owned)
}

fn template(command: &Command) -> String {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{title}:\n");
        for verb in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<13} {about}", verb.get_name());
        }
    }
    text.push_str("\nEverywhere:\n");
    for option in command.get_arguments() {
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  --{:<11} {help}", option.get_long().unwrap_or_default());
    }
    text.push_str("  --help        Say more; keyless VERB --help about one verb\n");
    // What comes after it brings its own empty line.
    text + "  --version     Say which version this is{after-help}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_stands_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
        let help = super::grouped().render_help().to_string();
        let stands = |name: &&str| help.contains(&format!("\n  {name:<13} "));
        assert!(all.iter().all(stands) && help.contains("Exit statuses:"), "{help}");
        assert!(help.contains("version this is\n\nExamples:\n"), "{help}");
    }
}
