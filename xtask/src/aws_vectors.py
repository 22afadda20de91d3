"""Requests of some operations of each protocol with every parameter that they have, as botocore's own
serializers write them. Called by `cargo xtask aws-models`."""

import datetime
import json
import sys
import urllib.parse

import botocore.serialize
import botocore.session

# Every how many-th operation of a service is taken.
SERVICES = {
    "apigateway": 8, "cloudwatch": 3, "dynamodb": 6, "ec2": 9, "elbv2": 3, "iam": 5, "iot": 12, "lambda": 4, "rds": 8,
    "route53": 2, "s3": 1, "s3control": 4, "secretsmanager": 3, "sns": 2, "sqs": 3, "sts": 1,
}
PROTOCOLS = ["json", "rest-json", "rest-xml", "query", "ec2"]
TIME = datetime.datetime(2024, 2, 29, 12, 0, 1, tzinfo=datetime.timezone.utc)
SCALARS = {"boolean": True, "double": 1.5, "float": 1.5, "integer": 7, "long": 7}


def example(shape, within=(), is_body=False):
    """A value as botocore takes it and one as the product does; None within itself."""
    kind = shape.type_name
    if shape.name in within:
        return None
    within += (shape.name,)
    if kind == "structure":
        members = {name: example(member, within, name == shape.serialization.get("payload"))
                   for name, member in sorted(shape.members.items())}
        members = {name: pair for name, pair in members.items() if pair}
        return tuple({name: pair[side] for name, pair in members.items()} for side in (0, 1))
    if kind in ("list", "map"):
        pair = example(shape.member if kind == "list" else shape.value, within)
        return pair and tuple([one, one] if kind == "list" else {"k": one} for one in pair)
    if kind == "blob":
        return (b"ab", "ab") if is_body else (b"ab", "YWI=")
    if kind == "timestamp":
        return TIME, "2024-02-29T12:00:01Z"
    if kind in SCALARS:
        return SCALARS[kind], SCALARS[kind]
    text = "v-1" if shape.serialization.get("location") in ("header", "headers", "uri") else 'a b<&"/é'
    return text, text


def text_of(body):
    if isinstance(body, dict):
        body = "&".join(f"{quote(name)}={quote(str(value))}" for name, value in body.items())
    return body.decode() if isinstance(body, bytes) else body


def quote(text):
    return urllib.parse.quote(text, safe="")


def vectors(session):
    for service, step in SERVICES.items():
        model = session.get_service_model(service)
        known = model.metadata.get("protocols", [model.metadata["protocol"]])
        protocol = next(one for one in PROTOCOLS if one in known)
        serializer = botocore.serialize.create_serializer(protocol, include_validation=False)
        for name in list(model.operation_names)[::step]:
            operation = model.operation_model(name)
            if operation.has_event_stream_input:
                continue
            theirs, ours = example(operation.input_shape) if operation.input_shape else ({}, {})
            request = serializer.serialize_to_request(theirs, operation)
            path, _, fixed = request["url_path"].partition("?")
            pairs = [pair.partition("=")[::2] for pair in fixed.split("&") if pair]
            for key, value in (request["query_string"] or {}).items():
                pairs += [(key, str(one)) for one in (value if isinstance(value, list) else [value])]
            headers = {key.lower(): str(value) for key, value in request["headers"].items()}
            # The first is the body's own affair, the second only about errors.
            headers = {key: value for key, value in headers.items()
                       if key not in ("content-length", "x-amzn-query-mode")}
            yield {
                "service": service, "operation": name, "parameters": ours, "method": request["method"], "path": path,
                "query": sorted(pairs), "headers": headers, "body": text_of(request["body"]),
                "prefix": request.get("host_prefix") or "",
            }


lines = [json.dumps(one, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
         for one in vectors(botocore.session.Session())]
# What is very long says nothing that others do not.
lines = [line for line in lines if len(line) < 12000]
with open(sys.argv[1], "w") as file:
    file.write("[\n" + ",\n".join(lines) + "\n]\n")
