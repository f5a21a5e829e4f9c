{{/* Labels of every object. */}}
{{- define "namespace.labels" -}}
app.kubernetes.io/name: namespace
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: strata
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
