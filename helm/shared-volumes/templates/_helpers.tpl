{{/* Labels of every object. */}}
{{- define "shared-volumes.labels" -}}
app.kubernetes.io/name: shared-volumes
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: strata
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
