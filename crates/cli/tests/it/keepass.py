"""Makes KeePass databases with pykeepass, and keyfiles: `keepass.py FILE '{"version": 3, …}'`.

pykeepass opens both versions and makes version 4 alone: a header of version 3.1 is put around its document here.
"""

import base64
import hashlib
import json
import sys

from construct import Container
from lxml import etree
from pykeepass import create_database
from pykeepass.kdbx_parsing import kdbx4
from pykeepass.kdbx_parsing.common import IV_LENGTH
from pykeepass.kdbx_parsing.kdbx import KDBX

file, wanted = sys.argv[1], json.loads(sys.argv[2])
password, keyfile = wanted.get("password"), wanted.get("keyfile")
database = create_database(file, password=password, keyfile=keyfile)

# What is asked for stands between fields, entries and groups that it must not be taken for.
other = database.add_entry(database.root_group, "github", "eve", "not-this-one")
other.set_custom_property("card", "4111", protect=True)
group = database.add_group(database.add_group(database.root_group, "team"), "api")
entry = database.add_entry(group, "token", "ada.lovelace", "an older value", url="https://github.com", notes="Zwölf\n& mehr")
entry.save_history()
entry.password = wanted["value"]
entry.set_custom_property("deploy key", wanted["value"] + "-field", protect=True)
entry.otp = "otpauth://totp/x?secret=JBSWY3DPEHPK3PXP"
entry.set_custom_property("TimeOtp-Secret-Base32", "JBSWY3DPEHPK3PXP", protect=True)
database.add_entry(group, "twice", "ada", "one")
database.add_entry(group, "twice", "bob", "two", force_creation=True)
database.add_entry(group, "refers", "ada", "{REF:P@I:46C9B1FFBD4ABC4BBB260C6190BAD20C}")
database.trash_entry(database.add_entry(group, "gone", "ada", "thrown away"))

inner = database.kdbx.body.payload.inner_header
inner.protected_stream_id.data = wanted.get("stream", "chacha20")
header = database.kdbx.header.value.dynamic_header
header.cipher_id.data = wanted.get("cipher", "aes256")
header.encryption_iv.data = bytes(IV_LENGTH[header.cipher_id.data])
header.compression_flags.data.compression = wanted.get("compressed", True)


def item(name, data):
    return Container(id=name, data=data)


def number(name, kind, value):
    return Container(type=kind, key=name, value=value, next_byte=kind)


derivation, rounds = wanted.get("derivation", "argon2"), wanted.get("rounds", 6000)
if wanted["version"] == 3:
    fields = {
        "cipher_id": header.cipher_id.data,
        "compression_flags": header.compression_flags.data,
        "master_seed": bytes(32),
        "transform_seed": bytes(32),
        "transform_rounds": rounds,
        "encryption_iv": header.encryption_iv.data,
        "protected_stream_key": bytes(32),
        "stream_start_bytes": bytes(32),
        "protected_stream_id": inner.protected_stream_id.data,
        "end": b"\r\n\r\n",
    }
    value = database.kdbx.header.value
    value.major_version, value.minor_version = 3, 1
    value.dynamic_header = Container((name, item(name, data)) for name, data in fields.items())
else:
    settings = header.kdf_parameters.data.dict
    settings["$UUID"].value = kdbx4.kdf_uuids[derivation]
    if derivation == "aeskdf":
        # A name with a type, and the type that is next: zero at the end.
        settings.clear()
        settings["$UUID"] = number("$UUID", 0x42, kdbx4.kdf_uuids[derivation])
        settings["R"] = number("R", 0x05, rounds)
        settings["S"] = number("S", 0x42, bytes(32))
        settings["S"].next_byte = 0
    else:
        settings["M"].value, settings["I"].value = 1024 * 1024, 2
    if "memory" in wanted:
        settings["M"].value = wanted["memory"]
if wanted["version"] == 3:
    # Without new seeds in between, so that the document can vouch for the header.
    def write():
        KDBX.build_file(database.kdbx, file, password=password, keyfile=keyfile, transformed_key=None, decrypt=True)
        with open(file, "rb") as written:
            return written.read()

    written, end = write(), 12
    while written[end] != 0:
        end += 3 + int.from_bytes(written[end + 1 : end + 3], "little")
    end += 3 + len(fields["end"])
    meta = database.kdbx.body.payload.xml.find("Meta")
    etree.SubElement(meta, "HeaderHash").text = base64.b64encode(hashlib.sha256(written[:end]).digest())
    write()
else:
    # What nobody can derive is made with a key out of the air.
    database.save(transformed_key=bytes(32) if "memory" in wanted else None)
