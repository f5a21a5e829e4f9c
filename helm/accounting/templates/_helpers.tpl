{{/* Name of every object: the release's, where it already holds the chart's. */}}
{{- define "accounting.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "accounting.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Pods that take users' measurements. */}}
{{- define "accounting.measurementsLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-measurements
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "accounting.labels" -}}
{{ include "accounting.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* One container of the image, named by the command that it runs; takes (dict "root" $ "command" …). */}}
{{- define "accounting.container" -}}
name: {{ .command }}
image: {{ printf "%s@%s" .root.Values.image.repository .root.Values.image.digest }}
imagePullPolicy: IfNotPresent
args: [{{ .command }}]
envFrom:
  - configMapRef:
      name: {{ include "accounting.fullname" .root }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml .root.Values.resources | nindent 2 }}
volumeMounts:
  - {name: database, mountPath: /etc/accounting/database, readOnly: true}
  - {name: ca, mountPath: /etc/accounting/ca, readOnly: true}
  - {name: scratch, mountPath: /tmp}
{{- end -}}

{{/* What all pods have in common. */}}
{{- define "accounting.podSettings" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "accounting.volumes" -}}
- name: database
  secret:
    secretName: {{ .Values.database.existingSecret.name }}
    defaultMode: 0440
    items:
      - {key: {{ .Values.database.existingSecret.key }}, path: password}
- name: ca
  configMap:
    name: {{ include "accounting.fullname" . }}-ca
- name: scratch
  emptyDir:
    sizeLimit: 16Mi
{{- end -}}
