"""Makes the bucket that ``FOUNDRY_STORE`` names, where it is missing.

The steps' keys only tell whether it is there: they may make no bucket. ``S3_ADMIN_KEY`` does, and nothing else.
"""

import os
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

MISSING = (403, 404)
"""A server need not say what is there to keys that may not look."""
address = urlsplit(os.environ["FOUNDRY_STORE"])
if address.scheme == "s3":
    config = Config(retries={"mode": "standard", "total_max_attempts": 8})
    try:
        boto3.client("s3", config=config).head_bucket(Bucket=address.netloc)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] not in MISSING:
            raise
        keys = {"aws_access_key_id": os.environ["S3_ADMIN_KEY"], "aws_secret_access_key": os.environ["S3_ADMIN_SECRET"]}
        boto3.client("s3", config=config, **keys).create_bucket(Bucket=address.netloc)
