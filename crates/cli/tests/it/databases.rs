use keyless_testkit::{Postgres, PostgresOptions};

use crate::world::{TOKEN, World, global_packages, wait_until};

const DATABASE: &str = "db.allowed.test";

/// A world whose secret is the password of a database that it may go to.
fn world_with_database(rule: &[&str]) -> (World, Postgres) {
    let mut world = World::with_store();
    let names = &[DATABASE];
    let options = PostgresOptions { ca: &world.ca, names, password: world.canary.value() };
    let database = Postgres::start(&options).unwrap();
    let to = format!("{DATABASE}:5432");
    world.route(&to, &database.address().to_string());
    world.add(TOKEN, &[&["--to", &to, "--env", "PGPASSWORD"], rule].concat()).ok();
    (world, database)
}

/// Both are told who they are, and neither is told of Keyless: `psql` and Node's own driver, which
/// verifies the certificate.
#[test]
fn clients_log_in_with_a_placeholder() {
    let (world, database) = world_with_database(&[]);
    let value = world.canary.value();
    database.sql(&format!("CREATE TABLE notes AS SELECT '{value}' AS note, 7 AS number")).unwrap();
    let node = r#"const { Client } = require("pg");
        const client = new Client({ host: "db.allowed.test", user: "keyless", database: "postgres",
            password: process.env.PGPASSWORD, ssl: { rejectUnauthorized: true } });
        client.connect().then(() => client.query("SELECT note, $1::int + number AS sum FROM notes", [35]))
            .then((answer) => { console.log("node", answer.rows[0].sum, answer.rows[0].note); return client.end(); })
            .catch((error) => { console.log("node failed:", error.message); process.exit(1); });"#;
    let script = format!(
        r#"set -e
        psql() {{ command psql -X -At -h {DATABASE} -U keyless -d postgres "$@"; }}
        psql -c 'SELECT current_user, number FROM notes'
        psql -c "SELECT 'note ' || note FROM notes"
        psql -c "SELECT count(*) FROM generate_series(1, 100000) AS n, LATERAL (SELECT repeat('x', 100)) AS r" 
        psql -c "COPY (SELECT repeat('y', 1000) FROM generate_series(1, 5000)) TO STDOUT" | wc -c
        seq 1 5000 > rows; psql -c 'CREATE TABLE rows (n int)' -c '\copy rows FROM rows' -c 'SELECT sum(n) FROM rows'
        timeout --signal=INT 2 psql -X -h {DATABASE} -U keyless -d postgres -c 'SELECT pg_sleep(60)' 2>&1 || true
        psql "sslmode=verify-full sslrootcert=$SSL_CERT_FILE" -c 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'
        node -e '{node}'
        echo "$PGPASSWORD""#
    );
    let seen = world.agent_sh(&script).env("NODE_PATH", global_packages()).run();
    let text = seen.ok();
    for expected in [
        "keyless|7",
        "note kloak_",
        "100000",
        "5005000",
        "12502500",
        "canceling statement due to user request",
        "node 42 kloak_",
    ] {
        assert!(text.contains(expected), "no {expected}: {text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&"t"), "the database is reached over TLS: {text}");
    assert!(lines.last().unwrap().starts_with("kloak_"), "{text}");
    wait_until("the end is logged", || {
        world
            .log()
            .iter()
            .any(|entry| entry["detail"]["kind"] == "closed" && entry["secrets_used"][0] == TOKEN)
    });
    let released = |entry: &serde_json::Value| entry["detail"]["kind"] == "released";
    let released = world.log().into_iter().find(released).unwrap();
    assert_eq!(released["detail"]["locations"][0], "password");
    assert_eq!(released["detail"]["path"], "/postgres");
}

/// Wrong logins are told in the database's own words, and what may not be is refused in ours.
#[test]
fn a_login_that_fails_says_why() {
    let (world, _database) = world_with_database(&[]);
    let psql = format!("psql -X -h {DATABASE} -U keyless");
    let seen = world
        .agent_sh(&format!(
            "{psql} -d nowhere -c 'SELECT 1' 2>&1
            PGPASSWORD=guess {psql} -d postgres -c 'SELECT 1' 2>&1
            PGPASSWORD=kloak_00000000000000000000000000 {psql} -d postgres -c 'SELECT 1' 2>&1
            true"
        ))
        .run();
    let text = seen.ok();
    assert!(text.contains(r#"FATAL:  database "nowhere" does not exist"#), "{text}");
    assert!(
        text.contains(r#"FATAL:  password authentication failed for user "keyless""#),
        "{text}"
    );
    assert!(text.contains("[unknown_placeholder]"), "{text}");
}

/// The secret says where it may stand, and the database has to prove its name.
#[test]
fn no_password_leaves_against_the_rules() {
    let (world, _database) = world_with_database(&["--locations", "header"]);
    let psql = format!("psql -X -h {DATABASE} -U keyless -d postgres -c 'SELECT 1' 2>&1; true");
    let seen = world.agent_sh(&psql).run();
    let text = seen.ok();
    assert!(text.contains("[location_not_allowed]"), "{text}");

    let (mut world, _) = world_with_database(&[]);
    let options = PostgresOptions {
        ca: &keyless_testkit::TestCa::new(),
        names: &[DATABASE],
        password: world.canary.value(),
    };
    let impostor = Postgres::start(&options).unwrap();
    world.route(&format!("{DATABASE}:5432"), &impostor.address().to_string());
    let seen = world.agent_sh(&psql).run();
    let text = seen.ok();
    assert!(text.contains("[upstream_tls]"), "{text}");
}
