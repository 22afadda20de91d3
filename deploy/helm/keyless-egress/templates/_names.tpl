{{- define "keyless.name" -}}
{{ .Release.Name }}-keyless-egress
{{- end }}
{{- define "keyless.labels" -}}
{"app.kubernetes.io/name": "keyless-egress", "app.kubernetes.io/instance": {{ .Release.Name | quote }}}
{{- end }}
{{- define "keyless.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- define "keyless.confined" -}}
{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}
{{- end }}
