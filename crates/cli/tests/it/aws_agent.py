"""What an agent does with AWS by boto3, knowing nothing of Keyless."""

import os
import urllib.error
import urllib.request

import boto3
from botocore.config import Config

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


def refused(url, **headers):
    try:
        urllib.request.urlopen(urllib.request.Request(url, headers=headers))
    except urllib.error.HTTPError as error:
        return error.headers["X-Keyless-Refused"] + ": " + error.read().decode()
    raise AssertionError("it was let through")


print(refused(get.replace("X-Amz-Expires=60", "X-Amz-Expires=600")))
scope = "/20260101/us-east-1/s3/aws4_request"
print(
    refused(
        "https://s3.us-east-1.amazonaws.com/site/x",
        Authorization="AWS4-HMAC-SHA256 Credential=" + os.environ["AWS_ACCESS_KEY_ID"] + scope
        + ", SignedHeaders=host;x-amz-date, Signature=" + "0" * 64,
        **{"x-amz-date": "20260101T000000Z", "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
    )
)
