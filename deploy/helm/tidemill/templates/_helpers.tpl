{{- define "tidemill.name" -}}
{{- if contains "tidemill" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-tidemill" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "tidemill.selector" -}}
app.kubernetes.io/name: tidemill
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* What every object is called and labelled. Takes root and component. */}}
{{- define "tidemill.metadata" -}}
name: {{ include "tidemill.name" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "tidemill.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The URL and the password of a database, by the values that say where they are. Takes database and secret. */}}
{{- define "tidemill.database" -}}
- name: TIDEMILL_DATABASE_URL
  value: {{ .database.url | quote }}
{{- if or .database.existingSecret.name .database.password }}
- name: TIDEMILL_DATABASE_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .database.existingSecret.name | default .secret }}
      key: {{ ternary .database.existingSecret.key "password" (ne .database.existingSecret.name "") }}
{{- end }}
{{- end }}

{{/*
A user that is not root, in a file system that nobody writes. Takes root and component. A render worker has no fsGroup, which would change
the group of every file on the NAS.
*/}}
{{- define "tidemill.podSecurity" -}}
{{- $context := dict "runAsNonRoot" true "runAsUser" 10001 "runAsGroup" 10001 "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- if ne .component "render" }}
{{- $context = merge $context (dict "fsGroup" 10001 "fsGroupChangePolicy" "OnRootMismatch") }}
{{- end -}}
automountServiceAccountToken: false
# The variables of services would only resemble those of the configuration.
enableServiceLinks: false
securityContext: {{- mergeOverwrite $context (deepCopy .root.Values.podSecurityContext) | toYaml | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where pods run. */}}
{{- define "tidemill.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $key }}
{{ $key }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tidemill.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/*
A deployment of one kind of process. Takes root, component, values (replicas and resources), image, and as texts args, env,
probes, mounts and volumes.
*/}}
{{- define "tidemill.deployment" -}}
{{- $root := .root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "tidemill.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      {{- include "tidemill.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "tidemill.selector" . | nindent 8 }}
      annotations:
        checksum/config: {{ printf "%s%s%s" $root.Values.config $root.Values.database.url $root.Values.database.password | sha256sum }}
        {{- with $root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "tidemill.podSecurity" . | nindent 6 }}
      # At SIGTERM a process releases its leases within 25 seconds, so others take over at once.
      terminationGracePeriodSeconds: 40
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "tidemill.selector" . | nindent 14 }}
      containers:
        - name: {{ .component }}
          image: {{ printf "%s:%s" .image.repository (.image.tag | default $root.Chart.AppVersion) | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ .args }}
          env:
            {{- include "tidemill.database" (dict "database" $root.Values.database "secret" (printf "%s-database" (include "tidemill.name" $root))) | nindent 12 }}
            {{- with .env }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $root.Values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with .probes }}
          {{- . | nindent 10 }}
          {{- end }}
          resources: {{- toYaml .values.resources | nindent 12 }}
          {{- include "tidemill.containerSecurity" $root | nindent 10 }}
          volumeMounts:
            - { name: data, mountPath: /var/lib/tidemill }
            - { name: temporary, mountPath: /tmp }
            {{- if $root.Values.config }}
            - { name: config, mountPath: /etc/tidemill, readOnly: true }
            {{- end }}
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $root.Values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- $data := .values.data | default (dict "emptyDir" dict) }}
        - name: data
          {{- toYaml $data | nindent 10 }}
        - name: temporary
          emptyDir: {}
        {{- if $root.Values.config }}
        - name: config
          configMap: { name: {{ include "tidemill.name" $root }}-config }
        {{- end }}
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $root.Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "tidemill.placement" $root | trim }}
      {{- . | nindent 6 }}
      {{- end }}
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "tidemill.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "tidemill.selector" . | nindent 6 }}
{{- end }}
{{- end }}
