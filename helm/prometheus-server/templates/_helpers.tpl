{{- define "prometheus-server.fullname" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end -}}

{{/* The name is the one by which services' policies know what scrapes them. */}}
{{- define "prometheus-server.selectorLabels" -}}
app.kubernetes.io/name: prometheus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "alertmanager.selectorLabels" -}}
app.kubernetes.io/name: alertmanager
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "alertmanager.labels" -}}
{{ include "alertmanager.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "prometheus-server.labels" -}}
{{ include "prometheus-server.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
