{{/* Labels that select a component's pods; argument: list of the component and the root. */}}
{{- define "jupyterhub.selector" -}}
{{- $component := index . 0 -}}{{- $root := index . 1 -}}
app: {{ $root.Chart.Name }}
component: {{ $component }}
release: {{ $root.Release.Name }}
{{- end -}}

{{- define "jupyterhub.labels" -}}
{{- $component := index . 0 -}}{{- $root := index . 1 -}}
{{ include "jupyterhub.selector" . }}
app.kubernetes.io/component: {{ $component }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/name: {{ $root.Chart.Name }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end -}}

{{/* Environment from {NAME: text} or {NAME: {valueFrom: …}}. */}}
{{- define "jupyterhub.environment" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  {{- if kindIs "map" $value }}
  {{- toYaml $value | nindent 2 }}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A NetworkPolicy; argument: name, component, values of the policy, fixed rules of both directions, root. */}}
{{- define "jupyterhub.networkPolicy" -}}
{{- $allow := .policy.egressAllowRules -}}
{{- $private := list "10.0.0.0/8" "172.16.0.0/12" "192.168.0.0/16" -}}
{{- $metadata := printf "%s/32" .root.Values.singleuser.cloudMetadata.ip -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  labels: {{- include "jupyterhub.labels" (list .component .root) | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "jupyterhub.selector" (list .component .root) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- range .policy.allowedIngressPorts }}
    - ports: [{port: {{ . }}}]
    {{- end }}
    {{- range $label, $port := .access }}
    - from: [{podSelector: {matchLabels: {hub.jupyter.org/network-access-{{ $label }}: "true"}}}]
      ports: [{port: {{ $port }}}]
    {{- end }}
    {{- with .policy.ingress }}{{ toYaml . | nindent 4 }}{{ end }}
  egress:
    {{- range .reaches }}
    - to: [{podSelector: {matchLabels: {{ include "jupyterhub.selector" (list (index . 0) $.root) | fromYaml | toJson }}}}]
      ports: [{port: {{ index . 1 }}}]
    {{- end }}
    {{- if or $allow.dnsPortsCloudMetadataServer $allow.dnsPortsKubeSystemNamespace $allow.dnsPortsPrivateIPs }}
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
      to:
        {{- if $allow.dnsPortsCloudMetadataServer }}
        - ipBlock: {cidr: {{ $metadata }}}
        {{- end }}
        {{- if $allow.dnsPortsKubeSystemNamespace }}
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
        {{- end }}
        {{- if $allow.dnsPortsPrivateIPs }}
        {{- range $private }}
        - ipBlock: {cidr: {{ . }}}
        {{- end }}
        {{- end }}
    {{- end }}
    {{- if $allow.nonPrivateIPs }}
    - to: [{ipBlock: {cidr: 0.0.0.0/0, except: {{ append $private $metadata | toJson }}}}]
    {{- end }}
    {{- if $allow.privateIPs }}
    - to: [{{ range $index, $network := $private }}{{ if $index }}, {{ end }}{ipBlock: {cidr: {{ $network }}}}{{ end }}]
    {{- end }}
    {{- if $allow.cloudMetadataServer }}
    - to: [{ipBlock: {cidr: {{ $metadata }}}}]
    {{- end }}
    {{- with .policy.egress }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end -}}
