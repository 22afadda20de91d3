use super::*;

/// What a machine made up; pieces of it stand for tokens, so that none is in this repository.
const RANDOM: &str = "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR6tBi0nSx9WqPz3Me7CgUy1JhLd5FaOkT8rNvXs2QbYw4ZmEp6HcRiGu0VjDfKl";

/// A few rows of Keyless' own catalog, generic ones among them.
fn catalog() -> TokenForms {
    let form = |pattern: &str, format: &str| {
        let names: &[&str] = match pattern {
            "aws-secret-key" => &["AWS_SECRET_ACCESS_KEY"],
            "azure-client-secret" => &["AZURE_CLIENT_SECRET"],
            "azure-openai-key" => &["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY"],
            "datadog-api-key" => &["DD_API_KEY"],
            _ => &[],
        };
        TokenForm {
            pattern: pattern.to_owned(),
            kind: format!("catalog: {pattern}"),
            format: format.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    };
    let rows = vec![
        form("anthropic-key", "^sk-ant-(api|admin)[0-9]{2}-[A-Za-z0-9_-]{80,}$"),
        form("aws-secret-key", "^[A-Za-z0-9/+]{40}$"),
        form("azure-client-secret", "^[A-Za-z0-9_~.-]{34,44}$"),
        form("azure-openai-key", "^[A-Za-z0-9]{32,84}$"),
        form("datadog-api-key", "^[0-9a-f]{32}$"),
        form("linear-key", "^lin_api_[A-Za-z0-9]{40}$"),
        form("openai-key", "^sk-(proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}$"),
        form("postgres-url", "^postgres(ql)?://[^ ]+$"),
        form("sendgrid-key", r"^SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}$"),
        form(
            "slack-webhook",
            "^https://hooks\\.slack\\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]+$",
        ),
        form("broken", "("),
    ];
    TokenForms::new(move || rows)
}

/// Keys of two services begin alike; one of them has a mark within.
#[test]
fn a_key_is_called_by_its_mark() {
    let form = |pattern: &str, format: &str| TokenForm {
        pattern: pattern.to_owned(),
        kind: pattern.to_owned(),
        format: format.to_owned(),
        names: Vec::new(),
    };
    let forms = TokenForms::new(move || {
        vec![
            form("moonshot-api-key", "^sk-[A-Za-z0-9]{40,}$"),
            form("openai-key", "^sk-(proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}$"),
        ]
    });
    let kind = |word: &str| forms.of(word).map(|form| form.pattern.clone());
    let marked = format!("sk-{}T3BlbkFJ{}", &RANDOM[..20], &RANDOM[20..40]);
    assert_eq!(kind(&marked).as_deref(), Some("openai-key"));
    let other = format!("sk-{}", &RANDOM[..48]);
    assert_eq!(kind(&other).as_deref(), Some("moonshot-api-key"));
}

/// `{N}` in a line is N characters that a machine made up.
fn filled(line: &str) -> String {
    let mut text = line.replace("\\n", "\n");
    for count in [20, 22, 24, 32, 36, 40, 43, 48, 60, 80] {
        text = text.replace(&format!("{{{count}}}"), &RANDOM[..count]);
    }
    text
}

/// The corpus: what must be found, as `kind | value | line`, and lines of real documentation that must pass.
#[test]
fn the_corpus_is_told_apart() {
    let (held, clean) = (include_str!("corpus/held.txt"), include_str!("corpus/clean.txt"));
    for row in held.lines().filter(|row| !row.is_empty()) {
        let mut parts = row.splitn(3, " | ");
        let (kind, value, line) =
            (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let (value, line) = (filled(value), filled(line));
        let text = format!("first line\n{line}\n");
        let findings = scan("f", text.as_bytes(), &catalog());
        assert_eq!(findings.len(), 1, "{line}");
        assert_eq!((findings[0].kind.as_ref(), findings[0].line), (kind, 2), "{line}");
        let found = findings[0].range.clone().map(|range| &text[range]);
        assert_eq!(found.unwrap_or_default(), value, "{line}");
    }
    let findings = scan("clean.txt", clean.as_bytes(), &catalog());
    assert_eq!(findings, [], "{} lines of documentation", clean.lines().count());
}

/// JSON and `.env` files write its lines as one.
#[test]
fn a_private_key_on_one_line_is_found() {
    let body = filled("{60}");
    for line in [
        format!(
            r#""private_key": "-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n","#
        ),
        format!(r"KEY='-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----'"),
    ] {
        let findings = scan("f", line.as_bytes(), &TokenForms::default());
        let kinds: Vec<&str> = findings.iter().map(|found| found.kind.as_ref()).collect();
        assert_eq!(kinds, ["private key"], "{line}");
    }
}

#[test]
fn a_line_may_say_that_it_holds_none() {
    let line = filled("api_key = {40}");
    assert_eq!(scan("f", line.as_bytes(), &TokenForms::default()).len(), 1);
    let marked = format!("{line} # {NOT_A_SECRET}");
    assert_eq!(scan("f", marked.as_bytes(), &TokenForms::default()), []);
}

#[test]
fn only_formats_that_tell_something_are_taken_from_a_catalog() {
    let digest = "d41d8cd98f00b204e9800998ecf8427f";
    assert!(catalog().of(digest).is_none());
    assert_eq!(catalog().of(&filled("lin_api_{40}")).unwrap().pattern, "linear-key");
}

/// As PowerShell writes it, with and without a mark.
#[test]
fn text_in_utf16_is_text() {
    let key = filled("-----BEGIN RSA PRIVATE KEY-----\n{48}\n");
    let token = filled("größe\r\napi_key = {40}\r\n");
    let stored = |text: &str, mark: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        mark.encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
    };
    for (text, line) in [(&key, 1), (&token, 2)] {
        for mark in ["", "\u{feff}"] {
            for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
                let findings = scan("f", &stored(text, mark, bytes), &TokenForms::default());
                assert_eq!(findings.len(), 1, "{text}");
                assert_eq!((findings[0].line, &findings[0].range), (line, &None), "{text}");
            }
        }
        let marked = [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat();
        assert_eq!(scan("f", &marked, &TokenForms::default()).len(), 1, "{text}");
        // A program with a text in it is none.
        let binary = [&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0][..], text.as_bytes()].concat();
        assert_eq!(scan("f", &binary, &TokenForms::default()), [], "{text}");
    }
}

/// A machine's way to make up values: `length` of these characters, another each time.
fn made_up(turn: u64, alphabet: &str, length: usize) -> String {
    let mut state = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letters: Vec<char> = alphabet.chars().collect();
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[usize::try_from(state >> 33).unwrap() % letters.len()]
    };
    (0..length + 8).map(next).skip(8).collect()
}

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Slashes and dots are a part of many of them.
#[test]
fn under_the_name_of_a_catalogs_token_its_format_decides() {
    let (aws, azure) = (format!("{LETTERS}+/"), format!("{LETTERS}_~.-"));
    let catalog = catalog();
    for (name, kind, make) in [
        (
            "AWS_SECRET_ACCESS_KEY",
            "catalog: aws-secret-key",
            &(|turn| made_up(turn, &aws, 40)) as &dyn Fn(u64) -> String,
        ),
        ("secretAccessKey", "catalog: aws-secret-key", &|turn| made_up(turn, &aws, 40)),
        ("PROD_AZURE_CLIENT_SECRET", "catalog: azure-client-secret", &|turn| {
            format!("{}8Q~{}", made_up(turn, LETTERS, 3), made_up(turn + 7, &azure, 34))
        }),
        ("AZURE_OPENAI_KEY", "catalog: azure-openai-key", &|turn| made_up(turn, LETTERS, 32)),
    ] {
        let mut missed = 0;
        for turn in 1..=1000 {
            let value = make(turn);
            let text = format!("{name} = '{value}'\n");
            let findings = scan("settings.py", text.as_bytes(), &catalog);
            missed += usize::from(findings.len() != 1);
            // A key's id may be found first where chance writes one.
            let same = findings.iter().filter(|one| one.kind == kind).count();
            assert!(findings.is_empty() || same == 1, "{text}");
        }
        assert!(missed <= 5, "{missed} of 1000 under {name}");
    }
}

/// A name and its value as languages, manifests and tools write them; `{V}` is twenty characters that a machine made up.
#[test]
fn a_name_and_its_value_are_seen_in_every_form() {
    let (mut missed, catalog) = (Vec::new(), catalog());
    for turn in 1..=100 {
        let value = made_up(turn, LETTERS, 20);
        for text in [
            "os.environ[\"API_KEY\"] = \"{V}\"",
            "PASSWORD: str = \"{V}\"",
            "const apiKey: string = \"{V}\";",
            "let api_key: &str = \"{V}\";",
            "static API_KEY: &'static str = \"{V}\";",
            "apiKey := \"{V}\"",
            "props.put(\"password\", \"{V}\");",
            "  'password' => '{V}',",
            "env: [{name: DB_PASSWORD, value: {V}}]",
            "- name: DB_PASSWORD\n  value: \"{V}\"",
            "\"value\": \"{V}\",\n\"name\": \"DB_PASSWORD\"",
            "ENV DB_PASSWORD {V}",
            "<add key=\"DbPassword\" value=\"{V}\" />",
            "<password>{V}</password>",
            "machine api.test login me password {V}",
            "tool --token {V} --quiet",
            "{\\\"token\\\": \\\"{V}\\\"}",
        ] {
            let text = format!("first line\n{}\n", text.replace("{V}", &value));
            let findings = scan("f", text.as_bytes(), &catalog);
            let found: Vec<&str> =
                findings.iter().filter_map(|one| text.get(one.range.clone()?)).collect();
            if found != [value.as_str()] {
                missed.push(text);
            }
        }
    }
    assert!(missed.len() <= 1700 * 5 / 100, "{} of 1700: {missed:#?}", missed.len());
}

#[test]
fn files_of_logins_hold_nothing_else() {
    let key = made_up(3, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58);
    for (file, text, held) in [
        ("home/.pgpass", "db.internal:5432:app:app:hunter2secret".to_owned(), "hunter2secret"),
        (".pgpass", "*:*:*:me:p:w with colons".to_owned(), "p:w with colons"),
        (
            ".netrc",
            "machine api.test\n login me\n password hunter2secret".to_owned(),
            "hunter2secret",
        ),
        (
            "config.json",
            "{\"auth\": \"YXBwOmh1bnRlcjJzZWNyZXQ=\"}".to_owned(),
            "YXBwOmh1bnRlcjJzZWNyZXQ=",
        ),
        (
            ".npmrc",
            "//npm.test/:_auth=YXBwOmh1bnRlcjJzZWNyZXQ=".to_owned(),
            "YXBwOmh1bnRlcjJzZWNyZXQ=",
        ),
        ("keys.txt", format!("AGE-SECRET-KEY-1{key}"), "AGE-SECRET-KEY-1"),
    ] {
        let findings = scan(file, text.as_bytes(), &TokenForms::default());
        assert_eq!(findings.len(), 1, "{file}: {text}");
        let found = &text[findings[0].range.clone().unwrap()];
        assert!(found.starts_with(held), "{file}: {found}");
    }
    for (file, text) in [
        (".pgpass", "# host:port:database:user:password of each"),
        (".pgpass", "localhost:5432:app:app:$PGPASSWORD"),
        ("config.json", "{\"auth\": \"basic\"}"),
        ("notes.txt", "db.internal:5432:app:app:hunter2secret"),
    ] {
        assert_eq!(scan(file, text.as_bytes(), &TokenForms::default()), [], "{file}: {text}");
    }
}
