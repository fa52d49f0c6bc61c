{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "kvbench.labels" -}}
app.kubernetes.io/name: kvbench
app.kubernetes.io/part-of: kvbench
{{- end }}

{{- define "kvbench.workerLabels" -}}
app: kvbench
app.kubernetes.io/component: worker
{{ include "kvbench.labels" . }}
{{- end }}

{{- define "kvbench.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "kvbench.tokenSecret" -}}
{{ .Values.token.secret | default "kvbench-token" }}
{{- end }}
