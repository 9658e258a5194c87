{{/*
One release a cluster (the CRD belongs to it), so the names are fixed: what a page or an alert says is what the cluster has.
*/}}
{{- define "specdecode-operator.name" -}}
specdecode-operator
{{- end }}

{{/* What Services, monitors, policies and the Deployment select. Never a version in it: a selector can't change. */}}
{{- define "specdecode-operator.selectorLabels" -}}
app.kubernetes.io/name: specdecode-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "specdecode-operator.labels" -}}
{{ include "specdecode-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: specdecode
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "specdecode-operator.image" -}}
{{- with .Values.image }}
{{- if not .repository }}
{{- fail "image.repository is empty: name the repository that holds the operator's image, for example --set image.repository=127.0.0.1:5000/specdecode/operator" }}
{{- end }}
{{- if and .digest .tag }}
{{- fail (printf "image.digest (%s) and image.tag (%s) are both set: keep one; the digest is the one that can't change" .digest .tag) }}
{{- end }}
{{- end }}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
