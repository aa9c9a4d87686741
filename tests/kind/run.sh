#!/usr/bin/env bash
# The end-to-end tests as users run the product: the image is built and loaded into a kind cluster of its own, deploy/
# is applied, and tests/e2e run against it. Arguments go to pytest. The cluster is removed afterwards, unless
# KEEP_CLUSTER=1; then its kubeconfig is printed.
set -euo pipefail
cd "$(dirname "$0")/../.."

cluster=fluence-test
python=${PYTHON:-.venv/bin/python}
# The kubectl of the virtual environment, where the system has none.
PATH="$PATH:$PWD/.venv/bin"

missing=()
for tool in docker kind kubectl; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" -gt 0 ]; then
    echo "kind-test needs ${missing[*]} on PATH. kind: https://kind.sigs.k8s.io, docker: https://docs.docker.com/engine" >&2
    exit 1
fi
if ! docker info >/dev/null 2>&1; then
    echo "kind-test needs a running Docker daemon; docker info says:" >&2
    docker info >&2 || true
    exit 1
fi

folder=$(mktemp -d)
export KUBECONFIG="$folder/kubeconfig"

clean_up() {
    local status=$?
    if [ "$status" -ne 0 ] && [ -e "$KUBECONFIG" ]; then
        for deployment in fluence fluence-webhook; do
            kubectl logs --namespace fluence-system "deployment/$deployment" --all-containers --prefix --tail 200 || true
        done
    fi
    if [ "${KEEP_CLUSTER:-0}" = 1 ]; then
        echo "The cluster is kept: KUBECONFIG=$KUBECONFIG; remove it with: kind delete cluster --name $cluster"
    else
        kind delete cluster --name "$cluster"
        rm -rf "$folder"
    fi
}
trap clean_up EXIT

image=$(kubectl kustomize deploy | sed -n 's/^ *image: \(fluence-extender:.*\)$/\1/p' | sort -u)
docker build --tag "$image" .
kind create cluster --name "$cluster" --config deploy/kind-config.yaml --wait 180s
kind load docker-image "$image" --name "$cluster"
kubectl apply -k deploy
for deployment in fluence fluence-webhook; do
    kubectl rollout status --namespace fluence-system "deployment/$deployment" --timeout 300s
done
"$python" -m pytest "--override-ini=python_files=test_*.py in_containers.py" tests/e2e --kubeconfig "$KUBECONFIG" "$@"
