"""Judges cases by JSON Schemas, and prints each whose judgement is another than it says."""
import json
import sys

from jsonschema import Draft202012Validator

asked = json.load(sys.stdin)
for schema in asked["schemas"].values():
    Draft202012Validator.check_schema(schema)
for case in asked["cases"]:
    faults = list(Draft202012Validator(asked["schemas"][case["schema"]]).iter_errors(case["value"]))
    if case["valid"] == bool(faults):
        print(case["schema"], case["what"], [fault.message for fault in faults])
