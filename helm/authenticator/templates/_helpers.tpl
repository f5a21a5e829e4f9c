{{/* Name of every object: the release's, where it already holds the chart's. */}}
{{- define "authenticator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "authenticator.metricsName" -}}{{ include "authenticator.fullname" . }}-metrics{{- end -}}
{{- define "authenticator.webName" -}}{{ include "authenticator.fullname" . }}-web{{- end -}}
{{- define "authenticator.settingsName" -}}{{ include "authenticator.fullname" . }}-settings{{- end -}}
{{- define "authenticator.authoritiesName" -}}{{ include "authenticator.fullname" . }}-authorities{{- end -}}

{{/* Pods that answer. */}}
{{- define "authenticator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: api
{{- end -}}

{{- define "authenticator.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* One container of the image; takes (dict "root" $ "name" … "arguments" (list …)). */}}
{{- define "authenticator.container" -}}
name: {{ .name }}
image: {{ printf "%s@%s" .root.Values.image.repository .root.Values.image.digest }}
imagePullPolicy: IfNotPresent
args: {{ toJson .arguments }}
envFrom:
  - configMapRef:
      name: {{ include "authenticator.settingsName" .root }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml .root.Values.resources | nindent 2 }}
volumeMounts:
  - {name: secrets, mountPath: /etc/authenticator/secrets, readOnly: true}
  - {name: authorities, mountPath: /etc/authenticator/authorities, readOnly: true}
  - {name: scratch, mountPath: /tmp}
{{- end -}}

{{/* Of the pod, beside its containers. */}}
{{- define "authenticator.podSettings" -}}
serviceAccountName: {{ include "authenticator.fullname" . }}
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
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        - secret:
            name: {{ .Values.database.existingSecret.name }}
            items: [{key: {{ .Values.database.existingSecret.key }}, path: database-password}]
        - secret:
            name: {{ .Values.passwordClient.existingSecret.name }}
            items: [{key: {{ .Values.passwordClient.existingSecret.key }}, path: password-client-secret}]
        - secret:
            name: {{ .Values.login.client.existingSecret.name }}
            items: [{key: {{ .Values.login.client.existingSecret.key }}, path: client-secret}]
        - secret:
            name: {{ .Values.login.sessionKey.existingSecret.name }}
            items: [{key: {{ .Values.login.sessionKey.existingSecret.key }}, path: session-key}]
  - name: authorities
    configMap:
      name: {{ include "authenticator.authoritiesName" . }}
  - name: scratch
    emptyDir:
      sizeLimit: 64Mi
{{- end -}}
