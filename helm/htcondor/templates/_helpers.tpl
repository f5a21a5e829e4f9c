{{/* Name of every object: the release's, where it already holds the chart's. */}}
{{- define "htcondor.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "htcondor.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "htcondor.labels" -}}
{{ include "htcondor.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "htcondor.image" -}}
image: {{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
imagePullPolicy: IfNotPresent
{{- end -}}

{{- define "htcondor.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Of the pods of the platform. */}}
{{- define "htcondor.pod" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
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

{{/* Where each container writes: its state, and copies of its secrets, in memory. */}}
{{- define "htcondor.mounts" -}}
- {name: config, mountPath: /etc/condor/config.d, readOnly: true}
- {name: secrets, mountPath: /secrets, readOnly: true}
{{- end -}}

{{- define "htcondor.scratch" -}}
- name: {{ . }}-state
  emptyDir: {sizeLimit: 256Mi}
- name: {{ . }}-secrets
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: {{ . }}-tmp
  emptyDir: {sizeLimit: 64Mi}
{{- end -}}

{{- define "htcondor.scratchMounts" -}}
- {name: {{ . }}-state, mountPath: /condor}
- {name: {{ . }}-secrets, mountPath: /condor/secrets}
- {name: {{ . }}-tmp, mountPath: /tmp}
{{- end -}}

{{/* Configuration of one part; takes (dict "root" $ "part" "central-manager"). */}}
{{- define "htcondor.config" -}}
10-common.conf: |
{{ tpl (.root.Files.Get "files/common.conf") .root | indent 2 }}
{{- with .part }}
20-{{ . }}.conf: |
{{ tpl ($.root.Files.Get (printf "files/%s.conf" .)) $.root | indent 2 }}
{{- end }}
{{- end -}}

{{/* Answers on the shared port, with the pool's tokens. */}}
{{- define "htcondor.probes" -}}
startupProbe:
  tcpSocket: {port: condor}
  periodSeconds: 1
  failureThreshold: 120
readinessProbe:
  tcpSocket: {port: condor}
  periodSeconds: 5
livenessProbe:
  exec: {command: {{ . | toJson }}}
  periodSeconds: 60
  timeoutSeconds: 30
  failureThreshold: 3
{{- end -}}

{{/* Rule of a NetworkPolicy: the cluster's DNS. */}}
{{- define "htcondor.dns" -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
      podSelector: {matchLabels: {k8s-app: kube-dns}}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}
