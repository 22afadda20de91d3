//! What the lexer makes of command lines, checked case by case.

use proptest::prelude::*;

use super::{Context, Dialect, MAX_DEPTH, Scope, ScopeKind, ShellErrorKind, lex, lex_as};

/// Each command as its words, joined by `␣`; assignments and redirections in braces.
fn commands(text: &str) -> Vec<String> {
    shown(&lex(text).unwrap())
}

fn shown(script: &super::Script) -> Vec<String> {
    let show = |command: &super::SimpleCommand| {
        let mut parts: Vec<String> =
            command.assignments.iter().map(|word| format!("{{{}}}", word.text)).collect();
        parts.extend(command.words.iter().map(|word| word.text.clone()));
        parts.extend(
            command.redirections.iter().map(|to| format!("{{{}{}}}", to.operator, to.target.text)),
        );
        parts.join("␣")
    };
    script.commands.iter().map(show).collect()
}

/// The context of the `@` in a text.
fn context(text: &str) -> Context {
    lex(text).unwrap().context_at(text.find('@').unwrap())
}

#[test]
fn operators_part_commands() {
    let cases: &[(&str, &[&str])] = &[
        ("a b; c & d && e || f | g", &["a␣b", "c", "d", "e", "f", "g"]),
        ("(env)", &["env"]),
        ("{ env; }", &["env"]),
        ("true\nenv # not this\nset", &["true", "env", "set"]),
        ("if a; then b; else c; fi", &["a", "b", "c"]),
        ("for f in x y; do cat $f; done", &["for␣f␣in␣x␣y", "cat␣$f"]),
        ("case $x in env|b) set;; (c) d;; esac; e", &["case␣$x␣in", "set", "d", "e"]),
        ("f() { env; }; function g { set; }", &["env", "set"]),
        ("((x = 1 < 2)); a", &["a"]),
        ("[[ a < b && -f c ]] && d", &["[[␣a␣b␣-f␣c␣]]", "d"]),
        ("! time a", &["a"]),
        ("a=(env set) b", &["{a=}␣b"]),
        ("A=1 B='2 3' env c", &["{A=1}␣{B=2 3}␣env␣c"]),
        ("a \\\n b", &["a␣b"]),
        ("case $x in\n# it's\na) b;; # it's\nesac", &["case␣$x␣in", "b"]),
        ("a=(b # it's\nc) d", &["{a=}␣d"]),
        ("'case' x in; a; (b)", &["case␣x␣in", "a", "b"]),
        ("A=1 case x in; a", &["{A=1}␣case␣x␣in", "a"]),
        (">b case x in; a", &["case␣x␣in␣{>b}", "a"]),
        ("case x 'in'; a", &["case␣x␣in", "a"]),
        ("'case' x\nin; a", &["case␣x", "in", "a"]),
    ];
    for (text, expected) in cases {
        assert_eq!(commands(text), *expected, "{text:?}");
    }
}

/// The parts of a text as they are written: `!` before those of another shell, `?` before those that may not run.
#[test]
fn variables_hold_for_parts_of_a_text() {
    let cases: &[(&str, &[&str])] = &[
        ("a; b", &[]),
        ("a=1⏎b", &[]),
        ("{ a; b; }", &[]),
        ("a; (b; c); d", &["!(b; c)"]),
        ("((a)); b", &[]),
        ("a $(b) `c` <(d)", &["!$(b)", "!`c`", "!<(d)"]),
        ("a | b", &["!a ", "?| b"]),
        ("a | b | c; d", &["!a ", "!| b ", "?| c"]),
        ("{ a; } | b", &["!{ a; } ", "?| b"]),
        ("a | while b; do c; done", &["!a ", "?| while b; do c; done", "? c; done"]),
        ("a & b", &["!a "]),
        ("a && b & c", &["!a && b ", "?&& b "]),
        ("a && b && c; d", &["?&& b && c"]),
        ("a &&⏎b; c", &["?&&⏎b"]),
        ("a || b || c", &["?|| b ", "?|| c"]),
        ("a && b || c", &["?&& b ", "?|| c"]),
        ("a && { b; c; }; d", &["?&& { b; c; }"]),
        (
            "if a; then b; elif c; then d; else e; fi; f",
            &["? b; elif", "? c; then", "? d; else", "? e; fi"],
        ),
        ("for a in b; do c; done; d", &["? c; done"]),
        ("case a in b) c;; d) e;; esac; f", &["? c;; d)", "? e;; esac"]),
        ("a() { b; }; c", &["?{ b; }"]),
        ("function a { b; }; c", &["?{ b; }"]),
        ("a() (b); c", &["!(b)", "?(b"]),
    ];
    for (text, expected) in cases {
        let text = text.replace('⏎', "\n");
        let shown = |scope: &Scope| {
            let sign = if scope.kind == ScopeKind::Own { '!' } else { '?' };
            format!("{sign}{}", &text[scope.range.clone()]).replace('\n', "⏎")
        };
        let scopes: Vec<String> = lex(&text).unwrap().scopes.iter().map(shown).collect();
        assert_eq!(scopes, *expected, "{text:?}");
    }
}

#[test]
fn a_shell_without_the_additions_reads_other_commands() {
    let cases: &[(&str, &[&str])] = &[
        ("((a; b))", &["a", "b"]),
        ("[[ a; b && c ]]", &["[[␣a", "b", "c␣]]"]),
        ("a $'\\'; b #'", &["a␣$\\", "b"]),
    ];
    for (text, expected) in cases {
        assert!(lex(text).unwrap().is_ambiguous, "{text:?}");
        let script = lex_as(text, Dialect::Posix).unwrap();
        assert_eq!(shown(&script), *expected, "{text:?}");
    }
    for text in ["[[ a == (b|c) ]]", "[[ a ]]", "a $((1 + 2)) $'b'", "(a; b)"] {
        assert!(!lex(text).unwrap().is_ambiguous, "{text:?}");
    }
}

#[test]
fn a_quoted_for_opens_no_group() {
    let script = lex("{ a; 'for' x; } | b").unwrap();
    assert_eq!(script.commands[2].group, Some(0..15));
    assert_eq!(script.commands[0].after_group, Some(2));
}

#[test]
fn the_innermost_group_has_a_commands_streams() {
    let script = lex("{ (a) <b; c; } >d; e").unwrap();
    let after: Vec<_> = script.commands.iter().map(|command| command.after_group).collect();
    assert_eq!(shown(&script), ["a", "{<b}", "c", "{>d}", "e"]);
    assert_eq!(after, [Some(1), Some(3), Some(3), None, None]);
}

#[test]
fn quotes_go_and_expansions_stay() {
    let cases: &[(&str, &[&str])] = &[
        ("c''at .e\"n\"v", &["cat␣.env"]),
        ("c\\at '.env'", &["cat␣.env"]),
        (r"$'\x63at' $'a\'b'", &["cat␣a'b"]),
        ("echo \"a $b ${c:-d e} `f` \\\"\"", &["echo␣a $b ${c:-d e} `f` \"", "f"]),
        ("echo $(a $(b c) d) e", &["echo␣$(a $(b c) d)␣e", "a␣$(b c)␣d", "b␣c"]),
        (r"echo `a \`b\``", &[r"echo␣`a \`b\``", "a␣`b`", "b"]),
        ("diff <(a b) >(c)", &["diff␣<(a b)␣>(c)", "a␣b", "c"]),
        ("echo $((1 + $(a))) $( (b) )", &["echo␣$((1 + $(a)))␣$( (b) )", "a", "b"]),
        ("echo a#b #c", &["echo␣a#b"]),
    ];
    for (text, expected) in cases {
        assert_eq!(commands(text), *expected, "{text:?}");
    }
}

/// Each was run in bash 5.2, where `env` runs.
#[test]
fn what_hides_a_command_from_a_reader_hides_none() {
    for text in [
        "cat <<E\nx\nE\\\n\nenv\nE",
        "cat <<E\nfoo\\\nE\n\"\nE\nenv\n# \"",
        "((env; echo \"))\" ) ) # \"",
        ": \"${x#'\"'}\"; env #\"}\"}\"",
        "a[0 ]=1 env",
        "a[x y]+=1 env",
        "echo $(case x\nin x) env;; esac)",
        "$'env\\0x'",
        "$'env\\x00x'",
        "coproc x { env; }",
        "coproc env",
    ] {
        let is_env =
            |line: &String| line.rsplit('}').next().unwrap().trim_start_matches('␣') == "env";
        let commands = commands(text);
        assert!(commands.iter().any(is_env), "{text:?}: {commands:?}");
    }
    assert_eq!(commands("echo $(( \"$x\" + 1 )); b"), ["echo␣$(( \"$x\" + 1 ))", "b"]);
    assert_eq!(commands("a[0]=1; b[1]=c d; e[x y z"), ["{a[0]=1}", "{b[1]=c}␣d", "e[x␣y␣z"]);
    assert_eq!(commands("time -p a; time b"), ["time␣-p␣a", "b"]);
}

#[test]
fn redirections_have_targets_and_bodies() {
    assert_eq!(
        commands("cat</proc/self/environ 2>&1 >>a"),
        ["cat␣{</proc/self/environ}␣{>&1}␣{>>a}"]
    );
    assert_eq!(commands("a 3<b &>c"), ["a␣{<b}␣{&>c}"]);
    let text = "cat <<A <<-'B'; d\none $(e)\nA\n\ttwo\n\tB\nf";
    let script = lex(text).unwrap();
    assert_eq!(commands(text), ["cat␣{<<A}␣{<<-B}", "d", "e", "f"]);
    let bodies: Vec<&str> = script.commands[0]
        .redirections
        .iter()
        .filter_map(|to| to.body.clone())
        .map(|body| &text[body])
        .collect();
    assert_eq!(bodies, ["one $(e)\n", "\ttwo\n"]);
    assert!(!script.commands[0].pipes_into_next && lex("a|b").unwrap().commands[0].pipes_into_next);
}

#[test]
fn every_byte_has_its_context() {
    let cases = [
        ("a @", Context::Unquoted),
        ("a '@'", Context::SingleQuoted),
        ("a \"@\"", Context::DoubleQuoted),
        ("a \"$(b @)\"", Context::Unquoted),
        ("a \"$(b '@')\"", Context::SingleQuoted),
        ("a `b @`", Context::Unquoted),
        (r"a `b \`@\``", Context::Backquoted),
        ("a $'@'", Context::DollarSingle),
        ("a $((1+@))", Context::Arithmetic),
        ("a ${b:-@}", Context::ParameterExpansion),
        ("a ${@}", Context::ParameterExpansion),
        ("a ${b:-\"@\"}", Context::ParameterExpansion),
        ("a \"${b:-\"@\"}\"", Context::ParameterExpansion),
        ("a ${b:-'@'}", Context::ParameterExpansion),
        ("a ${b:-$'@'}", Context::ParameterExpansion),
        ("a \"${b:-$(c \"@\")}\"", Context::DoubleQuoted),
        ("a # @", Context::Comment),
        ("a#@", Context::Unquoted),
        ("cat <<E\n@\nE", Context::HereDoc),
        ("cat <<'E'\n@\nE", Context::QuotedHereDoc),
        ("cat <<@\nE", Context::HereDocDelimiter),
        ("cat <<<@", Context::Unquoted),
        ("for @ in b", Context::VariableName),
        ("exec @>a", Context::Descriptor),
        ("exec {@}>a", Context::Descriptor),
        ("a >&@", Context::Descriptor),
        ("a 0<&@-", Context::Descriptor),
        ("exec @ >a", Context::Unquoted),
        ("exec a @>b", Context::Unquoted),
        ("a @>b", Context::Unquoted),
        ("a[@]=b", Context::VariableName),
        ("a[\"@\"]+=b", Context::VariableName),
        ("a=([@]=b)", Context::VariableName),
        ("a=(@ [b]=c)", Context::Unquoted),
        ("a=@", Context::Unquoted),
        ("a[b]=@", Context::Unquoted),
        ("c a@=b", Context::Unquoted),
        ("cat <<E\n$(a @)\nE", Context::Unquoted),
    ];
    for (text, expected) in cases {
        assert_eq!(context(text), expected, "{text:?}");
    }
}

#[test]
fn an_assignment_has_a_name() {
    for text in ["STAND=a", "b_STAND=a c", "STAND+=a", "if STAND=a; then b; fi", "a; STANDb=(c)"] {
        let read = lex(text).unwrap();
        assert_eq!(read.context_at(text.find("STAND").unwrap()), Context::VariableName, "{text}");
        assert_eq!(read.context_at(text.find('=').unwrap() + 1), Context::Unquoted, "{text}");
    }
}

#[test]
fn what_has_no_end_is_an_error() {
    for (text, at, kind) in [
        ("a 'b", 2, ShellErrorKind::UnterminatedQuote),
        ("a \"b", 2, ShellErrorKind::UnterminatedQuote),
        ("a $(b", 4, ShellErrorKind::UnterminatedSubstitution),
        ("a `b", 2, ShellErrorKind::UnterminatedSubstitution),
        ("a ${b", 2, ShellErrorKind::UnterminatedSubstitution),
        ("[[ a", 0, ShellErrorKind::UnterminatedSubstitution),
    ] {
        let error = lex(text).unwrap_err();
        assert_eq!((error.at, error.kind), (at, kind), "{text:?}");
    }
    let deep = "$(".repeat(MAX_DEPTH + 2);
    assert_eq!(lex(&deep).unwrap_err().kind, ShellErrorKind::TooDeep);
    let sums = format!("{}1{}", "$((".repeat(100_000), "))".repeat(100_000));
    assert_eq!(lex(&sums).unwrap_err().kind, ShellErrorKind::TooDeep);
}

/// Each would take days if a step looked through the rest of the text.
#[test]
fn a_megabyte_of_one_thing_comes_to_an_end() {
    let megabyte = |piece: &str| piece.repeat((1 << 20) / piece.len());
    for piece in [
        "(",
        "$((",
        "((",
        "((\"",
        "${a[",
        "${a[}",
        "a[",
        "`",
        "`\\``",
        "\"",
        "$",
        "<<",
        "<<a;",
        ";",
        "|",
        "\\",
        "{{nl:a1}}",
    ] {
        // Whether it can be read is not the question.
        let _ = lex(&megabyte(piece));
    }
    let groups = ["(".repeat(1 << 18), ") ".repeat(1 << 18)].concat();
    assert!(lex(&groups).unwrap().commands.is_empty());
}

proptest! {
    #[test]
    fn no_text_panics_and_spans_lie_inside(text in "[a-z '\"$(){}`\\\\;|&<>#=\\n\\[\\]é0-9]{0,60}") {
        if let Ok(script) = lex(&text) {
            for command in &script.commands {
                prop_assert!(text.get(command.span.clone()).is_some());
                for word in &command.words {
                    prop_assert!(text.get(word.span.clone()).is_some());
                }
            }
            for scope in &script.scopes {
                prop_assert!(text.get(scope.range.clone()).is_some());
            }
            for at in 0..text.len() {
                script.context_at(at);
            }
        }
    }
}
