{{/* Name of every object: the release's, where it already holds the chart's. */}}
{{- define "tapis-pods.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tapis-pods.metricsName" -}}{{ include "tapis-pods.fullname" . }}-metrics{{- end -}}
{{- define "tapis-pods.settingsName" -}}{{ include "tapis-pods.fullname" . }}-settings{{- end -}}
{{- define "tapis-pods.authoritiesName" -}}{{ include "tapis-pods.fullname" . }}-authorities{{- end -}}
{{- define "tapis-pods.tenantsName" -}}{{ include "tapis-pods.fullname" . }}-tenants{{- end -}}
{{- define "tapis-pods.statusPageName" -}}{{ include "tapis-pods.fullname" . }}-status-page{{- end -}}
{{- define "tapis-pods.webName" -}}{{ include "tapis-pods.fullname" . }}-web{{- end -}}
{{- define "tapis-pods.reconcilerName" -}}{{ include "tapis-pods.fullname" . }}-reconciler{{- end -}}

{{- define "tapis-pods.filesName" -}}{{ include "tapis-pods.fullname" . }}-files{{- end -}}

{{/* Pods that answer. */}}
{{- define "tapis-pods.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: api
{{- end -}}

{{/* Pods that reconcile. */}}
{{- define "tapis-pods.reconcilerLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: reconciler
{{- end -}}

{{/* Pods with the volumes. */}}
{{- define "tapis-pods.filesLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: files
{{- end -}}

{{- define "tapis-pods.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* One container of the image; takes (dict "root" $ "name" … "arguments" (list …) "environment" (list …)). */}}
{{- define "tapis-pods.container" -}}
name: {{ .name }}
image: {{ printf "%s@%s" .root.Values.image.repository .root.Values.image.digest }}
imagePullPolicy: IfNotPresent
args: {{ toJson .arguments }}
envFrom:
  - configMapRef:
      name: {{ include "tapis-pods.settingsName" .root }}
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
  - {name: database, mountPath: /etc/pods/database, readOnly: true}
  - {name: authorities, mountPath: /etc/pods/authorities, readOnly: true}
  - {name: scratch, mountPath: /tmp}
  - {name: tenants, mountPath: /etc/pods/tenants, readOnly: true}
{{- if .files }}
  - {name: volumes, mountPath: /var/lib/pods/volumes}
{{- end }}
{{- if .login }}
  - {name: login, mountPath: /etc/pods/login, readOnly: true}
{{- end }}
{{- if .kubernetes }}
  - {name: kubernetes, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- end -}}

{{/* What all pods have in common; its list of volumes is the last, so that a pod can add some. */}}
{{- define "tapis-pods.podSettings" -}}
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
      name: {{ include "tapis-pods.authoritiesName" . }}
  - name: scratch
    emptyDir:
      sizeLimit: 64Mi
  - name: tenants
    configMap:
      name: {{ include "tapis-pods.tenantsName" . }}
  # secrets of logins, mounted where they are served only
  - name: login
    projected:
      defaultMode: 0440
      sources:
        - secret:
            name: {{ .Values.login.client.existingSecret.name }}
            items: [{key: {{ .Values.login.client.existingSecret.key }}, path: client-secret}]
        - secret:
            name: {{ .Values.login.sessionKey.existingSecret.name }}
            items: [{key: {{ .Values.login.sessionKey.existingSecret.key }}, path: session-key}]
  # what a service account's token is mounted with, and only where the container needs it
  - name: kubernetes
    projected:
      defaultMode: 0440
      sources:
        - serviceAccountToken: {path: token, expirationSeconds: 3600}
        - configMap:
            name: kube-root-ca.crt
            items: [{key: ca.crt, path: ca.crt}]
        - downwardAPI:
            items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]
{{- end -}}

{{/* Ports and probes of what answers requests. */}}
{{- define "tapis-pods.serving" -}}
ports:
  - {name: http, containerPort: 8080}
  - {name: metrics, containerPort: 9464}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 1
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 3
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 6
lifecycle:
  # time for the nodes to take the pod out of the Service before it stops answering
  preStop:
    sleep: {seconds: 5}
{{- end -}}
