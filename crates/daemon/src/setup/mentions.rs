//! Where code, scripts and compose files name variables of the environment.

use std::collections::BTreeSet;

use serde_json::Value;
use zeroize::Zeroizing;

/// What stands before a variable's name in code, up to a quote that may follow.
const CALLS: &[&str] = &[
    "Bun.env.",
    "Deno.env.get(",
    "ENV.fetch(",
    "ENV[",
    "Environment.GetEnvironmentVariable(",
    "System.fetch_env!(",
    "System.fetch_env(",
    "System.get_env(",
    "System.getenv(",
    "env!(",
    "env(",
    "env::var(",
    "env::var_os(",
    "getenv(",
    "import.meta.env.",
    "os.Getenv(",
    "os.LookupEnv(",
    "os.environ.get(",
    "os.environ[",
    "process.env.",
    "process.env[",
    "$_ENV[",
    "secrets.",
];
/// Ends of names of files with code.
const CODE: &[&str] = &[
    "cjs", "cs", "ex", "exs", "go", "java", "js", "jsx", "kt", "mjs", "php", "py", "rb", "rs",
    "scala", "swift", "ts", "tsx", "vue",
];
/// Ends of names of files in which an object may be taken apart.
const SCRIPTS: &[&str] = &["cjs", "js", "jsx", "mjs", "ts", "tsx", "vue"];
/// Objects of theirs that hold the environment.
const ENVIRONMENTS: &[&str] = &["Bun.env", "import.meta.env", "process.env"];
/// Ends of names of files in which `${NAME}` is a variable.
const TEMPLATES: &[&str] = &["properties", "sh", "toml", "yaml", "yml"];

/// Whether files of this name are read.
pub(super) fn is_read(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    is_script(name)
        || CODE.contains(&end)
        || TEMPLATES.contains(&end)
        || name == "Dockerfile"
        || name == "package.json"
}

/// The variables that a file of this name mentions. Comments don't count.
pub(super) fn of(name: &str, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    if name == "package.json" {
        in_package_scripts(text, &mut found);
        return found;
    }
    if matches!(end, "yml" | "yaml") {
        in_compose(text, &mut found);
    }
    if SCRIPTS.contains(&end) {
        let code: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
        in_patterns(&code.join("\n"), &mut found);
    }
    for line in text.lines().filter(|line| !is_comment(line)) {
        if CODE.contains(&end) || matches!(end, "yml" | "yaml") {
            in_calls(line, &mut found);
        }
        if TEMPLATES.contains(&end) || is_script(name) {
            in_braces(line, &mut found);
        }
        if end == "sh" {
            in_dollars(line, &mut found);
        }
        if name == "Dockerfile" {
            in_dockerfile(line, &mut found);
        }
    }
    found
}

fn is_script(name: &str) -> bool {
    matches!(name, "Makefile" | "Procfile" | "justfile" | "Justfile")
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "#", "*", "/*", "--", "<!--"].iter().any(|mark| line.starts_with(mark))
}

fn in_calls(line: &str, found: &mut BTreeSet<String>) {
    for call in CALLS {
        for (at, _) in line.match_indices(call) {
            let rest = line[at + call.len()..].trim_start_matches(['"', '\'', '`', ' ']);
            found.extend(name_at(rest));
        }
    }
}

/// `{ NAME, OTHER: alias, THIRD = "default" } = process.env`, over several lines too.
fn in_patterns(code: &str, found: &mut BTreeSet<String>) {
    for environment in ENVIRONMENTS {
        for (at, _) in code.match_indices(environment) {
            let goes_on = code[at + environment.len()..].starts_with(['.', '[', '(', '_']);
            let before = code[..at].trim_end();
            let pattern = before.strip_suffix('=').map(str::trim_end);
            let pattern = pattern.and_then(|before| before.strip_suffix('}'));
            let names = pattern.filter(|_| !goes_on).and_then(|inner| inner.rsplit_once('{'));
            let Some((_, names)) = names else { continue };
            found.extend(names.split(',').filter_map(|name| name_at(name.trim_start())));
        }
    }
}

/// `${NAME}`, `${NAME:-default}`.
fn in_braces(line: &str, found: &mut BTreeSet<String>) {
    for (at, _) in line.match_indices("${") {
        found.extend(name_at(&line[at + 2..]));
    }
}

/// `$NAME`.
fn in_dollars(line: &str, found: &mut BTreeSet<String>) {
    for (at, _) in line.match_indices('$') {
        found.extend(name_at(&line[at + 1..]));
    }
}

fn in_dockerfile(line: &str, found: &mut BTreeSet<String>) {
    let rest = line.trim_start();
    for word in ["ENV ", "ARG "] {
        found.extend(rest.strip_prefix(word).and_then(name_at));
    }
    in_braces(line, found);
}

/// `$NAME`, `${NAME}`, `%NAME%` and `NAME=… command` in the scripts of `package.json`.
fn in_package_scripts(text: &str, found: &mut BTreeSet<String>) {
    let Ok(package) = serde_json::from_str::<Value>(text) else { return };
    let scripts = package.get("scripts").and_then(Value::as_object);
    for script in scripts.into_iter().flatten().filter_map(|(_, script)| script.as_str()) {
        in_braces(script, found);
        for word in script.split([' ', '"', '\'', ';', '&']) {
            let plain = word.strip_prefix(['$', '%']).and_then(name_at);
            let set = word
                .split_once('=')
                .and_then(|(name, _)| name_at(name).filter(|found| found == name));
            found.extend(plain.into_iter().chain(set));
        }
    }
}

/// The variables that a compose file gives values to, with these.
pub(super) fn literals(name: &str, text: &str) -> Vec<(String, Zeroizing<String>)> {
    let is_yaml = matches!(name.rsplit_once('.'), Some((_, "yml" | "yaml")));
    let document = is_yaml.then(|| serde_saphyr::from_str::<Value>(text).ok()).flatten();
    let mut found = Vec::new();
    let services = document.as_ref().and_then(|document| document.get("services")?.as_object());
    for service in services.into_iter().flatten().map(|(_, service)| service) {
        let pairs: Vec<(&str, &str)> = match service.get("environment") {
            Some(Value::Object(table)) => table
                .iter()
                .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
                .collect(),
            Some(Value::Array(list)) => {
                list.iter().filter_map(|line| line.as_str()?.split_once('=')).collect()
            }
            _ => Vec::new(),
        };
        let pairs = pairs.into_iter();
        found
            .extend(pairs.map(|(name, value)| (name.to_owned(), Zeroizing::new(value.to_owned()))));
    }
    found
}

/// The first name in a line that is written as those of variables are.
pub(super) fn first_name(line: &str) -> Option<String> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let mut names = words.filter(|word| word.contains('_') || word.len() > 3).filter_map(|word| {
        name_at(word).filter(|name| name == word && !name.contains(|c: char| c.is_ascii_digit()))
    });
    names.next()
}

/// `services.*.environment`, as a table or a list.
fn in_compose(text: &str, found: &mut BTreeSet<String>) {
    let Ok(document) = serde_saphyr::from_str::<Value>(text) else { return };
    let services = document.get("services").and_then(Value::as_object);
    for service in services.into_iter().flatten().map(|(_, service)| service) {
        match service.get("environment") {
            Some(Value::Object(table)) => {
                found.extend(table.keys().filter_map(|name| name_at(name)));
            }
            Some(Value::Array(list)) => {
                found.extend(list.iter().filter_map(|line| name_at(line.as_str()?)));
            }
            _ => {}
        }
    }
}

/// The name that a text begins with: capitals, as variables are written.
fn name_at(text: &str) -> Option<String> {
    let end = text.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    let name = &text[..end.unwrap_or(text.len())];
    let goes_on = text[name.len()..].starts_with(|c: char| c.is_ascii_lowercase());
    let is_name = name.len() > 1 && name.starts_with(|c: char| c.is_ascii_uppercase());
    (is_name && !goes_on).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_asking_is_seen() {
        let rows = [
            (
                "a.ts",
                "const k = process.env.A_KEY, l = process.env['B_KEY'], m = import.meta.env.C_KEY",
                "A_KEY B_KEY C_KEY",
            ),
            (
                "a.mjs",
                "const { A_KEY, B_KEY: b, C_KEY = 'x',\n  // D_KEY,\n  ...rest } = process.env;\nlet {E_KEY}=import.meta.env",
                "A_KEY B_KEY C_KEY E_KEY",
            ),
            ("a.js", "const { A_KEY } = process.env.B_KEY; const { C_KEY } = config", "B_KEY"),
            (
                "a.py",
                "os.environ[\"A_KEY\"]; os.getenv('B_KEY', 'x'); os.environ.get(\"C_KEY\")",
                "A_KEY B_KEY C_KEY",
            ),
            ("a.rs", "std::env::var(\"A_KEY\")", "A_KEY"),
            ("b.rs", "option_env!(\"A_KEY\"); env!(\"B_KEY\")", "A_KEY B_KEY"),
            ("b.php", "'key' => env('A_KEY', 'x')", "A_KEY"),
            ("b.exs", "System.get_env(\"A_KEY\"); System.fetch_env!(\"B_KEY\")", "A_KEY B_KEY"),
            ("b.sh", "curl -H \"key: $A_KEY\" $1 $lower", "A_KEY"),
            ("b.properties", "spring.datasource.password=${A_KEY:none}", "A_KEY"),
            ("a.go", "os.Getenv(\"A_KEY\")", "A_KEY"),
            ("a.rb", "ENV['A_KEY'] + ENV.fetch('B_KEY')", "A_KEY B_KEY"),
            ("a.php", "getenv('A_KEY') . $_ENV['B_KEY']", "A_KEY B_KEY"),
            ("a.sh", "curl ${A_KEY:?no key} ${lower}", "A_KEY"),
            ("a.py", "# os.getenv('A_KEY')", ""),
            ("a.ts", "process.env.camelCase; process.env.Apple", ""),
            ("Dockerfile", "ARG A_KEY=x\nENV B_KEY=${C_KEY}", "A_KEY B_KEY C_KEY"),
            (
                "package.json",
                r#"{"scripts": {"a": "A_KEY=x run $B_KEY ${C_KEY} %D_KEY%"}}"#,
                "A_KEY B_KEY C_KEY D_KEY",
            ),
            (
                "compose.yaml",
                "services:\n  a:\n    environment:\n      A_KEY: ${B_KEY}\n  b:\n    environment: [C_KEY=1, D_KEY]\n",
                "A_KEY B_KEY C_KEY D_KEY",
            ),
            ("ci.yml", "env:\n  X: ${{ secrets.A_KEY }}\n", "A_KEY"),
        ];
        for (file, text, expected) in rows {
            let found = of(file, text).into_iter().collect::<Vec<_>>().join(" ");
            assert_eq!(found, expected, "{file}: {text}");
        }
    }
}
