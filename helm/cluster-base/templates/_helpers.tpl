{{/* Name of the device plugin's objects: the release's, so that two releases do not meet. */}}
{{- define "cluster-base.device-plugin.name" -}}
{{- printf "%s-device-plugin" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the device plugin's pods; never changes in the life of a release. */}}
{{- define "cluster-base.device-plugin.selector" -}}
app.kubernetes.io/name: device-plugin
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "cluster-base.labels" -}}
app.kubernetes.io/part-of: strata
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
