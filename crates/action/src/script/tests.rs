//! What real shells make of the scripts.

use std::process::Command;

use super::*;

fn scripted(
    template: &str,
    stand: impl FnMut(&Handle) -> Result<Stand, Error>,
) -> Result<String, Error> {
    Reading::of(template)?.script(stand)
}

/// Everything that a careless substitution would trip over.
const VALUE: &str = "a  b *'\"$(id)`id`\\n;{{nl:x}}\nz";

fn run(shell: &str, template: &str) -> String {
    let mut numbers: Vec<String> = Vec::new();
    let text = scripted(template, |handle| {
        let name = handle.as_written().to_owned();
        let known = numbers.iter().position(|known| *known == name);
        Ok(Stand::Variable(known.unwrap_or_else(|| {
            numbers.push(name);
            numbers.len() - 1
        })))
    });
    let text = prelude(numbers.len()) + &text.unwrap();
    let mut command = Command::new(shell);
    command.arg("-c").arg(&text).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/usr");
    for (number, name) in numbers.iter().enumerate() {
        command.env(variable(number), format!("{VALUE}{name}"));
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn every_quoting_arrives_as_it_is() {
    let value = |name: &str| format!("{VALUE}{name}");
    for shell in ["/bin/sh", "/bin/bash"] {
        for (template, expected) in [
            ("printf %s {{nl:A}}", value("A")),
            ("printf %s \"{{nl:A}}\"", value("A")),
            ("printf %s 'x {{nl:A}} y'", format!("x {} y", value("A"))),
            ("printf %s {{nl:A}}0", format!("{}0", value("A"))),
            ("printf %s \"{{nl:A}}abc\"", format!("{}abc", value("A"))),
            (
                "printf '%s|' {{nl:A}} {{nl:B}} {{nl:A}}",
                format!("{}|{}|{}|", value("A"), value("B"), value("A")),
            ),
            ("cat <<E\n{{nl:A}}\nE\n", format!("{}\n", value("A"))),
            ("X={{nl:A}}; printf %s \"$X\"", value("A")),
            ("X_1={{nl:A}}; printf %s {{nl:A}}>/dev/stdout", value("A")),
            ("X={{nl:A}} sh -c 'printf %s \"$X\"'", value("A")),
            ("printf %s \"$(printf %s {{nl:A}})\"", value("A")),
            ("printf %s \"$(printf %s \"{{nl:A}}\" | cat)\"", value("A")),
            ("printf %s `printf x`{{nl:A}}", format!("x{}", value("A"))),
            ("printf ok # {{nl:A}} isn't used", "ok".to_owned()),
            ("printf %s '{{{{nl:A}}'", "{{nl:A}}".to_owned()),
            (r#"printf %s "DOMAIN\\{{nl:A}}""#, format!(r"DOMAIN\{}", value("A"))),
            (r"printf %s DOMAIN\\{{nl:A}}", format!(r"DOMAIN\{}", value("A"))),
            ("cat <<E\nDOMAIN\\\\{{nl:A}}\nE\n", format!("DOMAIN\\{}\n", value("A"))),
            (r"printf %s 'DOMAIN\{{nl:A}}'", format!(r"DOMAIN\{}", value("A"))),
            (r#"printf %s "\${{nl:A}}""#, format!("${}", value("A"))),
            (r#"printf %s "\\\${{nl:A}}""#, format!(r"\${}", value("A"))),
            (r"printf %s '\\${{nl:A}}'", format!(r"\\${}", value("A"))),
            ("printf %s \"x\\\n{{nl:A}}\"", format!("x{}", value("A"))),
            ("f() { printf %s \"$1\"; }; f {{nl:A}}", value("A")),
            ("printf %s \"${X:-$(printf %s {{nl:A}})}\"", value("A")),
            ("printf %s \"${X:-$(printf %s \"{{nl:A}}\")}\"", value("A")),
            ("case {{nl:A}} in *) printf %s {{nl:A}};; esac", value("A")),
        ] {
            assert_eq!(run(shell, template), expected, "{shell}: {template}");
        }
    }
}

#[test]
fn programs_do_not_inherit_the_variables() {
    for shell in ["/bin/sh", "/bin/bash"] {
        assert_eq!(run(shell, ": {{nl:A}}; env | grep -c NL_SECRET"), "0\n", "{shell}");
        assert_eq!(run(shell, ": {{nl:A}}\nsh -c 'echo $NL_SECRET_0'"), "\n", "{shell}");
    }
}

#[test]
fn where_a_shell_would_not_expand_is_refused() {
    for template in [
        "printf %s $'{{nl:A}}'",
        "cat <<'E'\n{{nl:A}}\nE\n",
        "echo $(( {{nl:A}} + 1 ))",
        "echo ${X:-{{nl:A}}}",
        "echo ${X:-\"{{nl:A}}\"}",
        "echo ${X:-'{{nl:A}}'}",
        "echo \"${X:-\"{{nl:A}}\"}\"",
        "echo \"${X:-'{{nl:A}}'}\"",
        "echo \"${X:-${Y:+\"{{nl:A}}\"}}\"",
        "echo \"${X#\"{{nl:A}}\"}\"",
        "cat <<E\n${X:-\"{{nl:A}}\"}\nE\n",
        "echo $(( ${X:-\"{{nl:A}}\"} ))",
        "echo ${{nl:A}}",
        "{{nl:A}}=v; echo",
        "FOO_{{nl:A}}=1 env",
        "a; {{nl:A}}X+=1",
        "a[{{nl:A}}]=1",
        "a=([{{nl:A}}]=1)",
        "for {{nl:A}} in b; do c; done",
        "exec {{nl:A}}>file",
        "exec {{nl:A}}<&0",
        "echo a >&{{nl:A}}",
        "cat <&{{nl:A}}-",
        r#"echo "${{nl:A}}""#,
        r#"echo "\\${{nl:A}}""#,
        "echo \"$\\\n{{nl:A}}\"",
        r"echo \{{nl:A}}",
        r#"echo "DOMAIN\{{nl:A}}""#,
        r#"echo "DOMAIN\\\{{nl:A}}""#,
        "cat <<E\nDOMAIN\\{{nl:A}}\nE\n",
        // To whoever reads it as it was written, the second line is inside the quotes.
        "echo \\{{nl:A}} \"\nenv\n\"",
        "echo \"unclosed {{nl:A}}",
        "echo {{nl:A",
    ] {
        let refused = scripted(template, |_| Ok(Stand::Variable(0))).unwrap_err();
        assert_eq!(refused.code(), Code::PlaceholderInvalid, "{template}");
    }
}

#[test]
fn a_quote_that_never_ends_is_told_as_that() {
    let refused = scripted("echo \"abc", |_| Ok(Stand::Variable(0))).unwrap_err();
    assert_eq!(refused.code(), Code::Usage);
    assert!(refused.message().contains("a quote has no end"), "{}", refused.message());
}

#[test]
fn a_backslash_is_refused_with_the_way_out() {
    let refused = scripted(r#"echo "DOMAIN\{{nl:A}}""#, |_| Ok(Stand::Variable(0))).unwrap_err();
    let words = refused.detail().as_str();
    assert_eq!(words, r"a shell can't expand A right after a backslash; write \\ for one");
}

#[test]
fn a_name_a_descriptor_and_an_expansion_are_refused_with_the_reason() {
    for (template, reason) in [
        ("FOO_{{nl:A}}=1 env", "in a variable's name"),
        ("exec {{nl:A}}>f", "as a descriptor"),
        ("echo \"${X:-\"{{nl:A}}\"}\"", "in ${…}"),
    ] {
        let refused = scripted(template, |_| Ok(Stand::Variable(0))).unwrap_err();
        assert_eq!(refused.detail().as_str(), format!("a shell can't expand A {reason}"));
    }
}
