use keyless_testkit::{Postgres, PostgresOptions};
use serde_json::{Value, json};

use crate::{
    actions::submit,
    nl::{AGENT, Served, granted_with},
    world::{TOKEN, World, global_packages, wait_until},
};

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
        env psql -X -h {DATABASE} -U keyless -d postgres -c 'SELECT pg_sleep(600)' 2>&1 & sleeping=$!
        active="SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'"
        until [ "$(psql -c "$active")" = 1 ]; do sleep 0.1; done
        kill -INT $sleeping; wait $sleeping || true
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

/// An action that runs a statement with the password of `TOKEN`, and what `extra` says.
fn statement(operation: &str, sql: &str, values: &Value, extra: &Value) -> Value {
    let mut parameters = json!({
        "sql": sql, "values": values, "host": DATABASE, "user": "keyless", "database": "postgres"
    });
    for (name, value) in extra.as_object().into_iter().flatten() {
        parameters[name] = value.clone();
    }
    json!({
        "type": "sdk_proxy", "provider": "postgres", "service": "database", "operation": operation,
        "parameters": parameters, "credentials_ref": "{{nl:api/TOKEN}}"
    })
}

/// What a statement that reads is answered.
fn read(world: &World, sql: &str, values: &Value) -> Value {
    submit(world, &[statement("query", sql, values, &Value::Null)]).remove(0)
}

#[test]
fn a_statement_is_answered_and_its_password_stays_here() {
    let (world, database) = world_with_database(&[]);
    world.write_config();
    let value = world.canary.value();
    database
        .sql(&format!(
            "CREATE TABLE notes AS SELECT 'a ' || '{value}' AS note, n AS number FROM generate_series(1, 5) n"
        ))
        .unwrap();
    let answer = read(
        &world,
        "SELECT number, note, $2::jsonb AS j, now() > 'epoch' AS late, $3::text AS none \
         FROM notes WHERE number = ANY($1) ORDER BY 1 DESC",
        &json!([[1, 3], {"a": ["{b}"]}, null]),
    );
    assert_eq!(answer["status"], "success", "{answer}");
    let data = &answer["result"]["data"];
    assert_eq!(data["row_count"], 2);
    let first = json!({
        "number": 3, "note": "a [REDACTED:api/TOKEN]", "j": {"a": ["{b}"]}, "late": true, "none": null
    });
    assert_eq!(data["rows"][0], first, "{answer}");
    assert_eq!(answer["redacted"], true);

    // What a parameter says is never read as SQL.
    let sly = "'; DROP TABLE notes; --";
    let answer = read(&world, "SELECT $1::text AS same", &json!([sly]));
    assert_eq!(answer["result"]["data"]["rows"][0]["same"], sly, "{answer}");

    let few = statement(
        "query",
        "SELECT n FROM generate_series(1, 9) n",
        &json!([]),
        &json!({"max_rows": 4}),
    );
    let exact = statement(
        "query",
        "SELECT n FROM generate_series(1, 4) n",
        &json!([]),
        &json!({"max_rows": 4}),
    );
    let [few, exact] = &submit(&world, &[few, exact])[..] else { panic!("two answers") };
    assert_eq!(few["result"]["data"]["rows"].as_array().unwrap().len(), 4, "{few}");
    assert_eq!(few["result"]["data"]["truncated"], true);
    assert_eq!(exact["result"]["data"]["truncated"], false, "{exact}");
    assert_eq!(database.sql("SELECT count(*) FROM notes").unwrap(), "5");
}

/// A query is read-only by the database's own word, and one statement is one.
#[test]
fn what_a_query_may_not_do_it_does_not() {
    let (world, database) = world_with_database(&[]);
    world.write_config();
    database.sql("CREATE TABLE notes AS SELECT 1 AS number").unwrap();
    let refused = |sql: &str| {
        let answer = read(&world, sql, &json!([]));
        assert_eq!(answer["status"], "error", "{sql}: {answer}");
        let sqlstate = answer["result"]["data"]["sqlstate"].as_str().map(str::to_owned);
        sqlstate.unwrap_or_else(|| answer["error"]["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused("UPDATE notes SET number = 2 RETURNING number"), "25006");
    assert_eq!(refused("SELECT 1; DROP TABLE notes"), "42601");
    assert_eq!(refused("SELECT nowhere FROM nothing"), "42P01");
    let turned = "SELECT set_config('transaction_read_only', 'off', false)";
    assert_eq!(refused(turned), "25001");
    for sql in [
        "SET default_transaction_read_only = off",
        "DO $$ BEGIN COMMIT; UPDATE notes SET number = 2; END $$",
        "COPY notes TO PROGRAM 'cat > /tmp/kl-copied'",
        "COPY notes TO STDOUT",
        "COMMIT",
    ] {
        assert!(refused(sql).contains("gives no rows"), "{sql}");
    }
    assert!(refused("SELECT $1::int").contains("parameters"));
    // Too much to be given is given not at all.
    let large = "SELECT repeat('x', 1000000) FROM generate_series(1, 40)";
    let answer = read(&world, large, &json!([]));
    assert!(answer["error"]["code"].as_str().unwrap().contains("TOO_LARGE"), "{answer}");

    let mut slow = statement("query", "SELECT pg_sleep(60)", &json!([]), &Value::Null);
    slow["timeout_ms"] = json!(1000);
    assert_eq!(submit(&world, &[slow])[0]["status"], "timeout");
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    wait_until("the statement is over", || {
        let busy = format!("{sleeping} AND state = 'active'");
        database.sql(&busy).unwrap() == "0"
    });
    assert_eq!(database.sql("SELECT number FROM notes").unwrap(), "1");
}

/// The password's own rule, the URL's own host and the certificate say where it goes.
#[test]
fn a_statement_goes_where_its_credential_may() {
    let (mut world, database) = world_with_database(&[]);
    let url = format!("postgres://keyless:{}@{DATABASE}/postgres", world.canary.value());
    let add = ["secret", "add", "team/shop/url", "--value-stdin"];
    world.keyless(&add).stdin(url).run().ok();
    world.write_config();
    let by_url = json!({
        "type": "sdk_proxy", "provider": "postgres", "service": "database", "operation": "query",
        "parameters": {"sql": "SELECT current_user AS me, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"},
        "credentials_ref": "{{nl:shop/URL}}"
    });
    let foreign = statement("query", "SELECT 1", &json!([]), &json!({"host": "db.evil.test"}));
    let answers = submit(&world, &[by_url.clone(), foreign]);
    assert_eq!(answers[0]["result"]["data"]["rows"][0], json!({"me": "keyless", "ssl": true}));
    assert_eq!(answers[1]["status"], "denied");
    assert!(answers[1]["error"]["message"].as_str().unwrap().contains("does not go to"));

    let options = PostgresOptions {
        ca: &keyless_testkit::TestCa::new(),
        names: &[DATABASE],
        password: world.canary.value(),
    };
    let impostor = Postgres::start(&options).unwrap();
    world.route(&format!("{DATABASE}:5432"), &impostor.address().to_string());
    world.write_config();
    let answer = &submit(&world, &[by_url])[0];
    assert_eq!(answer["status"], "error", "{answer}");
    assert_eq!(database.sql("SELECT 1").unwrap(), "1");
}

/// An agent reads, and changes rows once its grant says so.
#[test]
fn a_grant_says_whether_rows_may_change() {
    let (world, database) = world_with_database(&[]);
    database.sql("CREATE TABLE notes (number int UNIQUE)").unwrap();
    let served = Served::start(&world);
    let write = |number: i32| {
        let sql = "INSERT INTO notes VALUES ($1) RETURNING number + 1 AS next";
        served.act(&statement("execute", sql, &json!([number]), &Value::Null))["body"].clone()
    };
    granted_with(&world, AGENT, &["api/*"], &[]);
    let denied = write(1);
    assert_eq!(denied["status"], "denied", "{denied}");
    assert!(denied["error"]["message"].as_str().unwrap().contains("change nothing"), "{denied}");
    let read = statement("query", "SELECT count(*) AS n FROM notes", &json!([]), &Value::Null);
    let answer = served.act(&read)["body"].clone();
    assert_eq!(answer["result"]["data"]["rows"][0]["n"], 0, "{answer}");

    granted_with(&world, AGENT, &["api/*"], &["--writes"]);
    let answer = write(1);
    assert_eq!(answer["result"]["data"]["rows"][0]["next"], 2, "{answer}");
    let again = write(1);
    assert_eq!(again["result"]["data"]["sqlstate"], "23505", "{again}");
    assert!(!again.to_string().contains("Key (number)"), "{again}");
    assert_eq!(database.sql("SELECT * FROM notes").unwrap(), "1");
}
