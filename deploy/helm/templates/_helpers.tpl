{{- /* The resources of a file, as a list in JSON. Takes Files and the name. */}}
{{- define "warmgate.resources" -}}
{{- $list := list }}
{{- range $document := regexSplit "(?m)^---$" (.Files.Get (printf "files/%s" .name)) -1 }}
{{- $list = append $list (fromYaml $document) }}
{{- end }}
{{- toJson $list }}
{{- end }}

{{- /* The plugin's configuration on Istio and Envoy Gateway, in JSON: that of the values, or else of the resource, with
the names of the clusters that the chart makes. A rule inherits nothing, so each part with a policy has them. Takes
Values and the configuration of the resource, shipped. */}}
{{- define "warmgate.config" -}}
{{- $envoy := deepCopy .shipped.lb_config.envoy }}
{{- $own := dict "envoy" $envoy }}
{{- if .Values.metrics.enabled }}
{{- $_ := set $envoy "metrics_cluster" "warmgate-metrics" }}
{{- end }}
{{- if .Values.redis.enabled }}
{{- $_ := set $envoy "redis_cluster" "warmgate-redis" }}
{{- range $key, $value := pick .Values.redis "username" "password" }}
{{- if $value }}
{{- $_ = set $own $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- $config := deepCopy (default .shipped .Values.config) }}
{{- range $part := prepend (dig "_rules_" list $config) $config }}
{{- if hasKey $part "lb_policy" }}
{{- $mine := deepCopy $own }}
{{- if dig "lb_config" "envoy" "endpoints" nil $part }}
{{- $_ := unset $mine.envoy "admin_cluster" }}
{{- end }}
{{- $_ := set $part "lb_config" (merge (dig "lb_config" dict $part) $mine) }}
{{- end }}
{{- end }}
{{- toJson $config }}
{{- end }}
