#!/bin/sh
# An S3 server on port 8333 for one key pair, with one bucket. The key file lies in memory (/tmp is a tmpfs), not on disk.
set -eu
umask 077
cat >/tmp/s3.json <<KEYS
{"identities": [{"name": "foundry", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
  "credentials": [{"accessKey": "$AWS_ACCESS_KEY_ID", "secretKey": "$AWS_SECRET_ACCESS_KEY"}]}]}
KEYS
exec weed -v=0 server -dir=/data -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.volumeSizeLimitMB=1024 -volume.max=0 \
    -filer -s3 -s3.config=/tmp/s3.json -s3.port=8333
