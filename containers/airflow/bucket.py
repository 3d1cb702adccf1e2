"""Makes the bucket that ``FOUNDRY_STORE`` names, where it is missing and the server is the stack's own.

The steps' keys make no bucket; ``S3_ADMIN_KEY`` does, and no other server knows it. There keys may be limited to the
store's prefix, and then see what lies below it and not the bucket itself.
"""

import os
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

OWN = "seaweedfs"
"""The service of docker-compose.yml."""
FORBIDDEN, MISSING = 403, 404
CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 8})


def refusal(bucket: str, prefix: str) -> ClientError | None:
    """Why these keys do not get at the store, if they do not."""
    client = boto3.client("s3", config=CONFIG)
    try:
        try:
            client.head_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != FORBIDDEN:
                raise
            client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (FORBIDDEN, MISSING):
            raise
        return error
    return None


def main() -> None:
    """See above."""
    address, endpoint = urlsplit(os.environ["FOUNDRY_STORE"]), os.environ["AWS_ENDPOINT_URL_S3"]
    bucket, prefix = address.netloc, f"{address.path.strip('/')}/".lstrip("/")
    if address.scheme != "s3" or not (refused := refusal(bucket, prefix)):
        return
    if urlsplit(endpoint).hostname != OWN:
        raise SystemExit(
            f"{endpoint} has no bucket {bucket!r}, or S3_ACCESS_KEY may not list {prefix!r} in it "
            f"({refused.response['Error']['Code']}): make the bucket, or give keys that may list, read, write and "
            f"delete below {os.environ['FOUNDRY_STORE']}; FOUNDRY_STORE, S3_ENDPOINT and S3_ACCESS_KEY are in .env"
        )
    keys = {"aws_access_key_id": os.environ["S3_ADMIN_KEY"], "aws_secret_access_key": os.environ["S3_ADMIN_SECRET"]}
    boto3.client("s3", config=CONFIG, **keys).create_bucket(Bucket=bucket)


if __name__ == "__main__":
    main()
