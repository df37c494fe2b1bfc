// Package deploy has what the resources for control planes say of themselves, for programs that check the values of
// the Helm chart.
package deploy

import _ "embed"

// ValuesSchema is the JSON schema of the values of the Helm chart.
//
//go:embed helm/values.schema.json
var ValuesSchema []byte
