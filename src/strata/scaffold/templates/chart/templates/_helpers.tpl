{{- define "example-service.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "example-service.labels" -}}
{{ include "example-service.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* A container that runs a command of the image, named after it; takes (dict "root" $ "name" …). */}}
{{- define "example-service.container" -}}
name: {{ .name }}
image: {{ printf "%s@%s" .root.Values.image.repository .root.Values.image.digest }}
imagePullPolicy: IfNotPresent
args: [{{ .name }}]
envFrom:
  - configMapRef:
      name: {{ .root.Release.Name }}-settings
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml .root.Values.resources | nindent 2 }}
volumeMounts:
  - {name: database, mountPath: /etc/example-service/database, readOnly: true}
  - {name: authorities, mountPath: /etc/example-service/authorities, readOnly: true}
  - {name: scratch, mountPath: /tmp}
{{- end -}}
