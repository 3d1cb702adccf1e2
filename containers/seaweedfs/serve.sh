#!/bin/sh
# An S3 server on port 8333 for two pairs of keys: the steps' own may do with the objects of one bucket what a store does
# and nothing else; the administrator's makes that bucket. Master, volume and filer stay on the container's own loopback.
# The master is alone: after a crash it need not wait ten seconds for others before it elects itself. The keys do not come
# in variables called AWS_…: whoever is named by these is an administrator to SeaweedFS, whatever the file says.
set -eu
umask 077
cd "$(mktemp -d)"
S3_BUCKET=${FOUNDRY_STORE#s3://}
S3_BUCKET=${S3_BUCKET%%/*}
# S3's gRPC port (18333) is bound wherever S3 is and makes administrators for whoever calls it. With these it answers
# only callers that hold this certificate's key, which never leaves this folder: nobody.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj /CN=seaweedfs \
    -keyout grpc.key -out grpc.crt
export WEED_GRPC_CA="$PWD/grpc.crt" WEED_GRPC_S3_CERT="$PWD/grpc.crt" WEED_GRPC_S3_KEY="$PWD/grpc.key"
POLICY=$(tr -d '\n' <<JSON | sed 's/"/\\"/g'
{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Resource": "arn:aws:s3:::$S3_BUCKET/*",
   "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]},
  {"Effect": "Allow", "Resource": "arn:aws:s3:::$S3_BUCKET", "Action": "s3:ListBucket"}
]}
JSON
)
cat >s3.json <<JSON
{"policies": [{"name": "store", "content": "$POLICY"}],
 "identities": [
  {"name": "steps", "policyNames": ["store"],
   "credentials": [{"accessKey": "$S3_ACCESS_KEY", "secretKey": "$S3_SECRET_KEY"}]},
  {"name": "admin", "actions": ["Admin"],
   "credentials": [{"accessKey": "$S3_ADMIN_KEY", "secretKey": "$S3_ADMIN_SECRET"}]}
]}
JSON
exec weed -logtostderr server -dir=/data -ip=127.0.0.1 -ip.bind=127.0.0.1 \
    -master.electionTimeout=1s -master.volumeSizeLimitMB="${VOLUME_MB:-1024}" -master.telemetry=false \
    -volume.max=0 -filer \
    -s3 -s3.config="$PWD/s3.json" -s3.ip.bind=0.0.0.0 -s3.port=8333 -s3.port.iceberg=0 -s3.port.lance=0 \
    -s3.autoCreateBucket=false
