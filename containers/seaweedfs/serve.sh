#!/bin/sh
# An S3 server on port 8333 for two pairs of keys: the steps' own may read, write, list and delete in one bucket and do
# nothing else; the administrator's makes that bucket. Master, volume and filer stay on the container's own loopback. The
# master is alone: after a crash it need not wait ten seconds for others before it elects itself. The keys do not come in
# variables called AWS_…: whoever is named by these is an administrator to SeaweedFS, whatever the file says.
set -eu
umask 077
S3_BUCKET=${FOUNDRY_STORE#s3://}
S3_BUCKET=${S3_BUCKET%%/*}
cat >/tmp/s3.json <<KEYS
{"identities": [
  {"name": "steps", "actions": ["Read:$S3_BUCKET", "Write:$S3_BUCKET", "List:$S3_BUCKET"],
   "credentials": [{"accessKey": "$S3_ACCESS_KEY", "secretKey": "$S3_SECRET_KEY"}]},
  {"name": "admin", "actions": ["Admin"],
   "credentials": [{"accessKey": "$S3_ADMIN_KEY", "secretKey": "$S3_ADMIN_SECRET"}]}
]}
KEYS
exec weed -logtostderr server -dir=/data -ip=127.0.0.1 -ip.bind=127.0.0.1 \
    -master.electionTimeout=1s -master.volumeSizeLimitMB="${VOLUME_MB:-1024}" -master.telemetry=false \
    -volume.max=0 -filer \
    -s3 -s3.config=/tmp/s3.json -s3.ip.bind=0.0.0.0 -s3.port=8333 -s3.port.iceberg=0 -s3.port.lance=0 \
    -s3.autoCreateBucket=false
