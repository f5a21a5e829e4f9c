{{/* The API's pod. */}}
{{- define "inference.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "inference.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "inference.labels" -}}
{{ include "inference.selectorLabels" . }}
{{ include "inference.commonLabels" . }}
{{- end -}}

{{/* Pods of all models; the hub admits them by the first. */}}
{{- define "inference.modelsLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-model
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Replicas of a model's Deployment: what the API has set last, also through an upgrade; takes (dict "root" $ "name" …). */}}
{{- define "inference.replicas" -}}
{{- $deployment := lookup "apps/v1" "Deployment" .root.Release.Namespace .name -}}
{{- dig "spec" "replicas" 0 ($deployment | default dict) -}}
{{- end -}}
