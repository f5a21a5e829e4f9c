{{/* The namespace, also the name of the objects that it has one of. */}}
{{- define "tenant.namespace" -}}
{{- .Values.namespace -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "tenant.labels" -}}
app.kubernetes.io/name: tenant
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: strata
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
