{{/* Where a backend's files are mounted. */}}
{{- define "specdecode-operator.backendFolder" -}}
/etc/specdecode/backends/{{ .name }}
{{- end }}

{{/* metricsBackends as the operator reads them: Secrets and ConfigMaps have become paths of files. */}}
{{- define "specdecode-operator.backends" -}}
{{- $found := list }}
{{- $names := list }}
{{- range .Values.metricsBackends }}
{{- if has .name $names }}
{{- fail (printf "metricsBackends: two are named %s: an object chooses one by its name" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- $folder := include "specdecode-operator.backendFolder" . }}
{{- $one := pick . "name" "url" "tenant" "tenantHeader" "labels" "namespaces" }}
{{- if .ca }}
{{- $one = set $one "caFile" (printf "%s/ca.crt" $folder) }}
{{- end }}
{{- if .bearer }}
{{- $one = set $one "bearerFile" (printf "%s/token" $folder) }}
{{- end }}
{{- if .basic }}
{{- $one = set $one "usernameFile" (printf "%s/username" $folder) }}
{{- $one = set $one "passwordFile" (printf "%s/password" $folder) }}
{{- end }}
{{- $found = append $found $one }}
{{- end }}
{{- with $found }}{{ toJson . }}{{ end }}
{{- end }}

{{/* The sources of one backend's volume; nothing if it needs no file. */}}
{{- define "specdecode-operator.backendSources" -}}
{{- with .ca }}
- {{ if .configMap }}configMap{{ else }}secret{{ end }}:
    name: {{ .configMap | default .secret }}
    items:
      - key: {{ .key | default "ca.crt" }}
        path: ca.crt
{{- end }}
{{- with .bearer }}
- secret:
    name: {{ .secret }}
    items:
      - key: {{ .key | default "token" }}
        path: token
{{- end }}
{{- with .basic }}
- secret:
    name: {{ .secret }}
    items:
      - key: {{ .usernameKey | default "username" }}
        path: username
      - key: {{ .passwordKey | default "password" }}
        path: password
{{- end }}
{{- end }}

{{/* Ports that a policy has to let out for them, as a JSON list. */}}
{{- define "specdecode-operator.backendPorts" -}}
{{- $ports := .Values.networkPolicy.metricsBackendPorts }}
{{- if not $ports }}
{{- range .Values.metricsBackends }}
{{- $url := urlParse .url }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- $ports = append $ports (int $port) }}
{{- end }}
{{- end }}
{{- toJson (uniq $ports) }}
{{- end }}
