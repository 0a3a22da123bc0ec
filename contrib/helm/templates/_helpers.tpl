{{- define "hasp.labels" -}}
{{ include "hasp.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "hasp.selector" -}}
app.kubernetes.io/name: hasp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hasp.name" -}}
{{ contains "hasp" .Release.Name | ternary .Release.Name (printf "%s-hasp" .Release.Name) }}
{{- end }}

{{- define "hasp.config" -}}
{{ tpl .Values.config . }}
{{- end }}

{{/* The container, for the chart's Deployment or for your own application's pod. */}}
{{- define "hasp.container" -}}
name: hasp
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: ["/etc/hasp/hasp.ini"]
ports:
  - {name: redis, containerPort: {{ .Values.ports.redis }}}
  - {name: http, containerPort: {{ .Values.ports.http }}}
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 990
  runAsGroup: 990
  seccompProfile: {type: RuntimeDefault}
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: hasp-config, mountPath: /etc/hasp, readOnly: true}
  {{- if .Values.password.secret }}
  - {name: hasp-secret, mountPath: /var/run/secrets/hasp, readOnly: true}
  {{- end }}
{{- end }}

{{/* The pod's volumes that hasp.container mounts. */}}
{{- define "hasp.volumes" -}}
- name: hasp-config
  configMap: {name: {{ include "hasp.name" . }}}
{{- if .Values.password.secret }}
- name: hasp-secret
  secret: {secretName: {{ .Values.password.secret }}}
{{- end }}
{{- end }}
