{{/* Name of every object: the release's, where it already holds the chart's. */}}
{{- define "ml-hub.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ml-hub.metricsName" -}}{{ include "ml-hub.fullname" . }}-metrics{{- end -}}
{{- define "ml-hub.settingsName" -}}{{ include "ml-hub.fullname" . }}-settings{{- end -}}
{{- define "ml-hub.authoritiesName" -}}{{ include "ml-hub.fullname" . }}-authorities{{- end -}}
{{- define "ml-hub.catalogueName" -}}{{ include "ml-hub.fullname" . }}-catalogue{{- end -}}
{{- define "ml-hub.loadName" -}}{{ include "ml-hub.fullname" . }}-load{{- end -}}

{{/* Pods that answer. */}}
{{- define "ml-hub.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: api
{{- end -}}

{{- define "ml-hub.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* One container of the image; takes (dict "root" $ "name" … "arguments" (list …) "environment" (list …)). */}}
{{- define "ml-hub.container" -}}
name: {{ .name }}
image: {{ printf "%s@%s" .root.Values.image.repository .root.Values.image.digest }}
imagePullPolicy: IfNotPresent
args: {{ toJson .arguments }}
envFrom:
  - configMapRef:
      name: {{ include "ml-hub.settingsName" .root }}
{{- with .environment }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml .root.Values.resources | nindent 2 }}
volumeMounts:
  - {name: database, mountPath: /etc/ml-hub/database, readOnly: true}
  - {name: authorities, mountPath: /etc/ml-hub/authorities, readOnly: true}
  - {name: scratch, mountPath: /tmp}
{{- if eq .root.Values.catalogue.source "file" }}
  - {name: catalogue, mountPath: /etc/ml-hub/catalogue, readOnly: true}
{{- end }}
{{- if .login }}
  - {name: login, mountPath: /etc/ml-hub/login, readOnly: true}
{{- end }}
{{- end -}}

{{/* What all pods have in common; its list of volumes is the last, so that a pod can add some. */}}
{{- define "ml-hub.podSettings" -}}
serviceAccountName: {{ include "ml-hub.fullname" . }}
automountServiceAccountToken: false
enableServiceLinks: false
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
{{- with .Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: database
    secret:
      secretName: {{ .Values.database.existingSecret.name }}
      defaultMode: 0440
      items:
        - {key: {{ .Values.database.existingSecret.key }}, path: password}
  - name: authorities
    configMap:
      name: {{ include "ml-hub.authoritiesName" . }}
  - name: scratch
    emptyDir:
      sizeLimit: 64Mi
{{- if eq .Values.catalogue.source "file" }}
  - name: catalogue
    configMap:
      name: {{ include "ml-hub.catalogueName" . }}
{{- end }}
{{- end -}}

{{/* Spec of a Job that loads the catalogue of a hub. */}}
{{- define "ml-hub.load" -}}
{{- $arguments := list "load" "--hub" "--limit" (.Values.catalogue.limit | int | toString) -}}
{{- with .Values.hub.url }}
{{- $arguments = concat $arguments (list "--endpoint" .) -}}
{{- end -}}
{{- $environment := list -}}
{{- if .Values.hub.ca }}
{{- $environment = list (dict "name" "SSL_CERT_FILE" "value" "/etc/ml-hub/authorities/hub.pem") -}}
{{- end -}}
{{- $load := dict "root" . "name" "load" "arguments" $arguments "environment" $environment -}}
backoffLimit: 3
activeDeadlineSeconds: 1800
template:
  metadata:
    labels:
      {{- include "ml-hub.labels" . | nindent 6 }}
      app.kubernetes.io/component: load
  spec:
    {{- include "ml-hub.podSettings" . | nindent 4 }}
    restartPolicy: Never
    # the Deployment's own may not have run yet
    initContainers:
      - {{- include "ml-hub.container" (dict "root" . "name" "migrate" "arguments" (list "migrate")) | nindent 8 }}
    containers:
      - {{- include "ml-hub.container" $load | nindent 8 }}
{{- end -}}
