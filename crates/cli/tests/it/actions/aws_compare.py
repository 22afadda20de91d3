"""Whether what was told of each call is what botocore's own parser makes of the same answer.

Standard input: a list of {"service", "operation", "data"}; $ANSWERS: the answers in the same order. Prints
what differs, a line each."""

import base64
import datetime
import json
import os
import sys

import botocore.parsers
import botocore.session
from botocore.awsrequest import HeadersDict
from botocore.utils import parse_timestamp

# As the product prefers them: of several the models' first is CBOR.
PROTOCOLS = ["json", "rest-json", "rest-xml", "query", "ec2"]
session = botocore.session.get_session()


def differences(place, theirs, ours):
    if ours == "[withheld]" and isinstance(theirs, (str, bytes)):
        return
    if isinstance(theirs, datetime.datetime):
        if parse_timestamp(ours) != theirs:
            yield f"{place}: {theirs} is {ours}"
    elif isinstance(theirs, bytes):
        if base64.b64decode(ours) != theirs:
            yield f"{place}: {theirs} is {ours}"
    elif isinstance(theirs, dict) and isinstance(ours, dict):
        for name in theirs.keys() ^ ours.keys():
            yield f"{place}: only one side has {name}"
        for name in theirs.keys() & ours.keys():
            yield from differences(f"{place}.{name}", theirs[name], ours[name])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, pair in enumerate(zip(theirs, ours)):
            yield from differences(f"{place}[{index}]", *pair)
    elif (type(theirs), theirs) != (type(ours), ours) and (float, theirs) != (float, ours):
        yield f"{place}: {theirs!r} is {ours!r}"


calls = json.load(sys.stdin)
answers = [json.loads(line) for line in open(os.environ["ANSWERS"])]
assert len(calls) == len(answers), (len(calls), len(answers))
for call, answer in zip(calls, answers):
    model = session.get_service_model(call["service"])
    title = call["operation"].replace("_", "").lower()
    title = next(name for name in model.operation_names if name.lower() == title)
    known = model.metadata.get("protocols", [model.metadata["protocol"]])
    parser = botocore.parsers.create_parser(next(one for one in PROTOCOLS if one in known))
    answer["body"] = base64.b64decode(answer["body"])
    answer["headers"] = HeadersDict(answer["headers"])
    shape = model.operation_model(title).output_shape
    parsed = parser.parse(answer, shape)
    parsed.pop("ResponseMetadata", None)
    if title == "GetBucketLocation":
        # As botocore's own handler for it does.
        parsed = {"LocationConstraint": None}
    for line in differences(f"{call['service']}.{call['operation']}", parsed, call["data"]):
        print(line)
