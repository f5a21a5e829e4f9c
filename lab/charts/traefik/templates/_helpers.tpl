{{- define "traefik.selector" -}}
app.kubernetes.io/name: traefik
app.kubernetes.io/instance: {{ .Release.Name }}-{{ .Release.Namespace }}
{{- end -}}

{{- define "traefik.labels" -}}
{{ include "traefik.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* Command-line arguments, one a line. */}}
{{- define "traefik.arguments" -}}
{{- if not .Values.global.checkNewVersion }}
- --global.checkNewVersion=false
{{- end }}
{{- if .Values.global.sendAnonymousUsage }}
- --global.sendAnonymousUsage
{{- end }}
- --ping=true
- --metrics.prometheus=true
- --metrics.prometheus.entrypoint=metrics
{{- if .Values.metrics.prometheus.addRoutersLabels }}
- --metrics.prometheus.addRoutersLabels=true
{{- end }}
{{- if .Values.providers.kubernetesCRD.enabled }}
- --providers.kubernetescrd
- --providers.kubernetescrd.allowEmptyServices=true
{{- end }}
{{- with .Values.providers.kubernetesIngress }}
{{- if .enabled }}
- --providers.kubernetesingress
- --providers.kubernetesingress.allowEmptyServices=true
{{- if .publishedService.enabled }}
- --providers.kubernetesingress.ingressendpoint.publishedservice={{ $.Release.Namespace }}/{{ $.Release.Name }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $port := .Values.ports }}
- --entryPoints.{{ $name }}.address=:{{ $port.port }}/tcp
{{- with $port.asDefault }}
- --entryPoints.{{ $name }}.asDefault={{ . }}
{{- end }}
{{- with $port.middlewares }}
- --entryPoints.{{ $name }}.http.middlewares={{ join "," . }}
{{- end }}
{{- if ($port.tls).enabled }}
- --entryPoints.{{ $name }}.http.tls=true
{{- with $port.tls.certResolver }}
- --entryPoints.{{ $name }}.http.tls.certResolver={{ . }}
{{- end }}
{{- end }}
{{- with ($port.proxyProtocol).trustedIPs }}
- --entryPoints.{{ $name }}.proxyProtocol.trustedIPs={{ join "," . }}
{{- end }}
{{- range $section, $settings := $port.transport }}
{{- range $key, $value := $settings }}
- --entryPoints.{{ $name }}.transport.{{ $section }}.{{ $key }}={{ $value }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.logs.access }}
{{- if .enabled }}
- --accesslog=true
- --accesslog.format={{ .format }}
{{- range $name, $action := .fields.general.names }}
- --accesslog.fields.names.{{ $name }}={{ $action }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $resolver := .Values.certificatesResolvers }}
{{- range $key, $value := $resolver.acme }}
- --certificatesresolvers.{{ $name }}.acme.{{ $key }}={{ $value }}
{{- end }}
{{- end }}
{{- range .Values.additionalArguments }}
- {{ . }}
{{- end }}
{{- end -}}
