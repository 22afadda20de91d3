"""Judges cases by JSON Schemas, and prints each whose judgement is another than it says.

A case names its schema: one of `schemas`, each whole by itself, or one under `$defs` of `all`.
"""
import json
import sys

from jsonschema import Draft202012Validator

asked = json.load(sys.stdin)
schemas = asked.get("schemas", {})
for schema in schemas.values():
    Draft202012Validator.check_schema(schema)
definitions = asked.get("all", {}).get("$defs", {})
validators = {name: Draft202012Validator(schema) for name, schema in schemas.items()}
for name in definitions.keys() - schemas.keys():
    validators[name] = Draft202012Validator({"$ref": "#/$defs/" + name, "$defs": definitions})
for case in asked["cases"]:
    faults = list(validators[case["schema"]].iter_errors(case["value"]))
    if case["valid"] == bool(faults):
        print(case["schema"], case["what"], [(fault.json_path, fault.message[-400:]) for fault in faults])
