package shipped

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

const admissionFile = "warmgate-admission.yaml"

// TestAdmissionConfiguration compares warmgate-admission.yaml with warmgate.yaml. TestAdmissionGuide of e2e/doctest
// runs it.
func TestAdmissionConfiguration(t *testing.T) {
	c := samePlugin(t, admissionFile)
	if c.API.Path != "/warmgate/v1" || !c.API.Only || c.Budget() == nil || !c.AmongClusters() {
		t.Errorf("no API alone for targets: %+v", c)
	}
}

// TestTrafficBesideTasks runs the file in Envoy: what is no call of the API takes no slots from tasks, and is never
// refused, however many tasks run.
func TestTrafficBesideTasks(t *testing.T) {
	const chat, slots = "/v1/chat/completions", 30
	hold := make(chan struct{})
	server := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.WriteHeader(http.StatusOK); r.URL.Path == chat {
			w.(http.Flusher).Flush()
			<-hold
		}
	}))
	text := find[string](t, parse(t, "envoy-config/"+admissionFile), pluginPath+".configuration.value")
	g := take(t, harness.Options{Config: text, Endpoints: []harness.Endpoint{server}})
	token := "authorization: Bearer " + string(samePlugin(t, admissionFile).API.Token)
	call := func(method, name, body string) string {
		return harness.Send(t, nil, method, g.URL()+"/warmgate/v1/"+name, body, token).Body
	}
	harness.Await(t, func() error {
		for range 16 {
			if body := call(http.MethodGet, "models", ""); strings.Count(body, `"state":"open"`) != 2 {
				return fmt.Errorf("the targets are not open: %s", body)
			}
			if a := harness.Send(t, nil, http.MethodGet, g.URL(), ""); a.Status != http.StatusOK {
				return fmt.Errorf("requests are answered %d: %s", a.Status, a.Body)
			}
		}
		return nil
	})
	var open []*http.Response
	defer func() {
		close(hold)
		for _, resp := range open {
			resp.Body.Close()
		}
	}()
	post := func(what string) {
		open = append(open, harness.OpenT(t, nil, http.MethodPost, g.URL()+chat, `{}`))
		if status := open[len(open)-1].StatusCode; status != http.StatusOK {
			t.Errorf("%s: answered %d", what, status)
		}
	}
	for range slots + 1 {
		post("without a token")
	}
	var tasks []string
	for range slots + 1 {
		if _, id, ok := strings.Cut(call(http.MethodPost, "schedule", `{"estimated_tokens":1}`), `"task_id":"`); ok {
			tasks = append(tasks, strings.TrimSuffix(id, `"}`))
		}
	}
	if len(tasks) != slots {
		t.Errorf("beside %d requests %d tasks are admitted, want %d", slots+1, len(tasks), slots)
	}
	for range 8 { // over both workers
		post("beside as many tasks as there may be")
	}
	for _, id := range tasks {
		call(http.MethodPost, "complete", `{"task_id":"`+id+`","actual_tokens":0}`)
	}
	g.DrainedT(t)
}
