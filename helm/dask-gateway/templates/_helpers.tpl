{{/* Name of every object: the release's, where it already holds the chart's. */}}
{{- define "dask-gateway.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dask-gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dask-gateway.labels" -}}
{{ include "dask-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* One container of the image, named by its part; takes (dict "root" $ "part" …). */}}
{{- define "dask-gateway.container" -}}
name: {{ .part }}
image: {{ printf "%s@%s" .root.Values.image.repository .root.Values.image.digest }}
imagePullPolicy: IfNotPresent
args: [{{ .part }}]
env:
  - {name: DASK_GATEWAY_SETTINGS, value: /etc/dask-gateway/settings/settings.json}
  - {name: DASK_GATEWAY_HUB_TOKEN, value: /etc/dask-gateway/hub/token}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml .root.Values.resources | nindent 2 }}
volumeMounts:
  - {name: settings, mountPath: /etc/dask-gateway/settings, readOnly: true}
  - {name: hub, mountPath: /etc/dask-gateway/hub, readOnly: true}
  - {name: scratch, mountPath: /tmp}
{{- end -}}
