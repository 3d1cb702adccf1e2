"""Makes the bucket that ``FOUNDRY_STORE`` names, where it is missing."""

import os
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

address = urlsplit(os.environ["FOUNDRY_STORE"])
if address.scheme == "s3":
    client = boto3.client("s3", config=Config(retries={"mode": "standard", "total_max_attempts": 8}))
    try:
        client.head_bucket(Bucket=address.netloc)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        client.create_bucket(Bucket=address.netloc)
