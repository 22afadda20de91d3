"""What an agent does with AWS by boto3, knowing nothing of Keyless."""

import base64
import gzip
import hashlib
import os
import urllib.error
import urllib.request
import zlib

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

os.environ["AWS_S3_US_EAST_1_REGIONAL_ENDPOINT"] = "regional"
os.environ["AWS_STS_REGIONAL_ENDPOINTS"] = "regional"
assert os.environ["AWS_SECRET_ACCESS_KEY"].startswith("kloak_")
session = boto3.session.Session(region_name="us-east-1")
config = Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
s3 = session.client("s3", config=config)
s3.create_bucket(Bucket="site")
key = "a folder/ü+~$ &=;x.txt"
s3.put_object(Bucket="site", Key=key, Body=b"streamed with a trailer" * 1000)
assert s3.get_object(Bucket="site", Key=key)["Body"].read() == b"streamed with a trailer" * 1000
owners = b"packed by its owner" * 100
s3.put_object(Bucket="site", Key="packed", Body=gzip.compress(owners), ContentEncoding="gzip")
# Looked through on its way back, so packed anew, and without the checksum of the first packing.
assert gzip.decompress(s3.get_object(Bucket="site", Key="packed")["Body"].read()) == owners
listed = s3.list_objects_v2(Bucket="site", Prefix="a folder/", Delimiter="/")
assert [item["Key"] for item in listed["Contents"]] == [key], listed
get = s3.generate_presigned_url("get_object", Params={"Bucket": "site", "Key": key}, ExpiresIn=60)
assert urllib.request.urlopen(get).read().startswith(b"streamed")
put = s3.generate_presigned_url("put_object", Params={"Bucket": "site", "Key": "put"}, ExpiresIn=60)
plain = {"content-type": "text/plain"}
urllib.request.urlopen(urllib.request.Request(put, data=b"by url", method="PUT", headers=plain))
assert s3.get_object(Bucket="site", Key="put")["Body"].read() == b"by url"

retries = Config(retries={"total_max_attempts": 1})
print(session.client("sts", config=retries).get_caller_identity()["Account"])
dynamo = session.client("dynamodb", config=retries)
dynamo.create_table(
    TableName="t",
    KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    BillingMode="PAY_PER_REQUEST",
)
assert dynamo.list_tables()["TableNames"] == ["t"]


def refused(request):
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        return error.headers["X-Keyless-Refused"] + ": " + error.read().decode()
    raise AssertionError("it was let through")


print(refused(get.replace("X-Amz-Expires=60", "X-Amz-Expires=600")))


class Chunked(S3SigV4Auth):
    """A payload whose chunks are signed one by one, as Java's SDK sends it."""

    def __init__(self, trailer):
        keys = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        super().__init__(keys, "s3", "us-east-1")
        self.trailer = trailer

    def payload(self, request):
        return "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if self.trailer else "")

    def next(self, kind, *digests):
        lines = ["AWS4-HMAC-SHA256-" + kind, self.time, self.credential_scope(self.request), self.last, *digests]
        self.last = self.signature("\n".join(lines), self.request)
        return self.last.encode()

    def send(self, url, chunks):
        digest = lambda data: hashlib.sha256(data).hexdigest()
        size = sum(map(len, chunks))
        headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(size)}
        # urllib would call it a form, and moto would read it as one.
        headers["content-type"] = "application/octet-stream"
        if self.trailer:
            headers["x-amz-trailer"] = self.trailer.split(b":")[0].decode()
        self.request = AWSRequest("PUT", url, headers=headers)
        self.add_auth(self.request)
        self.time = self.request.context["timestamp"]
        self.last = self.request.headers["Authorization"].rsplit("=", 1)[1]
        body = b""
        for data in [*chunks, b""]:
            signature = self.next("PAYLOAD", digest(b""), digest(data))
            body += b"%x;chunk-signature=%s\r\n" % (len(data), signature)
            body += data + b"\r\n" if data else b""
        if self.trailer:
            signature = self.next("TRAILER", digest(self.trailer + b"\n"))
            body += self.trailer + b"\r\nx-amz-trailer-signature:" + signature + b"\r\n"
        return urllib.request.Request(url, data=body + b"\r\n", method="PUT", headers=dict(self.request.headers))


url = "https://s3.us-east-1.amazonaws.com/site/"
parts = [b"a" * 65536, b"b" * 65536, b"c" * 1024]
urllib.request.urlopen(Chunked(None).send(url + "signed", parts))
assert s3.get_object(Bucket="site", Key="signed")["Body"].read() == b"".join(parts)
checksum = b"x-amz-checksum-crc32:" + base64.b64encode(zlib.crc32(b"".join(parts)).to_bytes(4, "big"))
urllib.request.urlopen(Chunked(checksum).send(url + "trailer", parts))
assert s3.get_object(Bucket="site", Key="trailer")["Body"].read() == b"".join(parts)
changed = Chunked(None).send(url + "changed", parts)
changed.data = changed.data.replace(b"b" * 65536, b"b" * 65535 + b"x")
print(refused(changed))
# What some regions' presigned URLs are by default.
older = session.client("s3", config=Config(signature_version="s3", s3={"addressing_style": "path"}))
print(refused(older.generate_presigned_url("get_object", Params={"Bucket": "site", "Key": key})))

foreign = session.client("s3", aws_access_key_id="AKIAOTHER", aws_secret_access_key="x" * 40, config=config)
print(refused(foreign.generate_presigned_url("get_object", Params={"Bucket": "site", "Key": key})))
