{{- define "csi-driver-nfs.labels" -}}
app.kubernetes.io/name: csi-driver-nfs
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strata
{{- end }}
