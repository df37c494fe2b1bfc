{{- /* Refuses values below observability that have no effect or do not fit together. Takes them, as v, and unused. */}}
{{- define "warmgate.checkObservability" -}}
{{- $v := .v }}
{{- if not (or $v.podMonitor.enabled $v.rules.enabled) }}
{{- $why := "without observability.podMonitor.enabled or observability.rules.enabled" }}
{{- include "warmgate.unused" (merge (dict "paths" (list "observability.labels") "why" $why) .unused) }}
{{- end }}
{{- range $section := list "podMonitor" "rules" "keda" }}
{{- $paths := list }}
{{- range $key := omit (get $v $section) "enabled" | keys | sortAlpha }}
{{- $paths = append $paths (printf "observability.%s.%s" $section $key) }}
{{- end }}
{{- if not (get $v $section).enabled }}
{{- $why := printf "without observability.%s.enabled" $section }}
{{- include "warmgate.unused" (merge (dict "paths" $paths "why" $why) $.unused) }}
{{- end }}
{{- end }}
{{- if and $v.keda.enabled (not $v.keda.cluster) }}
{{- fail (print "observability.keda.cluster names the cluster of the model servers: see the label cluster of "
  "warmgate_inflight_requests") }}
{{- end }}
{{- if gt (int $v.keda.minReplicas) (int $v.keda.maxReplicas) }}
{{- fail (printf "observability.keda.minReplicas is %d, want at most maxReplicas, %d" (int $v.keda.minReplicas)
  (int $v.keda.maxReplicas)) }}
{{- end }}
{{- end }}
