//! The spec's own JSON, both ways.

use serde_json::json;

use super::*;

/// The examples of sections 5, 6 and 11 as they stand in the spec.
fn actions() -> Vec<Value> {
    let docker = "docker login -u deploy --password-stdin ghcr.io";
    let ssh = "ssh -i {{nl:SSH_KEY_FILE}} -o StrictHostKeyChecking=yes deploy@prod.example.com \
               'systemctl restart app'";
    vec![
        json!({
            "type": "exec",
            "template": "curl -H 'Authorization: Bearer {{nl:api/GITHUB_TOKEN}}' https://api.github.com/user"
        }),
        json!({
            "type": "template",
            "template_content": "DB_HOST=localhost\nDB_USER=admin\nDB_PASS={{nl:database/DB_PASSWORD}}\nDB_NAME=myapp\n",
            "output_path": "/tmp/nl-secure/app.env"
        }),
        json!({"type": "inject_stdin", "command": docker, "secret_ref": "{{nl:registry/DOCKER_TOKEN}}"}),
        json!({
            "type": "inject_tempfile",
            "command": ssh,
            "file_refs": {"SSH_KEY_FILE": "{{nl:ssh/id_rsa_deploy}}"}
        }),
        json!({
            "type": "sdk_proxy",
            "provider": "aws",
            "service": "s3",
            "operation": "list_objects_v2",
            "parameters": {"Bucket": "my-data-bucket", "Prefix": "reports/"},
            "credentials_ref": "{{nl:braincol/production/aws/AWS_CREDENTIALS}}"
        }),
        json!({
            "type": "delegate",
            "delegate_to": "nl://acme.corp/deploy-bot/2.1.0",
            "delegated_action": {
                "type": "exec",
                "template": "kubectl apply -f deployment.yaml --token={{nl:k8s/DEPLOY_TOKEN}}"
            },
            "delegation_scope": {"secrets": ["k8s/DEPLOY_TOKEN"], "max_uses": 1, "ttl_seconds": 300}
        }),
        json!({
            "type": "exec",
            "template": "curl -H 'Auth: {{nl:production/API_KEY}}' https://api.example.com",
            "dry_run": true
        }),
    ]
}

/// By their place the items of a list would be bounds that nobody has named.
#[test]
fn a_list_is_no_object() {
    let exec = json!({ "type": "exec", "template": "true {{nl:A}}" });
    let delegate = |scope: Value, done: &Value| {
        json!({
            "type": "delegate", "delegate_to": "nl://acme.test/b/1.0.0",
            "delegated_action": done, "delegation_scope": scope
        })
    };
    let scope = json!({ "secrets": ["A"] });
    assert!(Action::from_json(delegate(scope.clone(), &exec)).is_ok());
    assert!(Action::from_json(delegate(json!([["A"], 1, 60]), &exec)).is_err());
    assert!(Action::from_json(delegate(scope, &json!(["exec", "true"]))).is_err());
    for context in [json!([]), json!(["shop"])] {
        let mut action = exec.clone();
        action["context"] = context;
        assert!(Action::from_json(action).is_err());
    }
    let mut empty = exec;
    empty["context"] = Value::Null;
    assert!(Action::from_json(empty).is_ok());
}

#[test]
fn what_runs_a_command_has_one() {
    for action in actions() {
        let action = Action::from_json(action).unwrap();
        assert_eq!(action.kind().runs_command(), action.command().is_some(), "{action:?}");
    }
}

#[test]
fn the_specs_actions_go_both_ways() {
    let named = [
        "api/GITHUB_TOKEN",
        "database/DB_PASSWORD",
        "registry/DOCKER_TOKEN",
        "ssh/id_rsa_deploy",
        "braincol/production/aws/AWS_CREDENTIALS",
        "k8s/DEPLOY_TOKEN",
        "production/API_KEY",
    ];
    for (json, name) in actions().into_iter().zip(named) {
        let action: Action = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&action).unwrap(), json);
        let handles = action.handles().unwrap();
        assert_eq!(handles.iter().map(Handle::as_written).collect::<Vec<_>>(), [name]);
        assert_eq!(action.timeout(), DEFAULT_TIMEOUT);
    }
}

#[test]
fn the_specs_request_goes_both_ways() {
    let json = json!({
        "$schema": "https://nlprotocol.org/schemas/v1.0/action-request.json",
        "nl_version": "1.0",
        "request_id": "req_550e8400-e29b-41d4-a716-446655440000",
        "agent": {
            "agent_uri": "nl://anthropic.com/claude-code/1.5.2",
            "instance_id": "550e8400-e29b-41d4-a716-446655440000",
            "attestation": "eyJhbGciOiJFUzI1NiIs..."
        },
        "action": {
            "type": "exec",
            "template": "curl -H 'Authorization: Bearer {{nl:api/GITHUB_TOKEN}}' https://api.github.com/user",
            "context": {"project": "braincol", "environment": "development"},
            "purpose": "Verify GitHub API access for CI setup",
            "timeout_ms": 30000,
            "dry_run": true
        }
    });
    let request: ActionRequest = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(ActionRequest::from_json(&json), Ok(request.clone()));
    assert!(matches!(ActionRequest::from_json(&json!([1])), Err(ActionError::Shape(_))));
    assert_eq!(serde_json::to_value(&request).unwrap(), json);
    let mut odd = json.clone();
    odd["action"]["context"] = json!(["braincol"]);
    let told = ActionRequest::from_json(&odd).unwrap_err().to_string();
    assert!(told.contains("`context`: invalid type"), "{told}");
    for (place, unfit) in [
        ("/nl_version", "2.0"),
        ("/request_id", ""),
        ("/request_id", "two words"),
        ("/agent/agent_uri", "claude-code"),
    ] {
        let mut odd = json.clone();
        *odd.pointer_mut(place).unwrap() = json!(unfit);
        let name = place.rsplit('/').next().unwrap();
        let told = ActionRequest::from_json(&odd).unwrap_err().to_string();
        assert!(told.contains(name), "{place} {unfit}: {told}");
    }
}

#[test]
fn the_specs_responses_go_both_ways() {
    let whole = json!({
        "$schema": "https://nlprotocol.org/schemas/v1.0/action-response.json",
        "nl_version": "1.0",
        "request_id": "req_550e8400-e29b-41d4-a716-446655440000",
        "action_id": "act_660f9511-f30c-52e5-b827-557766551111",
        "status": "success",
        "result": {"stdout": "{\"login\":\"acme-bot\",\"id\":12345}", "stderr": "", "exit_code": 0},
        "secrets_used": ["api/GITHUB_TOKEN"],
        "redacted": false,
        "redacted_count": 0,
        "audit_ref": "aud_770a0622-a41d-63f6-c938-668877662222",
        "timing": {
            "received_at": "2026-02-08T14:30:00.000Z",
            "resolved_at": "2026-02-08T14:30:00.050Z",
            "executed_at": "2026-02-08T14:30:00.055Z",
            "completed_at": "2026-02-08T14:30:00.250Z",
            "total_ms": 250
        }
    });
    let response: ActionResponse = serde_json::from_value(whole.clone()).unwrap();
    assert_eq!(serde_json::to_value(&response).unwrap(), whole);
    let timing = response.timing.unwrap();
    let again = Timing::new(
        timing.received_at,
        timing.resolved_at,
        timing.executed_at,
        timing.completed_at,
    );
    assert_eq!(again, timing);
    let parts = [
        json!({
            "status": "denied",
            "error": {
                "code": "SCOPE_VIOLATION",
                "message": "Agent does not have permission to access secret 'production/DB_PASSWORD'",
                "details": {
                    "secret_ref": "production/DB_PASSWORD",
                    "agent_scope": {"environments": ["development", "staging"]},
                    "required_scope": {"environments": ["production"]}
                },
                "suggestion": "Request a Scope Grant for the 'production' environment from your administrator."
            },
            "secrets_used": [],
            "redacted": false,
            "audit_ref": "aud_770a0622-..."
        }),
        json!({"status": "success", "result": {"stdout": "", "stderr": "", "exit_code": 0}}),
        json!({
            "status": "dry_run_ok",
            "secrets_validated": ["production/API_KEY"],
            "grant_refs": ["grant_daily_prod_2026-02-08"],
            "audit_ref": "aud_dry_run_..."
        }),
        json!({"status": "success", "result": {
            "output_path": "/tmp/nl-secure/app.env", "resolved_count": 1, "permissions": "0600"
        }}),
        json!({"status": "success", "result": {"data": {"Contents": [
            {"Key": "reports/2026-01.csv", "Size": 1234},
            {"Key": "reports/2026-02.csv", "Size": 5678}
        ]}}}),
    ];
    for part in parts {
        let response: ActionResponse = serde_json::from_value(part.clone()).unwrap();
        let written = serde_json::to_value(&response).unwrap();
        for (name, value) in part.as_object().unwrap() {
            assert_eq!(&written[name], value, "{name}");
        }
    }
    // Its details are left out.
    let denied = json!({
        "status": "denied",
        "error": {
            "code": "SCOPE_VIOLATION",
            "message": "No active Scope Grant covers secret 'production/API_KEY' for action type 'exec'",
            "suggestion": "Request a Scope Grant for 'production/*' from your administrator."
        }
    });
    let response: ActionResponse = serde_json::from_value(denied.clone()).unwrap();
    let mut written = serde_json::to_value(&response).unwrap();
    assert_eq!(written["error"].as_object_mut().unwrap().remove("details"), Some(json!({})));
    assert_eq!((&written["status"], &written["error"]), (&denied["status"], &denied["error"]));
}

#[test]
fn what_is_no_action_is_refused() {
    for (json, words) in [
        (json!({"type": "exec"}), "`exec` needs `template`"),
        (json!({"type": "egress", "template": "x"}), "`egress` is not an action"),
        (json!({"type": "exec", "template": "x", "command": "y"}), "`exec` has no `command`"),
        (json!({"type": "exec", "template": "x", "extra": 1}), "unknown field `extra`"),
        (json!({"type": "exec", "template": "x", "timeout_ms": 999}), "from 1000 to 600000"),
        (json!({"type": "exec", "template": "{{nl:a b}}"}), "names no secret"),
        (
            json!({"type": "inject_stdin", "command": "x", "secret_ref": "plain"}),
            "must be exactly one placeholder",
        ),
        (
            json!({"type": "template", "template_content": "x", "output_path": "/tmp/{{nl:a}}"}),
            "`output_path` takes no placeholders",
        ),
        (
            json!({"type": "launch"}),
            "unknown variant `launch`, expected one of `exec`, `template`, `inject_stdin`, \
             `inject_tempfile`, `sdk_proxy`, `delegate`",
        ),
        (json!({"template": "x"}), "an action needs a `type`: exec, template, inject_stdin"),
    ] {
        let error = serde_json::from_value::<Action>(json).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn handles_come_from_every_field_once() {
    let action: Action = serde_json::from_value(json!({
        "type": "inject_tempfile",
        "command": "tool {{nl:KEY}} {{nl:a/B}} {{nl:a/B}}",
        "file_refs": {"KEY": "{{nl:c/D}}"}
    }))
    .unwrap();
    let handles = action.handles().unwrap();
    assert_eq!(handles.iter().map(Handle::as_written).collect::<Vec<_>>(), ["a/B", "c/D"]);
    let other = Action { purpose: Some("why".into()), ..action.clone() };
    assert_ne!(action.hash(), other.hash());
}

#[test]
fn an_action_has_so_many_handles_and_no_more() {
    let exec = |count: usize| {
        let handles: Vec<_> = (0..count).map(|number| format!("{{{{nl:a{number}}}}}")).collect();
        Action::new(Deed::Exec { template: handles.concat() })
    };
    assert_eq!(exec(MAX_HANDLES).handles().unwrap().len(), MAX_HANDLES);
    let megabyte = exec((1 << 20) / "{{nl:a10000}}".len());
    for action in [exec(MAX_HANDLES + 1), megabyte] {
        assert_eq!(action.handles(), Err(HandleError::TooMany));
    }
    // Fields count together, and the same handle as often as it stands there.
    let file_refs =
        (0..=MAX_HANDLES).map(|number| (format!("F{number}"), "{{nl:a}}".to_owned())).collect();
    let command = "true".to_owned();
    let files = Action::new(Deed::InjectTempfile { command, file_refs, binary: false });
    assert_eq!(files.handles(), Err(HandleError::TooMany));
    let json = json!({"type": "exec", "template": "{{nl:a}}".repeat(MAX_HANDLES + 1)});
    let error = Action::from_json(json).unwrap_err().to_string();
    assert_eq!(error, "an action takes at most 256 placeholders");
}

#[test]
fn a_placeholder_in_a_parameters_name_is_refused() {
    for parameters in [json!({ "{{nl:db/PASSWORD}}": "x" }), json!({ "a": { "{{nl:b}}": 1 } })] {
        let action = json!({
            "type": "sdk_proxy", "provider": "github", "service": "rest", "operation": "GET /user",
            "parameters": parameters, "credentials_ref": "{{nl:github/TOKEN}}",
        });
        let refused = Action::from_json(action).map_or(true, |action| action.handles().is_err());
        assert!(refused, "{parameters}");
    }
}
