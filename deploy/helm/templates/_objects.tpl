{{- /* One document of the output. */}}
{{- define "document" }}
---
{{ toYaml . }}
{{ end }}

{{- /* "true" for an object that the values don't leave out. Helm installs crds/ by itself. */}}
{{- define "wanted" }}
  {{- $kind := .object.kind }}
  {{- $leftOut := list "" "CustomResourceDefinition" }}
  {{- if not .values.createNamespace }}
    {{- $leftOut = concat $leftOut (list "Namespace" "ResourceQuota") }}
  {{- end }}
  {{- if not (has (default "" $kind) $leftOut) }}true{{ end }}
{{- end }}

{{- /* Add labels to an object. */}}
{{- define "labelled" }}
  {{- $_ := set .object.metadata "labels" (merge (dict) .labels (default dict .object.metadata.labels)) }}
{{- end }}

{{- /* Set images, replicas and options of a Deployment. */}}
{{- define "deployment" }}
  {{- $values := .root.Values }}
  {{- $name := .object.metadata.name }}
  {{- $pod := .object.spec.template.spec }}
  {{- $replicas := dict "fluence" $values.replicas "fluence-webhook" $values.webhookReplicas }}
  {{- if hasKey $replicas $name }}{{ $_ := set .object.spec "replicas" (get $replicas $name) }}{{ end }}
  {{- with $values.image.pullSecrets }}
    {{- $secrets := list }}
    {{- range . }}{{ $secrets = append $secrets (dict "name" .) }}{{ end }}
    {{- $_ := set $pod "imagePullSecrets" $secrets }}
  {{- end }}
  {{- range $container := $pod.containers }}
    {{- if eq $container.image "fluence-extender" }}
      {{- $tag := default $.root.Chart.AppVersion $values.image.tag }}
      {{- $_ := set $container "image" (printf "%s:%s" $values.image.repository $tag) }}
    {{- else if $values.schedulerImage }}
      {{- $_ := set $container "image" $values.schedulerImage }}
    {{- end }}
    {{- if eq $container.name "extender" }}
      {{- $arguments := $container.args }}
      {{- if ne $values.engine "auto" }}{{ $arguments = append $arguments (printf "--engine=%s" $values.engine) }}{{ end }}
      {{- if ne $values.bindBy "direct" }}{{ $arguments = append $arguments (printf "--bind-by=%s" $values.bindBy) }}{{ end }}
      {{- $_ := set $container "args" (concat $arguments $values.arguments) }}
      {{- with $values.resources }}{{ $_ := set $container "resources" . }}{{ end }}
      {{- $history := dict "name" "FLUENCE_HISTORY" }}
      {{- with $values.history.url }}{{ $_ := set $history "value" . }}{{ end }}
      {{- with $values.history.secret }}
        {{- $_ := set $history "valueFrom" (dict "secretKeyRef" (dict "name" . "key" "url")) }}
      {{- end }}
      {{- if gt (len $history) 1 }}{{ $_ := set $container "env" (append $container.env $history) }}{{ end }}
    {{- end }}
  {{- end }}
  {{- range $volume := $pod.volumes }}
    {{- if eq $volume.name "scheduler-config" }}
      {{- $_ := set $volume.configMap "name" (include "scheduler" $.root | fromYaml).metadata.name }}
    {{- end }}
  {{- end }}
{{- end }}

{{- /* Make all pods filtered ones, as bind-by-kube-scheduler/ does. */}}
{{- define "class" }}
  {{- range $variable := .spec.variables }}
    {{- if eq $variable.name "filtered" }}{{ $_ := set $variable "expression" "true" }}{{ end }}
  {{- end }}
{{- end }}

{{- /* Let the service reach the database of past work. */}}
{{- define "network" }}
  {{- $history := .values.history }}
  {{- if and (eq .object.metadata.name "fluence") (or $history.url $history.secret) }}
    {{- $port := dict "port" $history.port "protocol" "TCP" }}
    {{- $_ := set .object.spec "egress" (append .object.spec.egress (dict "ports" (list $port))) }}
  {{- end }}
{{- end }}

{{- /* kube-scheduler's configuration. Its name ends in the hash that kustomize makes of the content, so that a change
restarts the scheduler. */}}
{{- define "scheduler" }}
  {{- $kustomization := .Files.Get "manifests/base/kustomization.yaml" | fromYaml }}
  {{- $name := (index $kustomization.configMapGenerator 0).name }}
  {{- $data := dict "scheduler.yaml" (.Files.Get "manifests/base/scheduler.yaml") }}
  {{- $hash := dict "kind" "ConfigMap" "name" "" "data" $data | toJson | sha256sum | trunc 10 }}
  {{- range $digit, $letter := dict "0" "g" "1" "h" "3" "k" "a" "m" "e" "t" }}
    {{- $hash = replace $digit $letter $hash }}
  {{- end }}
  {{- $metadata := dict "name" (printf "%s-%s" $name $hash) "namespace" .Values.namespace }}
  {{- $_ := set $metadata "labels" (index $kustomization.labels 0).pairs }}
  {{- dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data | toYaml }}
{{- end }}
