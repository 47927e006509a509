#!/usr/bin/env bash
# Creates certificates for the admission webhook with OpenSSL and stores them in the cluster, as an alternative to those
# that the controller creates. Prints the command that makes API servers trust them.
#
#   DAYS=365 ./config/webhook/generate-certs.sh
set -euo pipefail
KUBECTL=${KUBECTL:-kubectl}
NAMESPACE=${NAMESPACE:-pod-sequence-system}
SERVICE=pod-sequence-webhook
SECRET=pod-sequence-webhook-certs
CONFIGURATION=podsequence-mutating-webhook
DAYS=${DAYS:-365}

for program in openssl "$KUBECTL"; do
    command -v "$program" >/dev/null || { echo "$program is needed and was not found" >&2; exit 1; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
umask 077
openssl=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

echo "Making an authority and a certificate for $SERVICE.$NAMESPACE.svc, valid for $DAYS days" >&2
"${openssl[@]}" -x509 -days "$DAYS" -subj "/CN=$SERVICE-ca" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" \
    -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
"${openssl[@]}" -subj "/CN=$SERVICE" -keyout "$dir/tls.key" -out "$dir/tls.csr" \
    2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
cat >"$dir/extensions" <<EXTENSIONS
subjectAltName=DNS:$SERVICE.$NAMESPACE.svc,DNS:$SERVICE.$NAMESPACE.svc.cluster.local,DNS:localhost,IP:127.0.0.1
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
EXTENSIONS
openssl x509 -req -in "$dir/tls.csr" -days "$DAYS" -extfile "$dir/extensions" \
    -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -out "$dir/tls.crt" \
    2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }

if ! "$KUBECTL" get namespace "$NAMESPACE" >/dev/null 2>&1; then
    "$KUBECTL" create namespace "$NAMESPACE" --dry-run=client -o yaml | "$KUBECTL" apply -f - >&2
fi
# Not managed: the controller serves the certificate and reloads it when it changes, but never writes it. The
# authority's key exists only in the temporary directory, and is deleted with it.
"$KUBECTL" create secret generic "$SECRET" -n "$NAMESPACE" --dry-run=client -o yaml \
    --from-file="$dir/tls.crt" --from-file="$dir/tls.key" --from-file="$dir/ca.crt" |
    "$KUBECTL" annotate --local -f - -o yaml podsequence.example.com/managed-certificates=false |
    "$KUBECTL" apply -f - >&2

bundle=$(base64 <"$dir/ca.crt" | tr -d '\n')
cat <<COMMAND
# Run this now, and after each kubectl apply -f config/webhook/webhook.yaml:
kubectl patch mutatingwebhookconfiguration $CONFIGURATION \\
  --type='json' -p='[{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value":"$bundle"}]'
COMMAND
