"""AWS's own models as `sdk_proxy` needs them: of each service its protocol, hosts and operations, and of
each shape how it is written and read. Everything else (documentation, limits, errors) is left out.

Writes a line of JSON (which botocore, and where in what follows each service stands: offset and length),
then one deflated JSON per service. Called by `cargo xtask aws-models`."""

import json
import re
import sys
import zlib

import botocore
import botocore.config
import botocore.session

OUTPUT = sys.argv[1]

# In the order in which they are taken: what is simple first.
PROTOCOLS = ["json", "rest-json", "rest-xml", "query", "ec2"]
# Parts of the world and two regions each, to see what of a host is the region.
PARTITIONS = {
    "": ("eu-west-1", "us-west-2"),
    "cn-": ("cn-north-1", "cn-northwest-1"),
    "eusc-": ("eusc-de-east-1", "eusc-de-east-1"),
    "us-gov-": ("us-gov-west-1", "us-gov-east-1"),
}
SCALARS = {
    "blob": "blob", "boolean": "boolean", "character": "text", "double": "float", "float": "float",
    "integer": "integer", "long": "integer", "string": "text",
}

# What of an answer is a credential: by its name alone, or if the model calls it sensitive too.
CREDENTIAL = re.compile(
    r"(accesstoken|apikey|authcode|authorizationtoken|authtoken|bearertoken|clientsecret|clitoken|connectiontoken"
    r"|hectoken|idtoken|jointoken|participanttoken|passphrase|password|passworddata|privatekey|privatekeybase64"
    r"|privatekeyplaintext|refreshtoken|secretaccesskey|secretbinary|secretkey|secretstring|secrettoken"
    r"|securitytoken|sessiontoken|sharedsecret|tokenvalue|webtoken|^secret)$", re.IGNORECASE)
SENSITIVE_CREDENTIAL = re.compile(
    r"accesskey|activationcode|activationkey|apikey|authcode|authenticationmaterial|authorizedurl|connectionstring"
    r"|credential|customergatewayconfiguration|devicespecifickey|embedurl|environmentvariablevalue|headervalue"
    r"|importmanifesturl|keymaterial|loginurl|passcode|passphrase|password|plaintext|presharedkey|presignedurl"
    r"|privatekey|sampleconfiguration|secret|seed|streamkey|token|uploadpolicysignature", re.IGNORECASE)
NO_CREDENTIAL = re.compile(
    r"arn$|id$|name$|publickey$|type$|endpoint$|(client|continuation|idempotency|next|page|pagination|request|syncsession|task)token$",
    re.IGNORECASE)
# Variables of what is run: any of them may be a credential, as a map of texts or a list of names with values.
ENVIRONMENT = re.compile(
    r"^(additional|container|exported|optimization|override|runtime)?environment(variables|override)?$", re.IGNORECASE)
# Credentials whose names do not say it: service, structure, member.
CREDENTIALS = {
    ("amplify", "Webhook", "webhookUrl"), ("amplifybackend", "CreateTokenResponse", "ChallengeCode"),
    ("amplifybackend", "GetTokenResponse", "ChallengeCode"), ("apigateway", "ApiKey", "value"),
    ("apigateway", "UsagePlanKey", "value"), ("appsync", "ApiKey", "id"), ("chime", "User", "PersonalPIN"),
    ("datazone", "AuthorizationCodeProperties", "authorizationCode"), ("datazone", "GlueOAuth2Credentials", "jwtToken"),
    ("datazone", "ManagedEndpointCredentials", "token"), ("devicefarm", "CreateTestGridUrlResult", "url"),
    ("devicefarm", "RemoteAccessEndpoints", "interactiveEndpoint"),
    ("devicefarm", "RemoteAccessEndpoints", "remoteDriverEndpoint"), ("directconnect", "BGPPeer", "authKey"),
    ("directconnect", "VirtualInterface", "authKey"), ("eks", "ConnectorConfigResponse", "activationCode"),
    ("eks", "License", "token"), ("evs", "LicenseInfo", "solutionKey"), ("evs", "LicenseInfo", "vsanKey"),
    ("gamelift", "PlayerConnectionDetail", "PlayerGatewayToken"),
    ("grafana", "CreateWorkspaceApiKeyResponse", "key"), ("grafana", "ServiceAccountTokenSummaryWithKey", "key"),
    ("grafana", "WorkspaceDescription", "grafanaToken"), ("grafana", "WorkspaceSummary", "grafanaToken"),
    ("iam", "VirtualMFADevice", "QRCodePNG"), ("iot", "SalesforceAction", "token"),
    ("iotwireless", "OtaaV1_0_x", "AppKey"), ("iotwireless", "OtaaV1_0_x", "GenAppKey"),
    ("iotwireless", "OtaaV1_1", "AppKey"), ("iotwireless", "OtaaV1_1", "NwkKey"),
    ("iotwireless", "SessionKeysAbpV1_0_x", "AppSKey"), ("iotwireless", "SessionKeysAbpV1_0_x", "NwkSKey"),
    ("iotwireless", "SessionKeysAbpV1_1", "AppSKey"), ("iotwireless", "SessionKeysAbpV1_1", "FNwkSIntKey"),
    ("iotwireless", "SessionKeysAbpV1_1", "NwkSEncKey"), ("iotwireless", "SessionKeysAbpV1_1", "SNwkSIntKey"),
    ("lightsail", "Session", "url"), ("managedblockchain", "Accessor", "BillingToken"),
    ("managedblockchain", "CreateAccessorOutput", "BillingToken"), ("medialive", "HlsAkamaiSettings", "Token"),
    ("pinpoint", "BaiduChannelResponse", "Credential"), ("pinpoint", "GCMChannelResponse", "Credential"),
    ("securityhub", "AwsEc2VpnConnectionOptionsTunnelOptionsDetails", "PreSharedKey"),
    ("snowball", "GetJobUnlockCodeResult", "UnlockCode"), ("ssm", "CreateActivationResult", "ActivationCode"),
    ("sso-oidc", "StartDeviceAuthorizationResponse", "deviceCode"),
    ("wickr", "CreateDataRetentionBotChallengeResponse", "challenge"), ("wickr", "UpdateUserResponse", "inviteCode"),
    ("wickr", "User", "inviteCode"),
}

session = botocore.session.Session()
session.set_credentials("AKIDEXAMPLE", "key")
regional = botocore.config.Config(s3={"us_east_1_regional_endpoint": "regional"})


def endpoint(name, region):
    client = session.create_client(name, region_name=region, config=regional)
    host = client.meta.endpoint_url.removeprefix("https://")
    assert "/" not in host, (name, host)
    return host, client._request_signer.signing_name, client._request_signer.region_name


def hosts(name):
    """Where a service is in each part of the world, and the name that requests are signed for."""
    found = []
    for prefix, (region, other) in PARTITIONS.items():
        host, signing, signed = endpoint(name, region)
        template = host.replace(region, "{region}")
        entry = {"regions": prefix, "host": template}
        if template == host or template.replace("{region}", other) != endpoint(name, other)[0]:
            # One host for all of that part.
            entry["host"], entry["signed"] = host, signed
        found.append(entry)
        if not prefix:
            name_for_all = signing
    return name_for_all, found


class Service:
    def __init__(self, name):
        self.name = name
        self.model = session.get_service_model(name)
        self.shapes = self.model._service_description["shapes"]
        metadata = self.model.metadata
        protocols = metadata.get("protocols", [metadata["protocol"]])
        self.protocol = next((known for known in PROTOCOLS if known in protocols), None)
        self.numbers, self.written = {}, []
        # Shapes of XML that contain themselves would be read without end.
        self.within = set()

    def number(self, key, shape=None):
        """The number of a shape, which is written down once."""
        assert key not in self.within or "json" in self.protocol, (self.name, key)
        if key not in self.numbers:
            self.numbers[key] = len(self.written)
            self.written.append(key)
            if shape:
                self.within.add(key)
                self.written[self.numbers[key]] = shape()
                self.within.remove(key)
        return self.numbers[key]

    def is_credential(self, owner, member, shape):
        name, shape = shape, self.shapes[shape]
        if shape["type"] not in ("blob", "string") or shape.get("enum"):
            return False
        if (self.name, owner, member) in CREDENTIALS:
            return True
        if NO_CREDENTIAL.search(member):
            return False
        if CREDENTIAL.search(member) and not shape.get("pattern", "").lstrip("^(").startswith("arn"):
            return True
        return bool(shape.get("sensitive")) and bool(
            SENSITIVE_CREDENTIAL.search(member) or SENSITIVE_CREDENTIAL.search(name))

    def of(self, name, owner="", member=""):
        shape = self.shapes[name]
        kind = shape["type"]
        if shape.get("document"):
            return self.number("any")
        if shape.get("eventstream"):
            return self.number("blob")
        if self.is_credential(owner, member, name):
            return self.number("secret")
        if ENVIRONMENT.search(member) and self.is_environment(shape):
            return self.number("environment/" + name, lambda: {kind: self.environment(name, shape)})
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == "timestamp":
            form = shape.get("timestampFormat")
            return self.number("time/" + str(form), lambda: {"time": form and form.lower()})
        build = {"list": self.list, "map": self.map, "structure": self.structure}[kind]
        return self.number("shape/" + name, lambda: {kind: build(name, shape)})

    def is_environment(self, shape):
        """Whether it is a map of texts, or a list of names with values."""
        if shape["type"] == "map":
            return self.shapes[shape["value"]["shape"]]["type"] == "string"
        return shape["type"] == "list" and self.valued(shape) is not None

    def valued(self, shape):
        """Of a list of names with values, what the member with the value is called."""
        members = self.shapes[shape["member"]["shape"]].get("members", {})
        return next((title for title in members if title.lower() == "value"), None)

    def environment(self, name, shape):
        """A map or a list of variables: their values are not told."""
        if shape["type"] == "map":
            return {**self.map(name, shape), "of": self.number("secret")}
        entry, value = shape["member"]["shape"], self.valued(shape)

        def pair():
            written = self.structure(entry, self.shapes[entry])
            written["members"][value]["of"] = self.number("secret")
            return {"structure": written}

        return {**self.list(name, shape), "of": self.number("variable/" + entry, pair)}

    def list(self, name, shape):
        member = shape["member"]
        written = {"of": self.of(member["shape"])}
        self.add(written, name=self.trait(member, "locationName"), flat=shape.get("flattened"))
        return written

    def map(self, name, shape):
        key, value = shape["key"], shape["value"]
        written = {"of": self.of(value["shape"])}
        names = {"key": self.trait(key, "locationName"), "value": self.trait(value, "locationName")}
        known = self.shapes[key["shape"]].get("enum", [])
        secret = [word for word in known if self.is_text(value) and CREDENTIAL.search(word.replace("_", ""))]
        self.add(written, flat=shape.get("flattened"), secret=secret, **names)
        return written

    def structure(self, name, shape):
        members = {}
        for title, member in shape["members"].items():
            written = {"of": self.of(member["shape"], name, title)}
            wire = self.trait(member, "locationName")
            at = {"statusCode": "status", "querystring": "query"}.get(member.get("location"), member.get("location"))
            self.add(
                written, at=at, name=wire if wire != title else None, query=member.get("queryName"),
                flat=member.get("flattened"), attribute=member.get("xmlAttribute"),
                token=member.get("idempotencyToken"), json=member.get("jsonvalue"),
                namespace=self.trait(member, "xmlNamespace"))
            members[title] = written
        written = {"members": members}
        self.add(written, payload=shape.get("payload"))
        return written

    def is_text(self, reference):
        shape = self.shapes[reference["shape"]]
        return shape["type"] == "string" and not shape.get("enum")

    def trait(self, reference, trait):
        return reference.get(trait, self.shapes[reference["shape"]].get(trait))

    @staticmethod
    def add(written, **more):
        written.update({key: value for key, value in more.items() if value})

    def streams(self, reference):
        if not reference:
            return False
        members = self.shapes[reference["shape"]].get("members", {}).values()
        return any(self.shapes[member["shape"]].get("eventstream") for member in members)

    def operation(self, operation):
        if self.streams(operation.get("input")) or self.protocol == "json" and self.streams(operation.get("output")):
            return None
        http, written = operation["http"], {}
        method, uri = http["method"], http["requestUri"].split("#")[0]
        self.add(written, method=method if method != "POST" else None, uri=uri if uri != "/" else None)
        if "input" in operation:
            written["input"] = self.of(operation["input"]["shape"])
        if "output" in operation:
            written["output"] = self.of(operation["output"]["shape"])
        checksum = operation.get("httpChecksum", {})
        needs = operation.get("httpChecksumRequired") or checksum.get("requestChecksumRequired")
        kind = "sha256" if checksum.get("requestAlgorithmMember") else "md5"
        self.add(
            written, wrapper=operation.get("output", {}).get("resultWrapper"),
            root=operation.get("input", {}).get("locationName"),
            namespace=operation.get("input", {}).get("xmlNamespace"),
            prefix=operation.get("endpoint", {}).get("hostPrefix"), checksum=kind if needs else None)
        return written

    def sensitive_and_told(self):
        """Of answers: what the model calls sensitive and nothing above a credential."""
        waiting = [one["output"]["shape"] for one in self.model._service_description["operations"].values()
                   if "output" in one]
        seen, told = set(waiting), []
        while waiting:
            owner = waiting.pop()
            shape = self.shapes[owner]
            below = {"list": "member", "map": "value"}.get(shape["type"])
            members = shape.get("members", {}) if not below else {"": shape[below]}
            for title, member in members.items():
                name = member["shape"]
                variables = ENVIRONMENT.search(title) and self.is_environment(self.shapes[name])
                if self.shapes[name].get("sensitive") and not variables and not self.is_credential(owner, title, name):
                    told.append(f"{owner}.{title}")
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return sorted(told)

    def data(self):
        metadata = self.model.metadata
        if self.protocol is None or metadata.get("signatureVersion") in ("bearer", "v2"):
            return None
        operations = self.model._service_description["operations"]
        written = {title: self.operation(one) for title, one in operations.items()}
        signing, where = hosts(self.name)
        data = {"protocol": self.protocol, "version": metadata["apiVersion"], "signing": signing, "hosts": where}
        self.add(data, target=metadata.get("targetPrefix"), json=metadata.get("jsonVersion"))
        data["operations"] = {title: one for title, one in written.items() if one is not None}
        for title in operations.keys() - data["operations"].keys():
            print("left out:", self.name, title, file=sys.stderr)
        data["shapes"] = self.written
        return data


index, blobs, offset = {}, [], 0
for name in sorted(session.get_available_services()):
    service = Service(name)
    data = service.data()
    if data is None:
        print("left out:", name, file=sys.stderr)
        continue
    if told := service.sensitive_and_told():
        # For a person to look at, when the models are new.
        print("sensitive, and told:", name, *told, file=sys.stderr)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    blob = packed.compress(text.encode()) + packed.flush()
    index[name] = [offset, len(blob)]
    blobs.append(blob)
    offset += len(blob)
head = {
    "source": "botocore " + botocore.__version__ + ", (c) Amazon.com, Inc. or its affiliates, Apache-2.0",
    "services": index,
}
with open(OUTPUT, "wb") as file:
    file.write(json.dumps(head, separators=(",", ":"), sort_keys=True).encode() + b"\n" + b"".join(blobs))
